// Package contract declares every activity: its name, what goes in, what comes
// out and the preset it runs under. It executes nothing. Ids and small facts
// only: content stays in the database.
package contract

import (
	"everloop/domain"
	"everloop/internal/durable"
)

// Names of the workflow types, as operators see them.
const (
	WorkflowChat = "Chat"
	WorkflowTask = "Task"
	WorkflowFork = "Fork"
)

// Signals of the Chat workflow. Wake says "look again": it carries nothing,
// because the decision is in the database; a replay's run takes it too. Stop ends
// the chat that it names.
var (
	Wake = durable.Signal[struct{}]{Name: "wake"}
	Stop = durable.Signal[StopChat]{Name: "stop"}
)

// StopChat names the chat to stop, so that a late signal cannot hit the next.
type StopChat struct {
	ChatID domain.ChatID `json:"chat_id"`
}

// ChatInput starts a run for a session. Which chat it takes, or continues with, is
// in the database.
type ChatInput struct {
	SessionID domain.SessionID `json:"session_id"`
}

// Chat steps: each is one transaction with its events, written as "from the expected
// state to the new one; already there returns the same result", because a step may run
// again.
var (
	BeginChat  = durable.Activity[BeginChatIn, BeginChatOut]{Name: "chat.begin", Preset: durable.Store}
	ParkChat   = durable.Activity[ParkChatIn, ParkChatOut]{Name: "chat.park", Preset: durable.Store}
	CheckChat  = durable.Activity[CheckChatIn, ParkChatOut]{Name: "chat.check", Preset: durable.Store}
	FinishChat = durable.Activity[FinishChatIn, FinishChatOut]{Name: "chat.finish", Preset: durable.Store}
)

// The loop's two kinds of work.
var (
	CallModel = durable.Activity[CallModelIn, CallModelOut]{Name: "model.call", Preset: durable.Model}
	RunTool   = durable.Activity[RunToolIn, RunToolOut]{Name: "tool.run", Preset: durable.Tool}
	// TryTool starts a call and waits a moment for it: most calls end within it, and
	// cost no round trip to the server.
	TryTool = durable.Activity[RunToolIn, RunToolOut]{Name: "tool.try", Preset: durable.Store}
)

// BeginChatIn claims the session's open chat, or its next one, for a run.
type BeginChatIn struct {
	SessionID domain.SessionID `json:"session_id"`
	RunID     string           `json:"run_id"`
}

// BeginChatOut is the chat that the run now carries; an empty ChatID reports that
// nothing waits.
type BeginChatOut struct {
	ChatID   domain.ChatID `json:"chat_id"`
	Step     int           `json:"step"` // model calls made so far: above 0 when an earlier run was lost
	MaxSteps int           `json:"max_steps"`
	Parked   bool          `json:"parked,omitempty"`
	Mode     domain.Mode   `json:"mode"`
	// InitTask is the session's init script, which the chat waits for; empty: there is
	// none, or it has ended.
	InitTask string `json:"init_task,omitempty"`
}

// ParkChatIn names a chat whose calls have all finished but for its questions.
type ParkChatIn struct {
	ChatID domain.ChatID `json:"chat_id"`
	// Children reports that sub-agents of the chat wait for answers: its own calls run after them.
	Children bool `json:"children,omitempty"`
}

// ParkState says how a chat with questions stands.
type ParkState string

// A parked chat waits; an answered one continues; a closed one has ended by a
// message instead of the answer, a stop or a rewind.
const (
	Parked   ParkState = "parked"
	Answered ParkState = "answered"
	Closed   ParkState = "closed"
)

// ParkChatOut reports whether the run waits, continues or closes.
type ParkChatOut struct {
	State ParkState `json:"state"`
}

// CheckChatIn asks, after a wake, how a parked chat stands now.
type CheckChatIn struct {
	ChatID domain.ChatID `json:"chat_id"`
	Stop   bool          `json:"stop,omitempty"` // ends a chat that waits, as its owner would
}

// FinishChatIn ends a chat with its cause.
type FinishChatIn struct {
	ChatID  domain.ChatID       `json:"chat_id"`
	Reason  domain.FinishReason `json:"reason"`
	Code    string              `json:"code,omitempty"`
	Message string              `json:"message,omitempty"`
}

// FinishChatOut says what the run does next. More: a message was steered into
// the chat before it could complete, so the loop continues. Next: another chat is
// queued.
type FinishChatOut struct {
	More bool `json:"more,omitempty"`
	Next bool `json:"next,omitempty"`
}

// ToolCall is a call that the run has to schedule; Summary is for operators.
type ToolCall struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Summary string `json:"summary"`
	Fork    *Fork  `json:"fork,omitempty"` // set when the call is a sub-agent, not a tool to run
}

// RunToolIn asks for one tool call of the ledger to be carried out.
type RunToolIn struct {
	ChatID     domain.ChatID `json:"chat_id"`
	ToolCallID string        `json:"tool_call_id"`
	TaskID     string        `json:"task_id,omitempty"` // of a background sub-agent's call
}

// RunToolOut says how the call ended; its result is in the ledger.
type RunToolOut struct {
	Status  domain.ToolCallStatus `json:"status"`
	Stopped bool                  `json:"stopped,omitempty"`
	Pending bool                  `json:"pending,omitempty"` // of TryTool: it still runs
}
