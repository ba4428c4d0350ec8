package contract

import (
	"everloop/domain"
	"everloop/internal/durable"
)

// Signals between the runs of a chat and its sub-agents. Asked goes up: nothing
// but an answer can move the sub-agent that it names. Resume goes down: look
// again, whether an answer has come or a slot is free.
var (
	Asked  = durable.Signal[AskedFork]{Name: "asked"}
	Resume = durable.Signal[ResumeFork]{Name: "resume"}
)

// AskedFork names a sub-agent that waits for an answer. Heard is the number of the last
// Resume that it has received: with an earlier one than was sent, the signal is out of
// date.
type AskedFork struct {
	LoopID string `json:"loop_id"`
	Heard  int    `json:"heard,omitempty"`
}

// ResumeFork is a sub-agent's call to look again. Number counts those that its
// parent has sent it; 0: it comes from elsewhere.
type ResumeFork struct {
	Number int `json:"number,omitempty"`
}

// Fork is what the run of a sub-agent must know of it; the rest is in the
// database.
type Fork struct {
	MaxSteps int `json:"max_steps"`
	Seconds  int `json:"seconds"` // it may work for so long
}

// ForkInput starts the run of a sub-agent, or lets it continue in a new one.
type ForkInput struct {
	SessionID domain.SessionID `json:"session_id"`
	ChatID    domain.ChatID    `json:"chat_id"`
	LoopID    string           `json:"loop_id"` // the id of the call that owns it, too
	Title     string           `json:"title"`   // for operators; empty in the background
	Fork
	TaskID string `json:"task_id,omitempty"` // of the background task that it belongs to
	Step   int    `json:"step,omitempty"`    // model calls made by earlier runs
	Heard  int    `json:"heard,omitempty"`   // the last Resume that earlier runs received
}

// AgentRun is what the run of a background sub-agent is started with.
type AgentRun struct {
	ForkInput
	OwnerID string
}

// RunningAgent is a background sub-agent whose task runs.
type RunningAgent struct {
	Run   AgentRun
	Stop  bool // it is to stop
	Begun bool // else its run may never have been started
}

// ForkOut is what a sub-agent's run returns to its parent; its result is in the
// database.
type ForkOut struct {
	Stopped bool `json:"stopped,omitempty"` // the chat was stopped
}

// Steps of a sub-agent. It starts with its first model call.
var (
	PauseFork = durable.Activity[PauseForkIn, PauseForkOut]{Name: "fork.pause", Preset: durable.Store}
	EndFork   = durable.Activity[EndForkIn, EndForkOut]{Name: "fork.end", Preset: durable.Store}
)

// PauseForkIn asks whether a sub-agent must wait for an answer. Children says
// that sub-agents of its own do.
type PauseForkIn struct {
	LoopID   string `json:"loop_id"`
	Asked    bool   `json:"asked,omitempty"` // it has asked itself
	Children bool   `json:"children,omitempty"`
}

// PauseForkOut says how it stands: parked while it must wait, answered when
// its own questions are resolved, closed when its chat has ended. Next are the
// runs that may have got its slot.
type PauseForkOut struct {
	State ParkState `json:"state"`
	Next  []string  `json:"next,omitempty"`
}

// EndForkIn ends a sub-agent with its cause.
type EndForkIn struct {
	LoopID  string              `json:"loop_id"`
	Reason  domain.FinishReason `json:"reason"`
	Code    string              `json:"code,omitempty"`
	Message string              `json:"message,omitempty"`
}

// EndForkOut names the runs that may have got the slot of the one that ended.
type EndForkOut struct {
	Next []string `json:"next,omitempty"`
}
