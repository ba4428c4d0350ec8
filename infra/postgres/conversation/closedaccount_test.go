package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/domain/schedule"
	"everloop/infra/postgres/pgtest"
	"everloop/service/accounts"
	"everloop/service/dagruns"
	"everloop/service/work"
)

// exec runs a statement of a test.
func (w lastEndWorld) exec(sql string, args ...any) {
	w.t.Helper()

	_, err := w.store.Pool.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
}

// is reads one condition.
func (w lastEndWorld) is(condition string) (is bool) {
	w.t.Helper()
	require.NoError(w.t, w.store.Pool.QueryRow(w.t.Context(), `SELECT `+condition).Scan(&is))

	return is
}

// closed lists the sessions that have to be stopped, and stops them as the reconciler does.
func (w lastEndWorld) closed() (listed []domain.ClosedSession) {
	w.t.Helper()

	listed, err := work.NewStore(w.store.DB).ClosedSessions(w.t.Context(), "", 10)
	require.NoError(w.t, err)

	for _, s := range listed {
		_, err := w.store.RequestStop(w.t.Context(), s.OwnerID, s.ID, true)
		require.NoError(w.t, err)
	}

	return listed
}

// runOfTheUser is a run of the scheduled task t.
const runOfTheUser = "t-2026-01-01T00:00:00Z"

// runsOfTheUser adds one open run of each kind, and a background task.
func (w lastEndWorld) runsOfTheUser() {
	w.t.Helper()
	w.exec(`INSERT INTO background_tasks (id, session_id, kind, title, status) VALUES ('b', $1, 'shell', 't', 'running')`, w.session)
	w.exec(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, w.user.ID)
	w.exec(`INSERT INTO prod_documents (solution_id, kind, latest) VALUES ('p', 'dag', 1)`)
	w.exec(`
		INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, created_by, node_count, edge_count, message)
		VALUES ('p', 'dag', 1, '{"nodes":[{"id":"work","type":"agent"}],"edges":[]}', 'd', $1, 1, 0, '')`, w.user.ID)
	w.exec(`
		INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
		VALUES ('r', 'p', $1, 1, 'api', 'running', '{}')`, w.user.ID)
	w.exec(`
		INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, session_id) VALUES ('n', 'r', 'p', 'work', 'ready', NULL)`)
	w.exec(`
		INSERT INTO scheduled_tasks (id, owner_id, title, prompt, cron, timezone, enabled, skip_confirmations, persistent, overlap,
		                             catchup_window_s, pause_on_failure_after, jitter_s)
		VALUES ('t', $1, 't', 'p', '@daily', 'UTC', true, true, false, 'buffer_all', 60, 0, 0)`, w.user.ID)
	w.exec(`
		INSERT INTO scheduled_runs (id, task_id, manual, state, status, outcome, scheduled_for, triggered_at)
		VALUES ($1, 't', true, 'running', 'running', 'fired', now(), now()),
		       ('s2', 't', true, 'waiting', 'running', 'fired', now() - interval '1 hour', now())`, runOfTheUser)
}

func TestStore_DeleteUser_stopsWhatWorks(t *testing.T) {
	t.Parallel()

	w := newLastEndWorld(t)
	w.runsOfTheUser()
	queued := w.queue()

	require.NoError(t, accounts.New(w.store.DB).DeleteUser(t.Context(), w.user.ID))

	for what, condition := range map[string]string{
		"the running chat":    `stop_requested FROM chats WHERE state = 'running'`,
		"the background task": `stop_requested FROM background_tasks`,
		"the run of a DAG":    `cancel FROM dag_runs`,
		"the scheduled runs":  `bool_and(cancel_requested) FROM scheduled_runs`,
	} {
		require.True(t, w.is(condition), what)
	}

	require.Len(t, w.closed(), 1, "for its queue")
	require.Equal(t, chatNow{"ended", "interrupted", false}, w.now(queued))
	require.NoError(t, w.finish(contract.FinishChatIn{Reason: domain.FinishInterrupted}))
	require.Empty(t, w.closed())
}

