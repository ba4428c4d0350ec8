package history

import (
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// Store reads and writes the branches and checkpoints of sessions, the captures of their
// files, and the operations that move a session to another place. It carries out what
// domain/history decides.
type Store struct {
	db       *pg.DB
	outbox   *pg.Outbox
	chats    *conversation.Base
	sessions *sessions.Store
}

// NewStore returns a new store that commits its events through an outbox. A store with a
// nil outbox can only read.
func NewStore(db *pg.DB, outbox *pg.Outbox) *Store {
	base := sessions.NewBase(db)

	return &Store{db: db, outbox: outbox, chats: conversation.NewBase(db), sessions: sessions.NewStore(base, outbox)}
}
