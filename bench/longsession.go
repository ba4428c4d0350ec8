package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"
)

const longSessionID = "01900000-0000-7000-8000-000000000001"

// seedLongSession copies a session with the given number of turns, of 60 words each, into
// the database of the service and returns its ID. The client's user owns it.
func (b *bench) seedLongSession(ctx context.Context, turns int) (_ string, err error) {
	url, err := b.server.RecordsURL()
	if err != nil {
		return "", err
	}

	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()

	var owner string
	if err := conn.QueryRow(ctx, `SELECT user_id FROM api_keys WHERE revoked_at IS NULL ORDER BY id LIMIT 1`).Scan(&owner); err != nil {
		return "", err
	}

	id, branch, chat := longSessionID, longSessionID+"-b", longSessionID+"-c"

	tables := []struct {
		name, columns string
		rows          [][]any
	}{
		{
			"sessions", "id owner_id intent status active_branch_id intent_from_message",
			[][]any{{id, owner, "a long one", "completed", branch, false}},
		},
		{"branches", "id session_id next_sequence", [][]any{{branch, id, turns}}},
		{
			"chats", "id session_id branch_id trigger mode state finish_reason",
			[][]any{{chat, id, branch, "user", "executing", "ended", "completed"}},
		},
		{"entries", "id session_id branch_id sequence parent_id chat_id role status blocks", longSessionTurns(turns)},
	}

	for _, t := range tables {
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{t.name}, strings.Fields(t.columns), pgx.CopyFromRows(t.rows)); err != nil {
			return "", fmt.Errorf("seed %s: %w", t.name, err)
		}

		if _, err := conn.Exec(ctx, "VACUUM ANALYZE "+t.name); err != nil {
			return "", err
		}
	}

	return id, nil
}

// longSessionTurns returns the rows of the turns, of the user and the assistant in turns.
func longSessionTurns(n int) [][]any {
	rng := rand.New(rand.NewPCG(1, 2))
	rows := make([][]any, n)

	var parent any

	for i := range rows {
		entry := fmt.Sprintf("%s-%08d", longSessionID, i)
		role := []string{"user", "assistant"}[i%2]
		blocks := []map[string]string{{"type": "text", "content": randomText(rng, 60)}}

		rows[i] = []any{
			entry, longSessionID, longSessionID + "-b", i, parent, longSessionID + "-c", role, "completed", blocks,
		}
		parent = entry
	}

	return rows
}

func randomText(rng *rand.Rand, words int) string {
	var text strings.Builder

	for i := range words {
		if i > 0 {
			text.WriteByte(' ')
		}

		for range 2 + rng.IntN(2) {
			text.WriteByte("bcdfghklmnprstvz"[rng.IntN(16)])
			text.WriteByte("aeiou"[rng.IntN(5)])
		}
	}

	return text.String()
}
