package domain

import (
	"encoding/json"
	"time"
)

// TurnKey names one model call of a loop: its turn is found again by it, on
// whatever attempt and by whatever worker.
type TurnKey struct {
	SessionID string
	ChatID    string
	LoopID    string
	Step      int // from 1
}

// OpenedTurn is the turn that a model call streams into. Attempt fences it:
// every later write names it and changes nothing once another worker has taken
// the turn over.
type OpenedTurn struct {
	EntryID   string
	BranchID  string
	Sequence  int64
	Attempt   int
	StartedAt time.Time
	Chat      ChatSettings
	Loop      LoopSettings
	Session   Session

	// CaptureDue says that files of the session are to be captured before a tool
	// changes more of them, and that nobody has begun to.
	CaptureDue bool

	// Of a turn that was found finished:
	Blocks    []Block
	CallCount int
}

// TurnState says what opening a turn found.
type TurnState int

// A turn to stream into, one that an earlier attempt has finished (the report
// was lost), one whose chat was stopped, one whose worker died with it: its
// text has to be restored from the event log before it is failed; one of a
// sub-agent that has to wait until others have ended; and one whose turn before
// it, which the result names, has calls that are to be run first.
const (
	TurnOpened TurnState = iota
	TurnFinished
	TurnStopped
	TurnOrphaned
	TurnQueued
	TurnBehind
)

// ChatSettings are what a chat was sent with.
type ChatSettings struct {
	ID           string
	Mode         Mode
	Headless     bool
	OutputSchema json.RawMessage
	Model        *string
	SchemaTries  int
}

// LoopSettings are what a sub-agent's loop runs with; zero for the main loop.
type LoopSettings struct {
	Depth            int
	ParentToolCallID string // the Agent call that owns the loop
	AgentType        string
	Description      string
	Prompt           string   // added to the system prompt
	Only             []string // names of its only tools; nil: all
	Model            *string
	TaskID           string // the background task that it belongs to; empty: it ends with its chat
}

// ClosingTurn is what a finished, stopped or failed model call leaves.
type ClosingTurn struct {
	TurnKey
	EntryID       string
	Attempt       int
	Status        TurnStatus
	Blocks        []Block
	Usage         Usage
	Cost          float64 // of the usage, by the model's prices; 0: not known
	Model         string
	ContextWindow int64
	Duration      time.Duration
	FailureReason string
	Calls         []PlannedCall
	Misfit        bool // the answer does not follow the chat's output_schema
}

// PlannedCall is a tool call to enter in the ledger. A call that asks the user
// carries its questions; one that needs no worker, as a refused one, carries its
// result.
type PlannedCall struct {
	ID          string
	ToolName    string
	DisplayName string
	Arguments   string
	Questions   json.RawMessage
	Source      *SourceLoop // of questions: the sub-agent that asks
	Fork        *NewFork    // of a call that is a sub-agent
	Settled     *Settlement
	Acts        bool // it may write files

	// Of a question for permission: the call of the same turn that it holds back,
	// and the rules that an answer for the whole session adds to its setup.
	Guards string
	Allows []PermissionRule

	Guarded bool // a question of its turn holds it back
}

// Settlement is the result of a call that was settled where it was read.
type Settlement struct {
	Status ToolCallStatus
	Result string
}

// LedgerCall is a tool call as the ledger gave it out to run.
type LedgerCall struct {
	ID        string
	SessionID string
	ChatID    string
	EntryID   string
	LoopID    string
	ToolName  string
	Arguments string
	Attempt   int
	Mode      Mode
	Headless  bool
	StartedAt time.Time
	Loop      LoopSettings
	Session   Session
	// CaptureDue says that files of the session are to be captured before this
	// call may change any.
	CaptureDue bool
}

// LedgerState says what the ledger found when a worker asked for a call.
type LedgerState int

// A call to run now, one that is already recorded, one whose chat was stopped,
// one that a worker is running, and one whose worker died with it.
const (
	CallClaimed LedgerState = iota
	CallRecorded
	CallStopped
	CallHeld
	CallAbandoned
)

// FinishedCall is the outcome of a tool call.
type FinishedCall struct {
	ID       string
	Attempt  int
	Status   ToolCallStatus
	Phase    string
	Result   string
	Duration time.Duration
	Changes  []FileChange
}

// FileChange tells that a tool or a user changed a file of the workspace.
type FileChange struct {
	Path   string `json:"path"`
	Change string `json:"change"` // created, modified or deleted
}

// TranscriptTurn is one turn as the model is told of it.
type TranscriptTurn struct {
	ID          string
	Sequence    int64
	Role        Role
	Status      TurnStatus
	ChatID      string
	Parts       []ContentPart // user turns
	Blocks      []Block       // assistant turns
	Calls       []ToolCall
	Model       string
	InputTokens int64 // of the prompt of this turn, as the model server reported it
}

// Retry says why a model call is tried again, and when.
type Retry struct {
	Attempt int // of the call that failed, from 1
	Reason  string
	At      time.Time
	Waiting WaitingReason
}
