package history_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/infra/postgres"
	"everloop/internal/testkit"
	"everloop/service/history"
)

// seedCheckpoints gives a database 200 sessions of 500 captured checkpoints each,
// of turns with a finished tool call, without statistics about them.
const seedCheckpoints = `
	WITH made AS (
		INSERT INTO sessions (id, owner_id, sandbox_uid, active_branch_id)
		SELECT 's' || n, $1, 800000 + n, 'b' || n FROM generate_series(1, 200) n RETURNING id),
	branched AS (
		INSERT INTO branches (id, session_id, lineage, reason) SELECT 'b' || substr(id, 2), id, '[]', 'root' FROM made
		    RETURNING id, session_id),
	chatted AS (
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state)
		SELECT 'c' || substr(id, 2), session_id, id, 'user', 'executing', 'ended' FROM branched RETURNING id, session_id, branch_id),
	turned AS (
		INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, loop_id, kind, role, status, step)
		SELECT 'e' || substr(c.id, 2) || '-' || m, c.session_id, c.branch_id, m, c.id, 'root', 'message', 'assistant', 'completed', m
		FROM   chatted c, generate_series(1, 500) m RETURNING id, session_id, branch_id, chat_id, sequence),
	called AS (
		INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase, attempt)
		SELECT 't' || id, session_id, chat_id, id, 0, 'Bash', 'Bash', '{}', 'done', 'finished', 1 FROM turned)
	INSERT INTO checkpoints (id, session_id, branch_id, turn_id, chat_id, kind, sequence, state, snapshot_id)
	SELECT 'k' || lpad(sequence::text, 6, '0') || id, session_id, branch_id, id, chat_id, 'tool_batch', sequence, 'captured',
	    'snap-' || id FROM turned`

// rowsRead counts the rows that scans of the tables of captures have returned.
func rowsRead(t *testing.T, stats *pgx.Conn) (rows int) {
	t.Helper()
	require.NoError(t, stats.QueryRow(context.Background(), `
		SELECT coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)::int FROM pg_stat_user_tables
		WHERE  relname IN ('checkpoints', 'tool_calls', 'background_tasks', 'branches', 'sessions')`).Scan(&rows))

	return rows
}

// TestTakeCaptures_readsTheSessionOnly holds that a capture of one step costs the
// same among 100,000 checkpoints, also by a plan that was made before there were
// any and with no statistics.
func TestTakeCaptures_readsTheSessionOnly(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := testkit.Postgres(t)
	db, err := postgres.Open(ctx, url, postgres.Options{MaxConns: 1, ConnectTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(db.Close)

	store := history.NewStore(db.DB, nil)

	stats, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = stats.Close(context.Background()) })

	for _, table := range []string{"checkpoints", "tool_calls", "entries", "sessions", "branches"} {
		_, err = db.Pool.Exec(ctx, `ALTER TABLE `+table+` SET (autovacuum_enabled = false)`)
		require.NoError(t, err)
	}

	owner := domain.NewID()
	_, err = db.Pool.Exec(ctx, `INSERT INTO users (id, username) VALUES ($1, 'x')`, owner)
	require.NoError(t, err)

	for range 10 { // until the plan is one for every session
		_, err := store.TakeCaptures(ctx, "s1", "process", nil, false)
		require.NoError(t, err)
	}

	_, err = stats.Exec(ctx, seedCheckpoints, owner)
	require.NoError(t, err)
	// The last two steps of s7 must be captured; the tool of the second has run.
	_, err = stats.Exec(ctx, `UPDATE checkpoints SET state = 'pending', snapshot_id = NULL WHERE session_id = 's7' AND sequence >= 499`)
	require.NoError(t, err)
	flush(t, db, stats)

	before := rowsRead(t, stats)
	due, err := store.TakeCaptures(ctx, "s7", "process", nil, false)
	require.NoError(t, err)
	require.Len(t, due.IDs, 2)
	require.Equal(t, 800007, due.SandboxUID)
	require.True(t, due.Late, "a later tool has run")
	require.False(t, due.Busy)
	require.Equal(t, "snap-e7-498", due.Previous)
	flush(t, db, stats)
	require.Less(t, rowsRead(t, stats)-before, 60, "rows read for one capture")

	// The lease lasts, however slow this machine is.
	_, err = stats.Exec(ctx, `UPDATE checkpoints SET lease_until = now() + interval '1 hour' WHERE lease_owner = 'process'`)
	require.NoError(t, err)
	flush(t, db, stats)

	before = rowsRead(t, stats)
	again, err := store.TakeCaptures(ctx, "s7", "process", due.IDs, false)
	require.NoError(t, err)
	require.Empty(t, again.IDs)
	require.Zero(t, again.Held)

	other, err := store.TakeCaptures(ctx, "s7", "another", nil, false)
	require.NoError(t, err)
	require.Empty(t, other.IDs)
	require.Equal(t, 2, other.Held)

	none, err := store.TakeCaptures(ctx, "s8", "process", nil, false)
	require.NoError(t, err)
	require.Empty(t, none.IDs)
	flush(t, db, stats)
	require.Less(t, rowsRead(t, stats)-before, 60, "rows read when there is nothing to capture")
}

