package postgres

import (
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/transcript"
)

// Conversation returns the store of messages, chats, turns, tool calls and questions.
func (s *Store) Conversation() *conversation.Store { return s.conversationStore }

// Transcripts returns the store of transcripts and compactions.
func (s *Store) Transcripts() *transcript.Store { return s.transcriptStore }

// Conversation returns the part of that store which emits no events.
func (db *DB) Conversation() *conversation.Base { return db.conversationBase }
