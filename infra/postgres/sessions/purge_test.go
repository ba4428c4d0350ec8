package sessions_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"everloop/infra/postgres/pgtest"
	"everloop/infra/postgres/sessions"
)

// satellites are the tables of which a session has at most a few dozen rows: they go with
// the row of the session, by their foreign keys.
var satellites = []string{
	"agent_sessions",
	"checkpoint_usage",
	"mcp_connections",
	"mcp_servers",
	"model_limits",
	"replays",
	"session_extras",
	"session_skills",
	"skill_loads",
	"skill_snapshots",
}

// Every table with rows of sessions is emptied when a session is removed: in bounded
// steps, or, where it is small, with the session's row.
func TestPurgedTables_areAllThatHoldSessions(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	kept := []string{
		"cancelled_sends", // ids alone, for 30 days: a late message must not start a session's work again
		"apps",            // a published app outlives its session
		"scheduled_runs", "scheduled_tasks",
		"dag_run_nodes",      // with their run
		"trigger_deliveries", // with their trigger
		"issue_runs",         // the record of a run outlives its session
	}
	rows, err := db.Pool.Query(t.Context(), `
		SELECT table_name::text FROM information_schema.columns
		WHERE  table_schema = 'public' AND column_name = 'session_id' ORDER BY 1`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, tables)

	for _, table := range tables {
		places := 0

		for _, list := range [][]string{kept, sessions.PurgedTables, satellites} {
			if slices.Contains(list, table) {
				places++
			}
		}

		require.Equal(t, 1, places, table)
	}

	rows, err = db.Pool.Query(t.Context(), `
		SELECT conrelid::regclass::text FROM pg_constraint
		WHERE  contype = 'f' AND confrelid = 'sessions'::regclass AND confdeltype = 'c' AND conrelid <> 'search_texts'::regclass
		ORDER  BY 1`)
	require.NoError(t, err)
	cascades, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, satellites, cascades, "a cascade is for small tables alone: others are emptied in steps")
}

// What cascades goes with a removed session, and stays with every other.
func TestDB_PurgeSession_removesSatellites(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	user := pgtest.User(t, db, "owner", false)
	for _, session := range []string{"gone", "stays"} {
		_, err := db.Pool.Exec(t.Context(), `
			WITH made AS (INSERT INTO sessions (id, owner_id, active_branch_id) VALUES ($1, $2, 'branch of ' || $1)
			    RETURNING id, active_branch_id)
			INSERT INTO branches (id, session_id) SELECT active_branch_id, id FROM made`, session, user.ID)
		require.NoError(t, err)

		for _, fill := range []string{
			`agent_sessions (session_id, instance_id) SELECT id, 'n'`,
			`checkpoint_usage (session_id, owner_id, bytes) SELECT id, owner_id, 1`,
			`mcp_connections (session_id, name, fingerprint, status) SELECT id, 'n', '', 'failed'`,
			`mcp_servers (id, scope, session_id, owner_id, name, transport, sealed, timeout_s, enabled, trust_hints)
			 SELECT 'server of ' || id, 'session', id, owner_id, 'n', 'http', '', 1, true, false`,
			`model_limits (session_id, model, kind, subject) SELECT id, 'm', 'image', 'i'`,
			`replays (session_id, source_session_id, speed, status, script, total) SELECT id, 'x', 1, 'finished', '', 0`,
			`session_extras (session_id) SELECT id`,
			`session_skills (session_id, name, source, digest) SELECT id, 'n', 'uploaded', ''`,
			`skill_loads (session_id, name, digest) SELECT id, 'n', ''`,
			`skill_snapshots (session_id, skill_id, name, digest, path, files_count) SELECT id, 'n', 'n', '', '', 1`,
		} {
			_, err := db.Pool.Exec(t.Context(), "INSERT INTO "+fill+" FROM sessions WHERE id = $1", session)
			require.NoError(t, err, fill)
		}
	}

	require.NoError(t, db.DeleteSession(t.Context(), "gone"))
	require.NoError(t, db.PurgeSession(t.Context(), "gone"))

	for _, table := range append([]string{"branches"}, satellites...) {
		var left []string
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT array_agg(session_id) FROM `+table).Scan(&left))
		require.Equal(t, []string{"stays"}, left, table)
	}
}

// A session of any size is removed in small transactions.
func TestDB_PurgeSession_removesInBatches(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)

	_, _, session, chat := pgtest.Running(t, db)
	for _, fill := range []string{
		`INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, step)
		 SELECT 'e' || n, $1, s.active_branch_id, 10 + n, $2, 'assistant', 'completed', n FROM sessions s, generate_series(1, 1300) n
		     WHERE s.id = $1`,
		`INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase)
		 SELECT 'call' || n, $1, $2, 'e' || n, 0, 'Bash', 'Bash', '{}', 'done', 'finished' FROM generate_series(1, 1300) n`,
	} {
		_, err := db.Pool.Exec(t.Context(), fill, session, chat)
		require.NoError(t, err)
	}

	require.NoError(t, db.DeleteSession(t.Context(), session))
	require.NoError(t, db.PurgeSession(t.Context(), session))

	for _, table := range sessions.PurgedTables {
		var rows int
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&rows))
		require.Zero(t, rows, table)
	}

	require.NoError(t, db.PurgeSession(t.Context(), session), "again")
}
