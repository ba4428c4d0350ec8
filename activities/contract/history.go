package contract

import (
	"everloop/domain"
	"everloop/domain/history"
	"everloop/internal/durable"
)

// WorkflowHistory is the workflow type of rewinds, changes of branch and what-ifs.
const WorkflowHistory = "History"

// CodeOperationGone is the error type of an operation whose session was deleted.
const CodeOperationGone = "operation_not_found"

// HistoryInput starts the run of one operation that was claimed.
type HistoryInput struct {
	SessionID   domain.SessionID            `json:"session_id"`
	OperationID string                      `json:"operation_id"`
	Kind        domain.HistoryOperationKind `json:"kind"`
}

// The work of an operation, and its end when an operator cancels it.
var (
	MoveHistory  = durable.Activity[MoveHistoryIn, MoveHistoryOut]{Name: "history.move", Preset: durable.Files}
	AbortHistory = durable.Activity[AbortHistoryIn, MoveHistoryOut]{Name: "history.abort", Preset: durable.Files}
)

// MoveHistoryIn names the operation to carry out.
type MoveHistoryIn struct {
	OperationID string `json:"operation_id"`
}

// MoveHistoryOut says how the operation ended. Its result is in the database.
type MoveHistoryOut struct {
	State history.State `json:"state"`
}

// AbortHistoryIn names the operation to end, with the reason.
type AbortHistoryIn struct {
	OperationID string `json:"operation_id"`
	Reason      string `json:"reason"`
}
