package domain

import "encoding/json"

// Delivery is what a chat:send does while a chat is running (docs/events.md#chatsend).
type Delivery string

// The delivery modes that a client can request; DeliverRun is only applied by the service, on
// an idle session.
const (
	DeliverEnqueue   Delivery = "enqueue"
	DeliverSteer     Delivery = "steer"
	DeliverInterrupt Delivery = "interrupt"
	DeliverReject    Delivery = "reject"
	DeliverRun       Delivery = "run"
)

// ChatState is the progress of a chat.
type ChatState string

// The states of a chat: it waits for a run, runs, has ended for clients while a question is
// open (it waits for an answer), or has ended.
const (
	ChatStateQueued  ChatState = "queued"
	ChatStateRunning ChatState = "running"
	ChatStateWaiting ChatState = "parked"
	ChatStateEnded   ChatState = "ended"
)

// Open reports whether a chat has started and has not ended.
func (s ChatState) Open() bool { return s == ChatStateRunning || s == ChatStateWaiting }

// Trigger is what started a chat.
type Trigger string

// The closed list of triggers of `chat:start`.
const (
	TriggerUser     Trigger = "user"
	TriggerAnswer   Trigger = "answer"
	TriggerSchedule Trigger = "schedule"
	TriggerDAG      Trigger = "dag"
	TriggerIssue    Trigger = "issue"
	TriggerWhatif   Trigger = "whatif"
	TriggerReplay   Trigger = "replay"
	TriggerAPI      Trigger = "api"
)

// Unattended reports whether a scheduled task or an issue sent the message: no user wrote it,
// so it does not replace the answer to a question.
func (t Trigger) Unattended() bool { return t == TriggerSchedule || t == TriggerIssue }

// FinishReason is why a chat ended.
type FinishReason string

// The closed list of finish reasons of `chat:end`.
const (
	FinishCompleted       FinishReason = "completed"
	FinishAwaitingAnswer  FinishReason = "awaiting_answer"
	FinishInterrupted     FinishReason = "interrupted"
	FinishFailed          FinishReason = "failed"
	FinishMaxSteps        FinishReason = "max_steps"
	FinishSchemaMismatch  FinishReason = "schema_mismatch"
	FinishBudgetExhausted FinishReason = "budget_exhausted"
	FinishStuckDetected   FinishReason = "stuck_detected"
	FinishContextOverflow FinishReason = "context_overflow"
	FinishOutputLimit     FinishReason = "output_limit"
	FinishContentFiltered FinishReason = "content_filtered"
	FinishEmptyAnswer     FinishReason = "empty_answer"
)

// Status returns the chat status of the reason: completed and awaiting_answer with completed,
// interrupted with interrupted, all others with failed.
func (r FinishReason) Status() string {
	switch r {
	case FinishCompleted, FinishAwaitingAnswer:
		return "completed"
	case FinishInterrupted:
		return "interrupted"
	default:
		return "failed"
	}
}

// SessionStatus returns the status of the session after a chat that ended for the reason.
func (r FinishReason) SessionStatus() SessionStatus {
	switch r {
	case FinishCompleted:
		return SessionCompleted
	case FinishAwaitingAnswer:
		return SessionWaitingForInput
	case FinishInterrupted:
		return SessionInterrupted
	default:
		return SessionFailed
	}
}

// Answer is a client's answer to one AskUserQuestion call: for every question
// either indexes of options or free text.
type Answer struct {
	ToolCallID string            `json:"tool_call_id"`
	Selections map[string][]int  `json:"selections"`
	Custom     map[string]string `json:"custom"`
}

// Whatif requests a re-run from a step of the active branch.
type Whatif struct {
	FromStep          int      `json:"from_step"`
	Quotes            []Quote  `json:"quotes"`
	DeprecateEntryIDs []TurnID `json:"deprecate_entry_ids"`
}

// Quote is an excerpt of an earlier entry, placed before the message.
type Quote struct {
	EntryID TurnID `json:"entry_id"`
	Text    string `json:"text"`
}

// Send is one parsed chat:send, from either edge.
type Send struct {
	SessionID       SessionID
	Message         []ContentPart
	Mode            Mode // empty: the session's
	Headless        bool
	OutputSchema    json.RawMessage
	Whatif          *Whatif
	ClientMessageID string
	Delivery        Delivery
	Trigger         Trigger
	Waiter          string // the id of a workflow run that is signalled when the chat has ended; empty: none
	Unattended      bool   // no user wrote it, as with triggers that are Unattended
	Parented        bool   // the caller starts the workflow of the session, as a child
}

// FromPerson reports whether a user wrote the message, so that it can replace the answer to a
// question.
func (s Send) FromPerson() bool { return !s.Unattended && !s.Trigger.Unattended() }

// SendAck is the acknowledgement of a durable chat:send.
type SendAck struct {
	ChatID          ChatID   `json:"chat_id"`
	TurnID          TurnID   `json:"turn_id"`
	DeliveryApplied Delivery `json:"delivery_applied"`
	Position        int      `json:"position"`
	Duplicate       bool     `json:"duplicate"`
}

// AnswerAck is the acknowledgement of an askuser_answer; Resolved is true only for the first
// valid one.
type AnswerAck struct {
	Resolved   bool   `json:"resolved"`
	QuestionID string `json:"question_id"`
	ChatID     ChatID `json:"chat_id,omitempty"`
}

// QueuedMessage is a message that waits for its chat, as the subscribe ack
// lists it.
type QueuedMessage struct {
	ChatID   ChatID `json:"chat_id"`
	TurnID   TurnID `json:"turn_id"`
	Position int    `json:"position"`
	Preview  string `json:"preview"`
}

// Enqueued is the result of storing a chat:send: its acknowledgement and the work that it
// stops.
type Enqueued struct {
	Ack      SendAck
	StopChat ChatID // the running chat that an interrupting message stops
}

// Stopped is the result of a stop.
type Stopped struct {
	Stopped bool
	ChatID  ChatID // the running chat whose workflow must be woken; empty when none runs
	Wake    bool   // a waiting run must check its state
}
