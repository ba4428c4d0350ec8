package domain

import "github.com/google/uuid"

// NewID makes an opaque identifier that sorts by creation (UUIDv7).
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// NewToolCallID makes the id by which clients, the model and the ledger know a
// tool call. The model server's own ids are not unique, so they are replaced.
func NewToolCallID() string { return "call_" + NewID() }
