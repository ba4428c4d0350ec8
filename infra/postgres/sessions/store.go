// Package sessions stores sessions and what belongs to one as a whole: its settings, its
// lists and searches, its task list, its background tasks, the files that it has read,
// its share links and its removal. The lock of a session's row, which orders all that
// decides about its chats and its history, is taken here.
package sessions

import "everloop/infra/postgres/pg"

// Base is the store without an outbox: it reads, and writes what no event reports.
type Base struct{ *pg.DB }

// NewBase returns the store on a database.
func NewBase(db *pg.DB) *Base { return &Base{db} }

// Store is Base with all that emits events, which are committed with their state.
type Store struct {
	*Base
	*pg.Outbox
}

// NewStore returns the store that commits through an outbox.
func NewStore(base *Base, outbox *pg.Outbox) *Store {
	return &Store{Base: base, Outbox: outbox}
}
