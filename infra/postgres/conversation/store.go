// Package conversation stores what happens in a session: messages and their queue,
// chats, turns, tool calls, questions and sub-agents. It carries out what domain/chat
// decides, and knows no transport.
package conversation

import (
	"log/slog"

	"everloop/infra/postgres/pg"
)

// Base is the store without an outbox: it reads, and writes what no event reports.
type Base struct{ *pg.DB }

// NewBase returns the store on a database.
func NewBase(db *pg.DB) *Base { return &Base{db} }

// Store is Base with all that emits events, which are committed with their state.
type Store struct {
	*Base
	*pg.Outbox
	logger *slog.Logger
}

// NewStore returns the store that commits through an outbox.
func NewStore(base *Base, outbox *pg.Outbox, logger *slog.Logger) *Store {
	return &Store{Base: base, Outbox: outbox, logger: logger}
}
