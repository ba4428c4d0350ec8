package api

import (
	"fmt"

	"everloop/domain"
)

// sessionSetupBody is how a client sets up the agent of one session; what is
// left out falls back to the solution's and the service's setup.
type sessionSetupBody struct {
	Agents         []agentTypeBody      `json:"agents,omitempty" nullable:"true" maxItems:"50" doc:"Further kinds of sub-agents."`
	Permissions    []permissionRuleBody `json:"permissions,omitempty" nullable:"true" maxItems:"200" doc:"The first rule that matches a tool call decides; no rule: it is allowed."`
	Budget         *budgetBody          `json:"budget,omitempty" doc:"The budget of all chats of the session." example:"{\"max_tokens\": 200000}"`
	Compaction     *compactionChange    `json:"compaction,omitempty" doc:"The settings of compaction."`
	QuestionPolicy *questionPolicyBody  `json:"question_policy,omitempty" doc:"What becomes of questions that no user answers. {}: they wait."`
	EnvBuckets     []string             `json:"env_buckets,omitempty" nullable:"true" maxItems:"20" doc:"Environment buckets that reach its tools besides default and that of its solution."`
	StuckAfter     *int                 `json:"stuck_after,omitempty" nullable:"true" minimum:"3" maximum:"1000" doc:"The same tool call with the same result so often in a row ends the chat (stuck_detected); default 60."`
	MaxSteps       *int                 `json:"max_steps,omitempty" nullable:"true" minimum:"1" maximum:"10000" doc:"Model calls of one chat at most." example:"50"`
}

// questionPolicyBody is what becomes of questions that no user answers.
type questionPolicyBody struct {
	TimeoutS       *int                  `json:"timeout_s,omitempty" nullable:"true" minimum:"1" maximum:"2592000" doc:"Seconds after which on_timeout answers; left out: a question waits." example:"3600"`
	OnTimeout      *domain.DefaultPolicy `json:"on_timeout,omitempty" nullable:"true" enum:"choose,first_option" doc:"choose (default): the model chooses, on record; first_option: the first option of each question. A permission request is denied."`
	EscalateAfterS *int                  `json:"escalate_after_s,omitempty" nullable:"true" minimum:"1" maximum:"2592000" doc:"Seconds after which webhooks are sent question.escalated, before the timeout; left out: they are not." example:"600"`
}

// domain gives the policy as the records keep it; nil stays nil.
func (b *questionPolicyBody) domain() *domain.QuestionPolicy {
	if b == nil {
		return nil
	}

	return &domain.QuestionPolicy{TimeoutS: value(b.TimeoutS), OnTimeout: value(b.OnTimeout), EscalateAfterS: value(b.EscalateAfterS)}
}

type agentTypeBody struct {
	Name        string   `json:"name" minLength:"1" maxLength:"64" pattern:"^[a-zA-Z0-9][a-zA-Z0-9_-]*$" doc:"Its name."`
	Description string   `json:"description" minLength:"1" maxLength:"1024" doc:"When to use it, for the model that chooses."`
	Prompt      string   `json:"prompt,omitempty" maxLength:"50000" doc:"Added to its system prompt."`
	Tools       []string `json:"tools,omitempty" nullable:"true" maxItems:"200" doc:"Its only tools; left out: all."`
	Model       string   `json:"model,omitempty" maxLength:"256" doc:"The model."`
}

type permissionRuleBody struct {
	Tool     string                    `json:"tool" minLength:"1" maxLength:"256" doc:"A tool's name, * for any text, as mcp__files__*. Network: the rule is one of a domain that commands may connect to."`
	Pattern  string                    `json:"pattern,omitempty" maxLength:"2000" doc:"What the main argument (command, path, URL) must look like, * for any text; empty: every call. Of the tool Network a domain, as example.org, *.example.org or example.org:8443."`
	Decision domain.PermissionDecision `json:"decision" enum:"allow,ask,deny" doc:"The decision about the call."`
}

type budgetBody struct {
	MaxTokens *int64   `json:"max_tokens,omitempty" nullable:"true" minimum:"1" maximum:"1000000000000" doc:"Input and output of the session's chats together; null: unbounded." example:"200000"`
	MaxCost   *float64 `json:"max_cost,omitempty" nullable:"true" minimum:"0" maximum:"1000000000" doc:"By the prices of the models; null: unbounded."`
}

type compactionChange struct {
	Auto         *bool `json:"auto,omitempty" nullable:"true" doc:"Whether it is automatic."`
	ThresholdPct *int  `json:"threshold_pct,omitempty" nullable:"true" minimum:"10" maximum:"95" doc:"Percent of the context window at which the history is summarised."`
	KeepLast     *int  `json:"keep_last,omitempty" nullable:"true" minimum:"0" maximum:"200" doc:"Turns that stay as they are."`
}

// domain gives the setup as the records keep it.
func (b *sessionSetupBody) domain() domain.SessionSetup {
	var setup domain.SessionSetup
	if b == nil {
		return setup
	}

	for _, a := range b.Agents {
		setup.Agents = append(setup.Agents, domain.AgentType(a))
	}

	for _, p := range b.Permissions {
		setup.Permissions = append(setup.Permissions, domain.PermissionRule(p))
	}

	if b.Budget != nil {
		budget := domain.Budget(*b.Budget)
		setup.Budget = &budget
	}

	if c := b.Compaction; c != nil {
		policy := domain.DefaultCompaction
		if c.Auto != nil {
			policy.Auto = *c.Auto
		}

		if c.ThresholdPct != nil {
			policy.ThresholdPct = *c.ThresholdPct
		}

		if c.KeepLast != nil {
			policy.KeepLast = *c.KeepLast
		}

		setup.Compaction = &policy
	}

	setup.QuestionPolicy = b.QuestionPolicy.domain()
	setup.EnvBuckets = b.EnvBuckets
	setup.MaxSteps, setup.StuckAfter = value(b.MaxSteps), value(b.StuckAfter)

	return setup
}

// with is domain together with settings that are fields of the session itself.
func (b *sessionSetupBody) with(maxModelRetryS *int, network *domain.NetworkMode) domain.SessionSetup {
	setup := b.domain()
	setup.MaxModelRetryS, setup.Network = value(maxModelRetryS), value(network)

	return setup
}

// checkNetwork refuses a session's network that is wider than the service's, and
// rules of domains that are none.
func (a *sessionsAPI) checkNetwork(mode *domain.NetworkMode, setup *sessionSetupBody) error {
	if mode != nil && a.setup.Network.Narrowed(*mode) != *mode {
		return domain.Invalidf("body.network", "cannot be wider than the service's, which is %s", a.setup.Network)
	}

	if setup == nil {
		return nil
	}

	for i, rule := range setup.Permissions {
		if rule.Tool != domain.NetworkTool || rule.Pattern == "" {
			continue
		}

		if _, err := domain.ParseNetworkRule(rule.Pattern); err != nil {
			return domain.Invalidf(fmt.Sprintf("body.session_setup.permissions[%d].pattern", i), "%s", domain.CleanText(err.Error()))
		}
	}

	return nil
}
