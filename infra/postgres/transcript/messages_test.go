package transcript_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/internal/testkit"
)

// longSession makes a session of so many turns, the last of which called a tool.
func longSession(t *testing.T, db *postgres.DB, owner domain.User, turns int) domain.Session {
	t.Helper()
	session, err := db.CreateSession(t.Context(), owner.ID, domain.NewSession{})
	require.NoError(t, err)
	pgtest.Say(t, db, session, 0, `[{"type":"text","content":"turn"}]`)
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, blocks)
		SELECT $1 || n, session_id, branch_id, n, chat_id, 'assistant', 'completed', blocks FROM entries, generate_series(1, $2) n
		    WHERE session_id = $1`,
		session.ID, turns-1)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase, result)
		SELECT 'call' || session_id, session_id, chat_id, id, 0, 'Bash', 'Bash', '{}', 'done', 'finished', 'out' FROM entries
		    WHERE session_id = $1 AND sequence = $2`,
		session.ID, turns-1)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `UPDATE branches SET next_sequence = $2 WHERE id = $1`, session.ActiveBranchID, turns)
	require.NoError(t, err)

	return session
}

func TestMessagesOverManyReads(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)

	const turns = 230

	session := longSession(t, db, ann, turns)

	newest, err := db.LastSequence(t.Context(), session.ID)
	require.NoError(t, err)
	require.EqualValues(t, turns-1, newest)

	_, err = db.LastSequence(t.Context(), domain.SessionID(domain.NewID()))
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound), "%v", err)

	last := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		after       *int64
		limit       int
		first, many int
	}{
		{nil, 0, 0, turns},
		{nil, 50, 0, 50},
		{nil, 51, 0, 51},
		{last(99), 100, 100, 100},
		{last(199), 30, 200, 30},
		{last(199), 31, 200, 30},
		{last(turns - 1), 0, turns, 0},
	} {
		next := int64(c.first)
		require.NoError(t, db.Messages(t.Context(), session.ID, c.after, c.limit, func(turn domain.Turn) error {
			require.Equal(t, next, turn.Sequence)
			require.Len(t, turn.ToolCalls, map[bool]int{true: 1}[turn.Sequence == turns-1])

			next++

			return nil
		}))
		require.EqualValues(t, c.first+c.many, next)
	}
}

// TestSlowReadersHoldNoConnection: more readers than there are connections stand
// still between two turns, and others continue as if they were not there.
func TestSlowReadersHoldNoConnection(t *testing.T) {
	t.Parallel()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 2})
	ann := pgtest.User(t, db, "ann", false)

	const turns, readers = 120, 20

	session := longSession(t, db, ann, turns)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	standing, goOn := make(chan struct{}), make(chan struct{})

	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			seen := 0

			err := db.Messages(ctx, session.ID, nil, 0, func(domain.Turn) error {
				if seen++; seen != 60 { // in the midst of what was read at once
					return nil
				}

				standing <- struct{}{}

				select {
				case <-goOn:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if err != nil || seen != turns {
				t.Errorf("a slow reader got %d turns: %v", seen, err)
			}
		})
	}

	for n := range readers {
		select {
		case <-standing:
		case <-ctx.Done():
			t.Fatalf("%d readers hold all connections", n)
		}
	}

	require.Zero(t, db.Pool.Stat().AcquiredConns())
	_, _, err := db.ReadSession(ctx, ann, session.ID)
	require.NoError(t, err)
	close(goOn)
	all.Wait()
}

// TestMessagesOfADeletedSessionBreakOff: a list that lost its end must not look
// whole.
func TestMessagesOfADeletedSessionBreakOff(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	session := longSession(t, db, ann, 120)
	err := db.Messages(t.Context(), session.ID, nil, 0, func(turn domain.Turn) error {
		if turn.Sequence != 60 {
			return nil
		}

		return errors.Join(db.DeleteSession(t.Context(), session.ID), db.PurgeSession(t.Context(), session.ID))
	})
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound), "%v", err)
}
