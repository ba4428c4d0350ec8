// Package transfer stores how sessions leave the service and come back: the archives of
// their events, their export and import, and replays.
package transfer

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
