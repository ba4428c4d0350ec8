package postgres

import (
	"context"
	"log/slog"

	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/schedules"
	"everloop/infra/postgres/sessions"
	"everloop/infra/postgres/transcript"
)

type (
	scheduleStore = schedules.Store

	sessionBase       = sessions.Base
	sessionStore      = sessions.Store
	conversationBase  = conversation.Base
	conversationStore = conversation.Store
	transcriptBase    = transcript.Base
	transcriptStore   = transcript.Store
)

// Options tune Open; the zero value suits one process on one machine.
type Options = pg.Options

// DB is all stores on the connections of one process, without what emits events.
type DB struct {
	*pg.DB
	*scheduleStore
	*sessionBase
	*conversationBase
	*transcriptBase
}

// Open connects to the database at url and checks that it answers. The caller closes
// the DB.
func Open(ctx context.Context, url string, opts Options) (*DB, error) {
	db, err := pg.Open(ctx, url, opts)
	if err != nil {
		return nil, err
	}

	return &DB{
		DB:               db,
		scheduleStore:    schedules.New(db),
		sessionBase:      sessions.NewBase(db),
		conversationBase: conversation.NewBase(db),
		transcriptBase:   transcript.NewBase(db),
	}, nil
}

// Store is all stores, with what emits events.
type Store struct {
	*pg.DB
	*pg.Outbox
	*scheduleStore
	*sessionStore
	*conversationStore
	*transcriptStore
}

// NewStore returns the stores of db with an outbox to the event log, which Run
// publishes.
func NewStore(db *DB, log pg.EventLog, logger *slog.Logger) *Store {
	outbox := pg.NewOutbox(db.DB, log, logger)

	return &Store{
		DB:                db.DB,
		Outbox:            outbox,
		scheduleStore:     db.scheduleStore,
		sessionStore:      sessions.NewStore(db.sessionBase, outbox),
		conversationStore: conversation.NewStore(db.conversationBase, outbox, logger),
		transcriptStore:   transcript.NewStore(db.transcriptBase, outbox),
	}
}

// ChatStore returns the store of what happens in sessions.
func (s *Store) ChatStore() *conversation.Store { return s.conversationStore }

// SessionStore returns the store of sessions.
func (s *Store) SessionStore() *sessions.Store { return s.sessionStore }