// flush makes the statistics of all that was done so far visible.
func flush(t *testing.T, db *postgres.DB, stats *pgx.Conn) {
	t.Helper()

	ctx := context.Background()
	_, err := db.Pool.Exec(ctx, `SELECT pg_stat_force_next_flush()`)
	require.NoError(t, err)
	_, err = stats.Exec(ctx, `SELECT pg_stat_force_next_flush()`)
	require.NoError(t, err)
	_, err = stats.Exec(ctx, `SELECT pg_stat_clear_snapshot()`)
	require.NoError(t, err)
}

// A process whose lease ran out may have looked at the files after the next tool
// had started: what it saw must not be recorded.
func TestRecordCaptures_needsTheLease(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 2})
	store := history.NewStore(db.DB, nil)

	owner := domain.NewID()
	_, err := db.Pool.Exec(ctx, `INSERT INTO users (id, username) VALUES ($1, 'x')`, owner)
	require.NoError(t, err)
	session, err := db.CreateSession(ctx, owner, domain.NewSession{})
	require.NoError(t, err)
	_, err = db.Pool.Exec(ctx, `
		INSERT INTO checkpoints (id, session_id, branch_id, turn_id, kind, sequence) SELECT 'k', id, active_branch_id, '', 'manual', 1
		    FROM sessions`)
	require.NoError(t, err)

	take := func(process string) []string {
		due, err := store.TakeCaptures(ctx, session.ID, process, nil, false)
		require.NoError(t, err)

		return due.IDs
	}
	require.Equal(t, []string{"k"}, take("slow"))
	// The lease lasts, however slow this machine is.
	_, err = db.Pool.Exec(ctx, `UPDATE checkpoints SET lease_until = now() + interval '1 hour'`)
	require.NoError(t, err)

	forgotten, err := store.ForgottenCaptures(ctx, -time.Hour, "")
	require.NoError(t, err)
	require.Empty(t, forgotten)

	_, err = db.Pool.Exec(ctx, `UPDATE checkpoints SET lease_until = now() - interval '1 second'`)
	require.NoError(t, err)
	forgotten, err = store.ForgottenCaptures(ctx, -time.Hour, "")
	require.NoError(t, err)
	require.Equal(t, []domain.SessionID{session.ID}, forgotten)
	forgotten, err = store.ForgottenCaptures(ctx, -time.Hour, string(session.ID))
	require.NoError(t, err)
	require.Empty(t, forgotten, "the page after it")
	require.Equal(t, []string{"k"}, take("next"))

	record := func(process, snapshot string) {
		_, err := store.RecordCaptures(
			ctx,
			process,
			domainhistory.DueCaptures{SessionID: session.ID, IDs: []string{"k"}},
			domainhistory.Snapshot{ID: snapshot},
		)
		require.NoError(t, err)
	}
	record("slow", "late")
	require.NoError(t, store.FailCaptures(ctx, "slow", []string{"k"}, "late"))
	record("next", "right")

	var snapshot, state string
	require.NoError(t, db.Pool.QueryRow(ctx, `SELECT snapshot_id, state FROM checkpoints`).Scan(&snapshot, &state))
	require.Equal(t, []string{"right", "captured"}, []string{snapshot, state})
}

