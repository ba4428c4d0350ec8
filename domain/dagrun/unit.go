// Package dagrun decides how the run of a DAG proceeds: which nodes are ready, skipped, retried
// or reused from an earlier run, and when the run has finished. It is a pure function of the
// records of a run; infra/postgres/dagruns stores its decisions and service/dagruns executes
// them.
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

// Phase is the current phase of an open unit.
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

// Reasons why a node of a retried run was reused, or not.
const (
	ReuseSameInputs        = "same_inputs"        // definition and inputs are the same
	ReuseKept              = "kept"               // keep_outputs_of names it
	ReuseDefinitionChanged = "definition_changed" // it runs again
	ReuseInputsChanged     = "inputs_changed"     // it runs again
	ReuseRestarted         = "restarted"          // it is from_node_id or a successor
)

// Bounds of runs.
const (
	MaxOpenRuns    = 100       // of a user, without subflows
	MaxKeptRuns    = 500       // of a production solution, that are over
	MaxRetries     = 100       // of a run
	MaxWidth       = 32        // max concurrent units of a run
	MapWidth       = 8         // default max concurrent items of a map
	MaxItems       = 5000      // of a map
	MaxAdvances    = 20        // attempts of the same step of a run
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

// Unit is a piece of work of a run: a node, or an item of a map node.
type Unit struct {
	ID     string
	NodeID string
	Item   int // NoItem: the node itself

	Status  Status
	Phase   Phase
	Attempt int

	SessionID domain.SessionID // of its attempt; empty: it has none
	Begun     bool             // its message was sent, or its subflow started
	ChildID   string           // the run of its subflow; empty: none
	Stop      bool             // the work it has started must still be stopped

	Definition string // digest of its node
	Inputs     string // digest of its request
	Request    *Request
	Output     json.RawMessage
	Failure    *NodeFailure

	DueAt    *time.Time // end of its pause; of a working unit: when its next activity is due
	Deadline *time.Time // end of its attempt

	StartedAt   *time.Time
	FinishedAt  *time.Time
	Usage       domain.Usage
	ReusedFrom  string
	ReuseReason string

	New     bool // it is not stored yet
	Changed bool
}

// MessageID is the client_message_id of the message of the unit's attempt.
func (u *Unit) MessageID() string {
	return "dag-run/" + u.ID + "/" + strconv.Itoa(u.Attempt) + "/" + string(u.Phase)
}

// given reports whether the unit's attempt has a session or a subflow. Its message may be on
// its way even when it is not known as started.
func (u *Unit) given() bool { return u.Begun || u.SessionID != "" || u.ChildID != "" }

// Result is how the work of a unit ended.
type Result struct {
	Text    string // the output as text
	JSON    json.RawMessage
	Failure *NodeFailure
	Stop    bool // it failed while its work continues, which must be stopped
	Usage   domain.Usage
}

// Earlier is the finished output of a unit that may be used again.
type Earlier struct {
	ID         string // of the unit that made it
	NodeID     string
	SessionID  domain.SessionID // of that unit; empty: it had none
	ChildID    string           // likewise its subflow
	Definition string
	Inputs     string
	Output     json.RawMessage
	Kept       bool // reused despite changes
	Barred     bool // must not be reused: the retry starts at it or before it
}
