package sessions_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/pgtest"
)

// many is more than the sessions that one transaction reports.
const many = 1200

// manySessions makes sessions with a running chat each, a third with a queued sub-agent, a
// third with one that works and a third with none, and has all of them change.
func manySessions(t *testing.T, log *pgtest.Log) (*postgres.Store, map[domain.SessionID]domain.WaitingReason) {
	t.Helper()

	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	store := postgres.NewStore(db, log, nil)

	_, err := db.Pool.Exec(t.Context(), `
		WITH s AS (
			INSERT INTO sessions (id, owner_id, status, active_branch_id, active_chat_id)
			SELECT 's' || i, $1, 'running', 'b' || i, 'c' || i FROM generate_series(1, $2) i),
		b AS (INSERT INTO branches (id, session_id) SELECT 'b' || i, 's' || i FROM generate_series(1, $2) i),
		c AS (
			INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, waiting_reason)
			SELECT 'c' || i, 's' || i, 'b' || i, 'user', 'executing', 'running', 'tool' FROM generate_series(1, $2) i),
		e AS (
			INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status)
			SELECT 'e' || i, 's' || i, 'b' || i, 0, 'c' || i, 'assistant', 'completed' FROM generate_series(1, $2) i),
		t AS (
			INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase)
			SELECT 't' || i, 's' || i, 'c' || i, 'e' || i, 0, 'Agent', '', '{}', 'pending', 'running' FROM generate_series(1, $2) i)
		INSERT INTO loops (id, session_id, chat_id, branch_id, parent_loop_id, depth, agent_type, description, prompt,
		                   max_steps, time_limit_s, state)
		SELECT 't' || i, 's' || i, 'c' || i, 'b' || i, 'root', 1, 'general', '', '', 1, 1,
		       CASE i % 3 WHEN 1 THEN 'queued' ELSE 'running' END
		FROM   generate_series(1, $2) i WHERE i % 3 > 0`, ann.ID, many)
	require.NoError(t, err)

	rows, _ := db.Pool.Query(t.Context(), `
		SELECT 's' || i, CASE i % 3 WHEN 0 THEN 'tool' WHEN 1 THEN 'slot' ELSE 'child' END FROM generate_series(1, $1) i`, many)
	want := map[domain.SessionID]domain.WaitingReason{}

	for rows.Next() {
		var (
			id     domain.SessionID
			reason domain.WaitingReason
		)

		require.NoError(t, rows.Scan(&id, &reason))
		want[id] = reason
	}

	require.NoError(t, rows.Err())

	require.NoError(t, store.Update(t.Context(), func(tx *pg.Tx) error {
		for id := range want {
			if err := tx.Emit(id, "", domain.EventFileChanged, map[string]any{}); err != nil {
				return err
			}
		}

		return nil
	}))

	return store, want
}

// lastReasons returns the waiting reason that each session reported last.
func lastReasons(t *testing.T, store *postgres.Store, log *pgtest.Log) map[domain.SessionID]domain.WaitingReason {
	t.Helper()
	require.NoError(t, store.Flush(t.Context()))

	last := map[domain.SessionID]domain.WaitingReason{}

	for _, e := range log.Events() {
		var data domain.SessionUpdated
		if e.Name == domain.EventSessionUpdated {
			require.NoError(t, json.Unmarshal(e.Data, &data))
			last[e.SessionID] = data.WaitingReason
		}
	}

	return last
}

// One look reports what each of many sessions waits for.
func TestReportChanged_manySessions(t *testing.T) {
	t.Parallel()

	log := &pgtest.Log{}
	store, want := manySessions(t, log)

	require.NoError(t, store.ReportChanged(t.Context()))
	require.Equal(t, want, lastReasons(t, store, log))

	// A look later reports what has changed since.
	_, err := store.Pool.Exec(t.Context(), `UPDATE chats SET waiting_reason = 'model' WHERE id = 'c7'`)
	require.NoError(t, err)
	require.NoError(t, store.Update(t.Context(), func(tx *pg.Tx) error {
		return tx.Emit("s7", "c7", domain.EventFileChanged, map[string]any{})
	}))
	require.NoError(t, store.ReportChanged(t.Context()))

	want["s7"] = domain.WaitingModel
	require.Equal(t, want, lastReasons(t, store, log))
}

// One look reports of each of many sessions that it has no worker, and that it has one again.
func TestReportWaiting_manySessions(t *testing.T) {
	t.Parallel()

	log := &pgtest.Log{}
	store, want := manySessions(t, log)

	require.NoError(t, store.ReportWorker(t.Context(), prodagent.WorkerReport{ID: "w"}))
	_, err := store.Pool.Exec(t.Context(), `UPDATE workers SET seen_at = now() - interval '30 seconds'`)
	require.NoError(t, err)
	require.NoError(t, store.ReportWaiting(t.Context()))

	missing := map[domain.SessionID]domain.WaitingReason{}
	for id := range want {
		missing[id] = domain.WaitingWorkerMissing
	}

	require.Equal(t, missing, lastReasons(t, store, log))

	require.NoError(t, store.ReportWorker(t.Context(), prodagent.WorkerReport{ID: "w"}))
	require.NoError(t, store.ReportWaiting(t.Context()))
	require.Equal(t, want, lastReasons(t, store, log))
	require.NoError(t, store.ReportWaiting(t.Context()))
	require.Len(t, log.Names(), 3*many, "each was reported once")
}