// Nothing waits for files that cannot be stored for the time being, and none takes them
// up before the lease has expired. A later look at them is a new one.
func TestDelayCaptures(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 2})
	store := history.NewStore(db.DB, nil)

	owner := domain.NewID()
	_, err := db.Pool.Exec(ctx, `INSERT INTO users (id, username) VALUES ($1, 'x')`, owner)
	require.NoError(t, err)
	session, err := db.CreateSession(ctx, owner, domain.NewSession{})
	require.NoError(t, err)
	_, err = db.Pool.Exec(ctx, `
		INSERT INTO checkpoints (id, session_id, branch_id, turn_id, kind, sequence) SELECT 'k', id, active_branch_id, '', 'manual', 1
		    FROM sessions`)
	require.NoError(t, err)

	take := func(process string) domainhistory.DueCaptures {
		due, err := store.TakeCaptures(ctx, session.ID, process, nil, false)
		require.NoError(t, err)
		// The lease lasts, however slow this machine is.
		_, err = db.Pool.Exec(ctx, `UPDATE checkpoints SET lease_until = now() + interval '1 hour'`)
		require.NoError(t, err)

		return due
	}
	state := func() (owner, failure string) {
		require.NoError(t, db.Pool.QueryRow(ctx, `SELECT lease_owner, coalesce(failure, '') FROM checkpoints`).Scan(&owner, &failure))
		return owner, failure
	}

	require.Equal(t, []string{"k"}, take("one").IDs)
	require.Equal(t, 1, take("other").Held)

	delay := func(process string) bool {
		held, err := store.DelayCaptures(ctx, process, []string{"k"}, "away of "+process)
		require.NoError(t, err)

		return held
	}

	require.False(t, delay("other"))
	require.True(t, delay("one"))

	due := take("other")
	require.Empty(t, due.IDs)
	require.Zero(t, due.Held)

	process, failure := state()
	require.Equal(t, []string{"one", "away of one"}, []string{process, failure})

	_, err = db.Pool.Exec(ctx, `UPDATE checkpoints SET lease_until = now() - interval '1 second'`)
	require.NoError(t, err)
	require.Equal(t, []string{"k"}, take("other").IDs)
	require.Equal(t, 1, take("one").Held, "it is looked at")

	process, failure = state()
	require.Equal(t, []string{"other", ""}, []string{process, failure})

	_, err = db.Pool.Exec(ctx, `UPDATE sessions SET deleted_at = now()`)
	require.NoError(t, err)
	require.False(t, delay("other"))
}

