package domain

import (
	"encoding/json"
	"time"
)

// TurnKey identifies one model call of a loop: every attempt and every worker finds the call's
// turn by it.
type TurnKey struct {
	SessionID SessionID
	ChatID    ChatID
	LoopID    string
	Step      int // from 1
}

// OpenedTurn is the turn that a model call streams into. Attempt is its fencing token: every
// later write names it and changes nothing once another worker has taken over the turn.
type OpenedTurn struct {
	EntryID   TurnID
	BranchID  BranchID
	Sequence  int64
	Attempt   int
	StartedAt time.Time
	Chat      ChatSettings
	Loop      LoopSettings
	Session   Session

	// CaptureDue reports that files of the session must be captured before a tool changes more
	// of them, and that no capture has started.
	CaptureDue bool

	Faults ModelFaults // of the loop's model calls

	// Newest is the newest entry of the loop on its branch before this turn. Empty: there is
	// none, or it was added with the turn.
	Newest string

	// Of a turn that was found finished:
	Status    TurnStatus
	Blocks    []Block
	CallCount int
}

// TurnState is the result of opening a turn.
type TurnState int

// In order: a turn to stream into; one that an earlier attempt has finished (its report was
// lost); one whose chat was stopped; one whose worker died with it, whose text must be restored
// from the event log before it is failed; one of a sub-agent that must wait until others have
// ended; one whose previous turn, which the result names, has calls to run first; one whose
// model call must not be made yet; and one that was not admitted.
const (
	TurnOpened TurnState = iota
	TurnFinished
	TurnStopped
	TurnOrphaned
	TurnQueued
	TurnBehind
	TurnDelayed
	TurnRefused
)

// NextTurn is the state read before a turn is opened.
type NextTurn struct {
	Session    Session
	Chat       ChatSettings
	BranchID   BranchID
	Newest     string // the newest entry of the loop on its branch
	Waiting    int64  // bytes of messages that join the loop with the turn
	UsedTokens int64  // tokens of the budget that the session's chats have used
	UsedCost   Cost
	OwnerCalls int64 // model calls of the owner on this day (UTC), of all sessions
}

// ChatSettings are the settings that a chat was sent with.
type ChatSettings struct {
	ID           ChatID
	Trigger      Trigger
	Mode         Mode
	Headless     bool
	OutputSchema json.RawMessage
	Model        *string
	SchemaTries  int
}

// RequestedModel returns the model of the chat's request; empty: the default model.
func (c ChatSettings) RequestedModel() string {
	if c.Model == nil {
		return ""
	}

	return *c.Model
}

// LoopSettings are the settings of a sub-agent's loop; zero for the main loop.
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

// ClosingTurn is the outcome of a finished, stopped or failed model call.
type ClosingTurn struct {
	TurnKey
	EntryID        TurnID
	Attempt        int
	Status         TurnStatus
	Blocks         []Block
	Usage          Usage
	PromptTokens   int64 // size of the turn's prompt
	Model          string
	ContextWindow  int64
	Duration       time.Duration
	FailureReason  string
	Calls          []PlannedCall
	ReasoningField string // of the Reply
	ServerMembers  string // of the Reply

	Rejected   bool   // the answer does not follow the chat's output_schema
	Reminded   bool   // the request to the model held the chat's memories
	FaultsOver bool   // the turn resets the loop's model faults
	Retry      *Retry // of a failed turn whose model call is retried
	// Unpublished is the end of the text, in order, that the event log has not acknowledged.
	Unpublished []UnpublishedDelta
}

// UnpublishedDelta is a piece of a turn's text that must be published with the turn's end. The
// first one may already be in the event log.
type UnpublishedDelta struct {
	Event Event
	Maybe bool   // a publish of it was not acknowledged
	After uint64 // position of the event log before that publish
}

// PlannedCall is a tool call to enter in the ledger. A call that asks the user contains its
// questions; one that needs no worker, such as a rejected one, contains its result.
type PlannedCall struct {
	ID           string
	ServerCallID string // the id that the model server gave the call; empty: none
	ToolName     string
	DisplayName  string
	Arguments    string
	Questions    json.RawMessage
	Source       *SourceLoop     // of questions: the sub-agent that asks them
	Policy       *QuestionPolicy // of questions; nil: they wait
	Fork         *NewFork        // of a call that is a sub-agent
	Settled      *Settlement
	Acts         bool // it may write files

	// For a permission question: the call of the same turn that it blocks, the rules that an
	// answer for the whole session adds to its setup, and the files that the call names, with
	// the digests of their contents.
	Guards string
	Allows []PermissionRule
	Files  map[string]string

	Guarded bool // blocked by a question of its turn

	// Claimant is a nonce of the process that runs the call immediately after it is in the
	// ledger; empty: the call's activity starts it.
	Claimant string

	ServerMembers string // of the RequestedCall
}

