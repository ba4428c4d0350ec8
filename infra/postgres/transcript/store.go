// Package transcript stores what was said in a session as it is read again: the turns
// that a branch shows to clients, the transcript that a model call is given, its size, and
// the compactions that shorten it.
package transcript

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
