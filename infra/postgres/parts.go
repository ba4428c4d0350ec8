package postgres

import (
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/transcript"
)

// Transcripts returns the store of transcripts and compactions.
func (s *Store) Transcripts() *transcript.Store { return s.transcriptStore }

// Conversation returns the part of ChatStore that emits no events.
func (db *DB) Conversation() *conversation.Base { return db.conversationBase }
