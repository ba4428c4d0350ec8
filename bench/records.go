package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/bench/target"
)

// seeder fills the records of the service under test.
type seeder struct {
	conn  *pgx.Conn
	owner string // the user whose key the client has
	next  int
	rng   *rand.Rand
	words []string

	sessions, branches, chats, entries, calls [][]any
}

func (b *bench) newSeeder(ctx context.Context) (*seeder, error) {
	url, err := b.server.RecordsURL()
	if err != nil {
		return nil, err
	}

	s := &seeder{rng: rand.New(rand.NewPCG(1, 2)), words: vocabulary(1000)}
	if s.conn, err = pgx.Connect(ctx, url); err != nil {
		return nil, err
	}

	return s, s.conn.QueryRow(ctx, `SELECT user_id FROM api_keys WHERE revoked_at IS NULL ORDER BY id LIMIT 1`).Scan(&s.owner)
}

// vocabulary makes words that differ, of four to seven letters.
func vocabulary(n int) []string {
	words := make([]string, n)
	for i := range words {
		var word strings.Builder
		for k, rest := 0, i*7919+n; k < 2+i%3/2 || rest > 0; k++ {
			word.WriteByte("bcdfghklmnprstvz"[rest%16])
			word.WriteByte("aeiou"[rest/16%5])
			rest /= 80
		}

		words[i] = word.String()
	}

	return words
}

func (s *seeder) text(words int) string {
	var text strings.Builder

	for i := range words {
		if i > 0 {
			text.WriteByte(' ')
		}

		text.WriteString(s.words[s.rng.IntN(len(s.words))])
	}

	return text.String()
}

// session adds a session of one chat; its turns are what say gives, in turns of
// the user and the assistant.
func (s *seeder) session(owner, intent string, template *string, pinned bool, turns int, say func(n int) string) string {
	s.next++
	id := fmt.Sprintf("01900000-0000-7000-8000-%012x", s.next)
	s.sessions = append(s.sessions, []any{id, owner, intent, "completed", template, pinned, id + "-b", false})
	s.branches = append(s.branches, []any{id + "-b", id, turns})
	s.chats = append(s.chats, []any{id + "-c", id, id + "-b", "user", "executing", "ended", "completed"})

	var parent any

	for n := range turns {
		entry := fmt.Sprintf("%s-%08d", id, n)
		role := []string{"user", "assistant"}[n%2]
		s.entries = append(
			s.entries,
			[]any{entry, id, id + "-b", n, parent, id + "-c", role, "completed", []map[string]string{{"type": "text", "content": say(n)}}},
		)
		parent = entry
	}

	return id
}

// call adds a finished tool call to the turn n of a session.
func (s *seeder) call(session string, n int, result string) {
	entry := fmt.Sprintf("%s-%08d", session, n)
	s.calls = append(
		s.calls,
		[]any{entry + "-t", session, session + "-c", entry, 0, "Bash", "Bash", `{"command":"true"}`, "done", "finished", result},
	)
}

// write copies all that was added, and leaves the tables as a server is after its
// autovacuum.
func (s *seeder) write(ctx context.Context) error {
	for _, t := range []struct {
		name, columns string
		rows          [][]any
	}{
		{"sessions", "id owner_id intent status template_id is_pinned active_branch_id intent_from_message", s.sessions},
		{"branches", "id session_id next_sequence", s.branches},
		{"chats", "id session_id branch_id trigger mode state finish_reason", s.chats},
		{"entries", "id session_id branch_id sequence parent_id chat_id role status blocks", s.entries},
		{"tool_calls", "id session_id chat_id entry_id position tool_name display_name arguments status phase result", s.calls},
	} {
		if _, err := s.conn.CopyFrom(ctx, pgx.Identifier{t.name}, strings.Fields(t.columns), pgx.CopyFromRows(t.rows)); err != nil {
			return fmt.Errorf("seed %s: %w", t.name, err)
		}
	}

	s.sessions, s.branches, s.chats, s.entries, s.calls = nil, nil, nil, nil, nil

	return s.settle(ctx)
}

func (s *seeder) settle(ctx context.Context) error {
	for _, table := range []string{"sessions", "branches", "chats", "entries", "tool_calls", "search_texts"} {
		if _, err := s.conn.Exec(ctx, "VACUUM ANALYZE "+table); err != nil {
			return err
		}
	}

	return nil
}

// untilSearchable lets searches enter all texts into their index, as they do by and
// by, and gives how long that took.
func (s *seeder) untilSearchable(ctx context.Context, c *target.Client) (time.Duration, error) {
	began := time.Now()

	for waiting := 1; waiting > 0; {
		if err := c.Call(ctx, "GET", "/api/sessions?limit=1&q=whatever", nil, nil); err != nil {
			return 0, err
		}

		if err := wait(ctx, 200*time.Millisecond); err != nil {
			return 0, err
		}

		if err := s.conn.QueryRow(ctx, `SELECT count(*) FROM search_texts WHERE owner_id = $1 AND NOT indexed`,
			s.owner).Scan(&waiting); err != nil {
			return 0, err
		}
	}

	return time.Since(began), s.settle(ctx)
}
