package domain

import (
	"encoding/json"
	"fmt"
)

// MostSteps bounds the configurable model calls of a chat's main loop, in the service, its
// solution or its session.
const MostSteps = 10_000

// Profile is the configuration of a session's agent: the service's, overridden by the
// solution's, overridden by the session's.
type Profile struct {
	Instructions     string           // added to the system prompt
	Agents           []AgentType      // sub-agent types in addition to the built-in ones
	Permissions      []PermissionRule // the first rule that matches a call decides
	Budget           Budget
	Compaction       CompactionPolicy
	OwnerCallsPerDay int64 // model calls of the owner's sessions on a day; 0: unlimited
	MaxSteps         int
	StuckAfter       int // number of equal consecutive calls with equal results that end a chat
	MCPServers       []MCPServer
	DisableTools     []string
	Skills           []string // of the solution, by the id of a list, org/name, or name

	ModelsAllowed []string // the models that sub-agents can use; empty: models that cost at most as much as the caller's
}

// SessionSetup is a session's own configuration, stored with it; absent fields fall back to the
// solution's, then the service's.
type SessionSetup struct {
	Agents      []AgentType       `json:"agents,omitempty"`
	Permissions []PermissionRule  `json:"permissions,omitempty"`
	Budget      *Budget           `json:"budget,omitempty"`
	Compaction  *CompactionPolicy `json:"compaction,omitempty"`
	MaxSteps    int               `json:"max_steps,omitempty"`
	StuckAfter  int               `json:"stuck_after,omitempty"`
	EnvBuckets  []string          `json:"env_buckets,omitempty"` // further buckets whose environment its tools get

	// SkipConfirmations lets headless chats run without answers: permission requests are
	// granted and questions are left to the model, on record.
	SkipConfirmations bool `json:"skip_confirmations,omitempty"`

	Instructions   string          `json:"instructions,omitempty"`    // added to the system prompt
	Skills         []string        `json:"skills,omitempty"`          // offered to the session first: the id of a list, org/name, or name
	Agent          *SessionAgent   `json:"agent,omitempty"`           // the agent that the session was created with
	LayoutType     string          `json:"layout_type,omitempty"`     // for front ends
	PreviewURLs    []PreviewURL    `json:"preview_urls,omitempty"`    // for front ends
	QuestionPolicy *QuestionPolicy `json:"question_policy,omitempty"` // for questions that no user answers
	// Escalation is how a question of a DAG node that no user answers is handled, in addition
	// to the times of the policy.
	Escalation *Escalation `json:"escalation,omitempty"`
	// Script is the tool call that the first chat of a DAG node's session makes, without a
	// model.
	Script *ScriptedCall `json:"script,omitempty"`

	ModelsAllowed []string `json:"models_allowed,omitempty"` // the models that sub-agents can take

	Network        NetworkMode `json:"network,omitempty"`           // narrows the service's mode
	MaxModelRetryS int         `json:"max_model_retry_s,omitempty"` // how long a failing model call is retried
}

// ScriptedCall is a tool call without a model.
type ScriptedCall struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// AgentType is a kind of sub-agent: its role and its tools.
type AgentType struct {
	Name        string   `json:"name"`
	Description string   `json:"description"` // for the model that chooses
	Prompt      string   `json:"prompt"`      // added to its system prompt
	Tools       []string `json:"tools,omitempty"`
	Model       string   `json:"model,omitempty"`
}

// PermissionDecision is the decision of a rule about a tool call.
type PermissionDecision string

// Ask asks the user about the call.
const (
	PermissionAllow PermissionDecision = "allow"
	PermissionAsk   PermissionDecision = "ask"
	PermissionDeny  PermissionDecision = "deny"
)

// PermissionRule decides about the calls of tools whose name matches Tool. Pattern and Tool are
// globs in which * matches any text; an empty Pattern matches every call, and Argument limits
// it to one argument (docs/safety.md#what-a-pattern-is-compared-with).
//
// A rule with a Digest matches exactly one call. An answer to a permission question adds it;
// Call describes the call for people.
type PermissionRule struct {
	Tool     string             `json:"tool"`
	Pattern  string             `json:"pattern,omitempty"`
	Argument string             `json:"argument,omitempty"`
	Decision PermissionDecision `json:"decision"`
	Digest   string             `json:"digest,omitempty"`
	Call     string             `json:"call,omitempty"`
}

// MaxPermissionPattern bounds the pattern of a rule, in bytes; MaxPermissionRules bounds a
// session's own rules.
const (
	MaxPermissionPattern = 2000
	MaxPermissionRules   = 200
)

// Budget bounds the usage of a session's chats; nil fields are unlimited.
type Budget struct {
	MaxTokens *int64   `json:"max_tokens,omitempty" doc:"Tokens of input and output, sub-agents included." example:"100000"`
	MaxCost   *float64 `json:"max_cost,omitempty" doc:"Cost, in the currency of the model list." example:"1.5"`
}