func TestStore_DeleteUser_stopsAChatThatWaits(t *testing.T) {
	t.Parallel()

	w := newLastEndWorld(t)
	w.ask()
	_, err := w.store.ParkChat(t.Context(), contract.ParkChatIn{ChatID: w.chat})
	require.NoError(t, err)
	require.Empty(t, w.closed(), "the account is open")

	require.NoError(t, accounts.New(w.store.DB).DeleteUser(t.Context(), w.user.ID))
	require.Equal(t, []domain.ClosedSession{{ID: w.session, OwnerID: w.user.ID}}, w.closed())
	require.Equal(t, "ended", w.now(w.chat).state)
	require.True(t, w.is(`state = 'cancelled' FROM questions`))
	require.Empty(t, w.closed())
}

// What was on its way when the account was closed starts nothing, even without a flag.
func TestStore_closedAccount_startsNothing(t *testing.T) {
	t.Parallel()

	closed := func(t *testing.T, change func(lastEndWorld)) lastEndWorld {
		t.Helper()

		w := newLastEndWorld(t)
		change(w)
		w.exec(`UPDATE users SET disabled_at = now() WHERE id = $1`, w.user.ID)

		return w
	}

	t.Run("turn", func(t *testing.T) {
		t.Parallel()
		w := closed(t, func(lastEndWorld) {})
		key := domain.TurnKey{SessionID: w.session, ChatID: w.chat, LoopID: domain.RootLoop, Step: 1}
		_, state, err := w.store.OpenTurn(t.Context(), key, "m", 1, "")
		require.NoError(t, err)
		require.Equal(t, domain.TurnStopped, state)
	})
	t.Run("queued chat", func(t *testing.T) {
		t.Parallel()
		w := closed(t, func(w lastEndWorld) {
			w.queue()
			require.NoError(t, w.finish(contract.FinishChatIn{Reason: domain.FinishCompleted}))
		})
		out, err := w.store.BeginChat(t.Context(), contract.BeginChatIn{SessionID: w.session, RunID: "r2"})
		require.NoError(t, err)
		require.Empty(t, out.ChatID)
	})
	t.Run("message", func(t *testing.T) {
		t.Parallel()
		w := closed(t, func(lastEndWorld) {})
		_, err := w.store.Enqueue(t.Context(), w.user.ID, domain.Send{
			SessionID: w.session, Message: words("more"), Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerSchedule,
		})
		require.True(t, domain.HasCode(err, domain.CodeAccountClosed), err)
	})
	t.Run("runs", func(t *testing.T) {
		t.Parallel()
		w := closed(t, lastEndWorld.runsOfTheUser)
		_, err := dagruns.NewStore(w.store.DB).Claim(t.Context(), contract.DAGAttempt{
			DAGNode: contract.DAGNode{DAGTry: contract.DAGTry{RunID: "r"}, NodeID: "work"}, Item: dagrun.NoItem, Attempt: 1,
		})
		require.True(t, domain.HasCode(err, domain.CodeAccountClosed), err)

		run, _, err := w.store.ClaimRun(t.Context(), schedule.RunStart{RunID: runOfTheUser, Execution: "a"})
		require.NoError(t, err)
		require.True(t, run.Ended)
		require.True(t, w.is(`error_code = 'cancelled' AND state = 'ended' FROM scheduled_runs WHERE id = '`+runOfTheUser+`'`))
	})
	t.Run("credential", func(t *testing.T) {
		t.Parallel()

		db := pgtest.Open(t)
		user := pgtest.User(t, db, "ann", false)
		alive := func() bool {
			alive := pgtest.CredentialAlive(t, db, user, "")

			return alive
		}
		require.True(t, alive())

		_, err := db.Pool.Exec(t.Context(), `UPDATE users SET disabled_at = now() WHERE id = $1`, user.ID)
		require.NoError(t, err)
		require.False(t, alive())
	})
}
