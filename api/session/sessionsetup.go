package session

import (
	"fmt"

	"everloop/api/fields"
	"everloop/api/sessiondetail"
	"everloop/domain"
)

// sessionSetupBody is how a client sets up the agent of one session; what is
// left out falls back to the solution's and the service's setup.
type sessionSetupBody struct {
	Agents         []agentTypeBody                    `json:"agents,omitempty" nullable:"true" maxItems:"50" doc:"Further kinds of sub-agents."`
	Permissions    []sessiondetail.PermissionRuleBody `json:"permissions,omitempty" nullable:"true" maxItems:"200" doc:"The first rule that matches a tool call decides; no rule: it is allowed."`
	Budget         *budgetBody                        `json:"budget,omitempty" doc:"The budget of all chats of the session." example:"{\"max_tokens\": 200000}"`
	Compaction     *compactionChange                  `json:"compaction,omitempty" doc:"The settings of compaction."`
	QuestionPolicy *sessiondetail.QuestionPolicyBody  `json:"question_policy,omitempty" doc:"What becomes of questions that no user answers. {}: they wait."`
	EnvBuckets     []string                           `json:"env_buckets,omitempty" nullable:"true" maxItems:"20" doc:"Environment buckets that reach its tools besides default and that of its solution."`
	StuckAfter     *int                               `json:"stuck_after,omitempty" nullable:"true" minimum:"3" maximum:"1000" doc:"The same tool call with the same result so often in a row ends the chat (stuck_detected); default 60."`
	ModelsAllowed  []string                           `json:"models_allowed,omitempty" nullable:"true" maxItems:"100" doc:"Models that sub-agents can take besides that of their caller; left out: those that cost no more, and in unattended chats none." example:"[\"everloop-demo\"]"`
	MaxSteps       *int                               `json:"max_steps,omitempty" nullable:"true" minimum:"1" maximum:"10000" doc:"Model calls of one chat at most." example:"50"`
}

type agentTypeBody struct {
	Name        string   `json:"name" minLength:"1" maxLength:"64" pattern:"^[a-zA-Z0-9][a-zA-Z0-9_-]*$" doc:"Its name."`
	Description string   `json:"description" minLength:"1" maxLength:"1024" doc:"When to use it, for the model that chooses."`
	Prompt      string   `json:"prompt,omitempty" maxLength:"50000" doc:"Added to its system prompt."`
	Tools       []string `json:"tools,omitempty" nullable:"true" maxItems:"200" doc:"Its only tools; left out: all."`
	Model       string   `json:"model,omitempty" maxLength:"256" doc:"The model."`
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

// domain gives the setup as the database keeps it.
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

	setup.QuestionPolicy = b.QuestionPolicy.Domain()
	setup.EnvBuckets = b.EnvBuckets
	setup.ModelsAllowed = b.ModelsAllowed
	setup.MaxSteps, setup.StuckAfter = fields.Value(b.MaxSteps), fields.Value(b.StuckAfter)

	return setup
}

// with is domain together with settings that are fields of the session itself.
func (b *sessionSetupBody) with(maxModelRetryS *int, network *domain.NetworkMode) domain.SessionSetup {
	setup := b.domain()
	setup.MaxModelRetryS, setup.Network = fields.Value(maxModelRetryS), fields.Value(network)

	return setup
}

// checkNetwork refuses a session's network that is wider than the service's, and
// rules of domains that are none.
func (a *SessionsAPI) checkNetwork(mode *domain.NetworkMode, setup *sessionSetupBody) error {
	if mode != nil && a.Setup.Network.Narrowed(*mode) != *mode {
		return domain.Invalidf("body.network", "cannot be wider than the service's, which is %s", a.Setup.Network)
	}

	if setup == nil {
		return nil
	}

	for i, rule := range setup.Permissions {
		if rule.Tool != domain.NetworkTool || rule.Pattern == "" {
			continue
		}

		if _, err := domain.NewNetworkRule(rule.Pattern, rule.Decision); err != nil {
			return domain.Invalidf(fmt.Sprintf("body.session_setup.permissions[%d].pattern", i), "%s", domain.CleanText(err.Error()))
		}
	}

	return nil
}
