package domain

import "time"

// ForkLimits bound the sub-agents of a chat (docs/sub-agents.md#limits).
type ForkLimits struct {
	Depth         int           // max nesting; the main loop's sub-agents are at 1
	MaxConcurrent int           // max sub-agents of a chat that run concurrently; waiting ones do not count
	Steps         int           // model calls of one
	Time          time.Duration // of one sub-agent, without its waits for a slot or an answer
}

// DefaultForkLimits apply where the operator sets no others.
var DefaultForkLimits = ForkLimits{Depth: 3, MaxConcurrent: 10, Steps: 200, Time: time.Hour}

// NewFork is a sub-agent that a turn requests. Its loop has the id of the call.
type NewFork struct {
	AgentType    string
	Description  string
	Prompt       string   // its first user turn
	Instructions string   // of its type, for its system prompt
	Tools        []string // names of its only tools; nil: all
	Model        *string  // nil: the chat's
	Depth        int
	MaxSteps     int
	Time         time.Duration
	Background   bool   // it outlives the chat
	TaskID       string // the background task that it belongs to, if any
}

// SourceLoop identifies the sub-agent that asks a question
// (docs/sub-agents.md#what-clients-see).
type SourceLoop struct {
	LoopID           string `json:"loop_id" doc:"The agent loop: root, or the id of a sub-agent."`
	ParentToolCallID string `json:"parent_tool_call_id" doc:"The tool call that started the sub-agent."`
	AgentType        string `json:"agent_type" doc:"The kind of the sub-agent."`
	Description      string `json:"description" doc:"The description."`
}

// ForkEnd is how a sub-agent ended.
type ForkEnd struct {
	LoopID string
	Status ToolCallStatus // of the owning call
	Result string         // text for the model
	Reason string         // of a background task: why it failed; may be empty
	Lost   bool           // of a background task: its run was lost
}

// ForkText is the text of a sub-agent so far.
type ForkText struct {
	Last        string // its last answer, when its last turn is one
	All         string // everything, in order
	Session     Session
	ChatID      ChatID
	EntryID     TurnID // the turn that requested it
	StartedAt   time.Time
	Ended       bool
	Description string
}
