// Package dagrun decides how the run of a DAG continues: which nodes are ready, skipped,
// retried or reused, and when the run ends. The decisions are pure: the workflow of the run
// makes them by statuses alone and calls Content for everything that depends on inputs and
// outputs. Values implements the rules of content: references, conditions, digests, outputs.
package dagrun

import (
	"encoding/json"
	"strconv"
	"time"

	"everloop/domain"
)

// Status is how far a run or a node of it is. A run is never ready, skipped or reused.
type Status string

// The statuses of runs and nodes.
const (
	Pending   Status = "pending"
	Ready     Status = "ready"
	Running   Status = "running"
	Waiting   Status = "waiting"
	Completed Status = "completed"
	Failed    Status = "failed"
	Skipped   Status = "skipped"
	Cancelled Status = "cancelled"
	Reused    Status = "reused"
)

// Over reports whether the status is final.
func (s Status) Over() bool {
	switch s {
	case Completed, Failed, Skipped, Cancelled, Reused:
		return true
	default:
		return false
	}
}

// Phase is what an open unit does.
type Phase string

// The phases of a unit.
const (
	PhaseApproval Phase = "approval" // a person is asked whether it may start
	PhaseWork     Phase = "work"     // it does what its node is for
	PhasePause    Phase = "pause"    // it waits for its time, or for its next attempt
)

// Codes of failures, in addition to the codes of chats.
const (
	CodeTimeout        = "timeout"
	CodeHeartbeat      = "heartbeat_timeout"
	CodeNotApproved    = "not_approved"
	CodeToolFailed     = "tool_failed"
	CodeInvalidOutput  = "invalid_output"
	CodeOutputTooLarge = "output_too_large"
	CodeInvalidItems   = "invalid_items"
	CodeInvalidInputs  = "invalid_inputs"
	CodeCondition      = "condition_failed"
	CodeSubflowFailed  = "subflow_failed"
	CodeSubflowTooDeep = "subflow_too_deep"
	CodeSessionDeleted = "session_deleted"
	CodeAdvance        = "advance_failed" // of a run
)

// Codes of a run that is over or deleted, of an attempt that was given up, and of a node that its
// graph does not have.
const (
	CodeRunNotFound  = "dag_run_not_found"
	CodeRunOver      = "dag_run_over"
	CodeNodeOver     = "dag_node_over"
	CodeNodeNotFound = "dag_node_not_found"
)

// Reasons why a node of a retried run was reused, or not.
const (
	ReuseSameInputs        = "same_inputs"        // definition and inputs are the same
	ReuseKept              = "kept"               // keep_outputs_of names it
	ReuseDefinitionChanged = "definition_changed" // it runs again
	ReuseInputsChanged     = "inputs_changed"     // it runs again
	ReuseRestarted         = "restarted"          // it is from_node_id or a successor
	ReusePinned            = "pinned"             // the run of another node was given it
)

// Bounds of runs.
const (
	MaxOpenRuns    = 100       // of a user, without subflows
	MaxKeptRuns    = 500       // of a production solution, that are over
	MaxRetries     = 100       // of a run
	MaxWidth       = 32        // max concurrent units of a run
	MapWidth       = 8         // default max concurrent items of a map
	MaxItems       = 5000      // of a map
	MaxDepth       = 5         // of subflows in subflows
	MaxOutput      = 256 << 10 // bytes of the output of one unit
	MaxInputs      = 1 << 20   // bytes of the inputs of a run
	MaxTotal       = 16 << 20  // bytes of the outputs of a run
	MaxRequestText = 1 << 20   // bytes of the request of a node
	MaxItemText    = 64 << 20  // total bytes of the requests of a map's items
)

// NoItem is the number of a unit that is a node itself.
const NoItem = -1

// NodeFailure is why a unit or a run failed.
type NodeFailure struct {
	Code    string `json:"code" doc:"Why, for programs." example:"timeout"`
	Message string `json:"message" doc:"Why, for people."`
}

// Unit is the state of a piece of work of a run: a node, or an item of a map node. It has
// ids and statuses only, because the history of the workflow contains it.
type Unit struct {
	ID     string `json:"id,omitempty"` // of its row; empty until its first attempt has started
	NodeID string `json:"node"`
	Item   int    `json:"item"` // NoItem: the node itself

	Status  Status `json:"status"`
	Phase   Phase  `json:"phase,omitempty"`
	Attempt int    `json:"attempt,omitempty"`

	SessionID domain.SessionID `json:"session,omitempty"` // of its attempt; empty: none
	ChatID    domain.ChatID    `json:"chat,omitempty"`    // the chat that does its work; empty: none
	ChildID   string           `json:"child,omitempty"`   // the run of its subflow; empty: none
	Begun     bool             `json:"begun,omitempty"`   // its chat or its subflow exists
	Stop      bool             `json:"stop,omitempty"`    // its work must still be stopped

	Failure *NodeFailure `json:"failure,omitempty"`

	DueAt      *time.Time `json:"due,omitempty"`      // end of its pause; of running work: when its next activity is due
	Deadline   *time.Time `json:"deadline,omitempty"` // end of its attempt
	FinishedAt *time.Time `json:"finished,omitempty"`

	// States are the states of the items of an open map node, one letter an item.
	States string `json:"states,omitempty"`

	Look     bool         `json:"-"` // its work may have ended
	Rejected *NodeFailure `json:"-"` // its attempt failed before or besides the end of its work
	Changed  bool         `json:"-"` // its row must be written
}

// MessageID is the client_message_id of the message of an attempt of the unit with a row.
func MessageID(rowID string, attempt int, phase Phase) string {
	return "dag-run/" + rowID + "/" + strconv.Itoa(attempt) + "/" + string(phase)
}

// Result is how the work of a unit ended.
type Result struct {
	Text    string // the output as text
	JSON    json.RawMessage
	Failure *NodeFailure
	Usage   domain.Usage
}

// Earlier is the finished output of a unit that may be used again.
type Earlier struct {
	ID         string           // of the unit that made it
	SessionID  domain.SessionID // of that unit; empty: it had none
	ChildID    string           // likewise its subflow
	Definition string
	Inputs     string
	Output     json.RawMessage
	Files      *string // what was captured, encoded; nil: it passes no files on
	Kept       bool    // it is used even if its inputs changed
	Barred     bool    // must not be reused: the retry starts at it or before it
}
