package domain

import "github.com/google/uuid"

// NewID makes an opaque identifier that sorts by creation (UUIDv7).
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// NewToolCallID makes the id by which clients, the model and the ledger know a
// tool call. The model server's own ids are not unique, so they are replaced.
func NewToolCallID() string { return "call_" + NewID() }

// SessionID names a session.
type SessionID string

// ChatID names one run of the agent loop: what the workflow session/<id> does between a message and its answer.
type ChatID string

// TurnID names one message of a transcript, of a user, an agent or the system.
type TurnID string

// BranchID names one line of turns of a session's history.
type BranchID string

// CheckpointID names a saved state of a session's transcript and files.
type CheckpointID string
