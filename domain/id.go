package domain

import (
	"fmt"

	"github.com/google/uuid"
)

// NewID returns a new opaque identifier that sorts by creation (UUIDv7).
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// derivedIDs is the UUID namespace of ids that are derived from names.
var derivedIDs = uuid.MustParse("01a2c6f4-6d0e-7c55-9f57-3a52f2f0a9d1")

// ChatEndID returns the id of the event by which a round of a chat ends. It is deterministic,
// so that the event log deduplicates the event even if the database lost its commit.
func ChatEndID(chatID ChatID, round int) string {
	return uuid.NewSHA1(derivedIDs, fmt.Appendf(nil, "%s/%d/end", chatID, round)).String()
}

// DerivedID returns the id that a name always has, so that repeated requests create one thing.
func DerivedID(name string) string { return uuid.NewSHA1(derivedIDs, []byte(name)).String() }

// NewToolCallID returns a new id that clients, the model and the ledger use for a tool call. It
// replaces the model server's ids, which are not unique.
func NewToolCallID() string { return "call_" + NewID() }

// SessionID identifies a session.
type SessionID string

// ChatID identifies one run of the agent loop: the work of the workflow session/<id> between a
// message and its answer.
type ChatID string

// TurnID identifies one message of a transcript, of a user, an agent or the system.
type TurnID string

// BranchID identifies one line of turns of a session's history.
type BranchID string

// CheckpointID identifies a saved state of a session's transcript and files.
type CheckpointID string