// Settlement is the result of a call that was settled when it was read.
type Settlement struct {
	Status ToolCallStatus
	Result string
}

// CallLease is how long a worker owns a running call without renewing the lease. A call whose
// lease has expired was lost with its worker. The lease is not longer than Temporal's heartbeat
// timeout, so that a call is taken over no later than its activity.
const CallLease = 15 * time.Second

// TakeoverNotice is the extension of a lease that has ended, once, before another worker takes
// the call over. After an outage of the database all leases have ended while their workers are
// alive: they renew them as soon as they are connected again.
const TakeoverNotice = 8 * time.Second

// LedgerCall is a tool call that was claimed from the ledger.
type LedgerCall struct {
	ID        string
	SessionID SessionID
	ChatID    ChatID
	EntryID   TurnID
	LoopID    string
	ToolName  string
	Arguments string
	Attempt   int
	Mode      Mode
	Headless  bool
	StartedAt time.Time
	Loop      LoopSettings
	Session   Session
	// CaptureDue reports that files of the session must be captured before this call can change
	// any.
	CaptureDue bool
	// AskedAt is when the worker sent the claim, by its own clock. The lease starts no earlier.
	AskedAt time.Time
}

// LoopState is the progress of a sub-agent.
type LoopState string

// The states of a sub-agent: its call is reserved, it waits for a slot, it works, it waits for
// an answer, or it has ended.
const (
	LoopReserved LoopState = "reserved"
	LoopQueued   LoopState = "queued"
	LoopRunning  LoopState = "running"
	LoopWaiting  LoopState = "waiting"
	LoopEnded    LoopState = "ended"
)

// LedgerState is the state of a call in the ledger when a worker claims it.
type LedgerState int

// In order: a call to run now, one that is already recorded, one whose chat was stopped, one
// that a worker is running, and one whose worker died with it.
const (
	CallClaimed LedgerState = iota
	CallRecorded
	CallStopped
	CallHeld
	CallAbandoned
)

// CodeCallNotFound reports that a call is not in the ledger.
const CodeCallNotFound = "tool_call_not_found"

// FinishedCall is the outcome of a tool call.
type FinishedCall struct {
	ID       string
	Attempt  int
	Status   ToolCallStatus
	Phase    string
	Result   string
	Duration time.Duration
	Changes  []FileChange

	Connections []Connection
	Images      []CallImage
}

// FileChange reports that a tool or a user changed a file of the workspace.
type FileChange struct {
	Path   string `json:"path" doc:"The file, relative to the workspace; . is the workspace."`
	Change string `json:"change" enum:"created,modified,deleted" doc:"The kind of change."`
}

// TranscriptTurn is one turn as it is sent to the model.
type TranscriptTurn struct {
	ID       TurnID
	Sequence int64
	Role     Role
	Status   TurnStatus
	ChatID   ChatID
	Parts    []ContentPart // user turns
	Blocks   []Block       // assistant turns
	Calls    []ToolCall
	Model    string
	// InputTokens is the size of the prompt of this turn as the model server reported it, or an
	// estimate where the report is missing or far too small.
	InputTokens int64

	ReasoningField string // in which the model server sent the turn's thinking; empty: none
	ServerMembers  string // of the Reply
}

// ModelFaults are the faults of a loop's model calls since one last succeeded, at the time
// they were read.
type ModelFaults struct {
	Count   int
	Paid    int           // answers among them that the model server can charge
	Age     time.Duration // since the first of them
	RetryIn time.Duration // until the next call is due; 0 or less: now
}

// Retry describes why and when a model call is retried.
type Retry struct {
	Attempt int // of the call that failed, from 1
	Reason  string
	Wait    time.Duration
	Waiting WaitingReason
	Fault   bool // counts among the loop's model faults; false: the worker or an engine was lost
	Paid    int  // answers that broke off or were discarded, and that the model server may charge
}