// What a move is about to replace must be on the disk before it starts: its record
// would not come back with a PostgreSQL that was killed. Others can be captured again.
func TestRecordCaptures_waitsForTheDiskBeforeAMove(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 2})
	store := history.NewStore(db.DB, nil)

	owner := domain.NewID()
	_, err := db.Pool.Exec(ctx, `INSERT INTO users (id, username) VALUES ($1, 'x')`, owner)
	require.NoError(t, err)
	_, err = db.Pool.Exec(ctx, strings.NewReplacer("(1, 200)", "(1, 1)", "(1, 500)", "(1, 2)").Replace(seedCheckpoints), owner)
	require.NoError(t, err)

	// The trigger runs when the transaction commits, and sees how.
	for _, statement := range []string{
		`UPDATE checkpoints SET state = 'pending', snapshot_id = NULL, lease_owner = 'me'`,
		`UPDATE checkpoints SET kind = 'pre_rewind' WHERE sequence = 2`,
		`CREATE TABLE commits (kind text, waits text)`,
		`CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$
		 BEGIN INSERT INTO commits VALUES (NEW.kind, current_setting('synchronous_commit')); RETURN NULL; END $$`,
		`CREATE CONSTRAINT TRIGGER commits AFTER UPDATE ON checkpoints DEFERRABLE INITIALLY DEFERRED
		 FOR EACH ROW EXECUTE FUNCTION note_commit()`,
	} {
		_, err = db.Pool.Exec(ctx, statement)
		require.NoError(t, err, statement)
	}

	for _, id := range []string{"k000001e1-1", "k000002e1-2"} {
		_, err = store.RecordCaptures(
			ctx,
			"me",
			domainhistory.DueCaptures{SessionID: "s1", IDs: []string{id}},
			domainhistory.Snapshot{ID: "snapshot"},
		)
		require.NoError(t, err)
	}

	rows, _ := db.Pool.Query(ctx, `SELECT kind || ' ' || waits FROM commits`)
	commits, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"tool_batch off", "pre_rewind on"}, commits)
}

// A call that was claimed waits until the files before it have been seen, however
// late that look starts: what is seen then is what the checkpoint held.
func TestTakeCaptures_lateOnlyWhenALaterToolMayHaveWritten(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 2})
	store := history.NewStore(db.DB, nil)

	owner := domain.NewID()
	_, err := db.Pool.Exec(ctx, `INSERT INTO users (id, username) VALUES ($1, 'x')`, owner)
	require.NoError(t, err)
	_, err = db.Pool.Exec(ctx, strings.NewReplacer("(1, 200)", "(1, 6)", "(1, 500)", "(1, 2)").Replace(seedCheckpoints), owner)
	require.NoError(t, err)
	_, err = db.Pool.Exec(ctx, `UPDATE checkpoints SET state = 'pending', kind = 'user_turn' WHERE sequence = 1`)
	require.NoError(t, err)

	for i, c := range []struct {
		name  string
		call  string // what is set of the later turn's call
		taken bool   // a process took the checkpoint before, and died
		late  bool
	}{
		{name: "never begun", call: `phase = 'queued', status = 'pending', attempt = 0`},
		{name: "running", call: `phase = 'running', status = 'pending', attempt = 1`},
		{name: "running again", call: `phase = 'running', status = 'pending', attempt = 2`, late: true},
		{name: "finished", call: `phase = 'finished', status = 'done', attempt = 1`, late: true},
		{name: "never begun, taken before", call: `phase = 'queued', status = 'pending', attempt = 0`, taken: true},
		{name: "running, taken before", call: `phase = 'running', status = 'pending', attempt = 1`, taken: true, late: true},
	} {
		session := fmt.Sprint("s", i+1)
		_, err = db.Pool.Exec(ctx, `UPDATE tool_calls SET `+c.call+` WHERE session_id = $1 AND entry_id LIKE '%-2'`, session)
		require.NoError(t, err)

		if c.taken {
			_, err := store.TakeCaptures(ctx, domain.SessionID(session), "dead", nil, false)
			require.NoError(t, err)
			_, err = db.Pool.Exec(ctx, `UPDATE checkpoints SET lease_until = now() - interval '1 second' WHERE session_id = $1
				AND state = 'pending'`, session)
			require.NoError(t, err)
		}

		due, err := store.TakeCaptures(ctx, domain.SessionID(session), "process", nil, false)
		require.NoError(t, err)
		require.Len(t, due.IDs, 1, c.name)
		require.Equal(t, c.late, due.Late, c.name)
	}
}