// CompactionPolicy determines when the history is summarised.
type CompactionPolicy struct {
	Auto         bool `json:"auto"`
	ThresholdPct int  `json:"threshold_pct"` // of the context window
	KeepLast     int  `json:"keep_last"`     // turns that are not summarised
}

// Threshold returns the size in tokens at which a history is summarised.
func (p CompactionPolicy) Threshold(contextWindow int64) int64 {
	return contextWindow * int64(p.ThresholdPct) / 100
}

// DefaultCompaction is the policy of sessions that set none (docs/context.md#compaction).
var DefaultCompaction = CompactionPolicy{Auto: true, ThresholdPct: 80, KeepLast: 6}

// MaxModelRetryS bounds the configurable retry time of a session's model calls, in seconds:
// seven days.
const MaxModelRetryS = 7 * 24 * 3600

// MCPServer is a tool server of a session.
type MCPServer struct {
	Name      string            `json:"name"`
	Preset    string            `json:"preset,omitempty"` // replaces the connection settings, which the worker then supplies
	Transport string            `json:"transport"`        // stdio or http
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Tools     []string          `json:"tools,omitempty"` // allowed tools; empty: all
	TimeoutS  int               `json:"timeout_s,omitempty"`
	Enabled   bool              `json:"enabled"`
}

// OfPreset reports that the worker supplies how the server is started. The record then contains
// no secrets, and the server runs in the workspace of its session in every scope.
func (s MCPServer) OfPreset() bool { return s.Preset != "" }

// With returns the profile overridden by the session's own setup.
func (p Profile) With(setup SessionSetup) Profile {
	p.Agents = append(p.Agents[:len(p.Agents):len(p.Agents)], setup.Agents...)
	p.Permissions = append(setup.Permissions[:len(setup.Permissions):len(setup.Permissions)], p.Permissions...)
	p.Instructions = JoinParagraphs(p.Instructions, setup.Instructions)

	p.Skills = append(p.Skills[:len(p.Skills):len(p.Skills)], setup.Skills...)
	if setup.Budget != nil {
		p.Budget = *setup.Budget
	}

	if setup.Compaction != nil {
		p.Compaction = *setup.Compaction
	}

	if setup.ModelsAllowed != nil {
		p.ModelsAllowed = setup.ModelsAllowed
	}

	if setup.MaxSteps > 0 {
		p.MaxSteps = setup.MaxSteps
	}

	if setup.StuckAfter > 0 {
		p.StuckAfter = setup.StuckAfter
	}

	return p
}

// SpentBudget is a session's own budget and its usage so far.
type SpentBudget struct {
	Budget
	UsedTokens int64
	UsedCost   Cost
}

// Exhausted describes the bound of the budget that is reached; empty: none.
func (b Budget) Exhausted(usedTokens int64, usedCost Cost) string {
	switch {
	case b.MaxTokens != nil && usedTokens >= *b.MaxTokens:
		return fmt.Sprintf("the session has used %d tokens of the %d that its budget allows", usedTokens, *b.MaxTokens)
	case b.MaxCost != nil && usedCost >= CostOf(*b.MaxCost):
		return fmt.Sprintf("the session has cost %s of the %s that its budget allows", usedCost, CostOf(*b.MaxCost))
	default:
		return ""
	}
}

// Exhausted describes the limit that is reached: the session's budget, or its owner's model
// calls on this day. It is empty if none is.
func (p Profile) Exhausted(usedTokens int64, usedCost Cost, ownerCalls int64) string {
	if p.OwnerCallsPerDay > 0 && ownerCalls >= p.OwnerCallsPerDay {
		return fmt.Sprintf("the sessions of this user made %d model calls on this day (UTC) of the %d that the service allows",
			ownerCalls, p.OwnerCallsPerDay)
	}

	return p.Budget.Exhausted(usedTokens, usedCost)
}

// PreviewURL is a page that front ends show next to the sessions of an agent.
type PreviewURL struct {
	Name string `json:"name" minLength:"1" maxLength:"128" doc:"Its name." example:"Application"`
	URL  string `json:"url" minLength:"1" maxLength:"2000" doc:"An absolute http or https URL, or a path of this service." example:"http://127.0.0.1:5173/"`
}

// SessionAgent identifies the agent that a session was created with.
type SessionAgent struct {
	AgentID    string `json:"agent_id,omitempty" doc:"Its name for programs." example:"reviewer"`
	RecordID   string `json:"record_id,omitempty" doc:"The production agent; left out: none." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	InstanceID string `json:"instance_id,omitempty" doc:"The agent instance; left out: none." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb8"`
}
