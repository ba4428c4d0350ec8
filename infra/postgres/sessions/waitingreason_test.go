package sessions_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/infra/postgres/pgtest"
)

// A message that waited behind a long chat is not without a worker at the moment
// that chat ends.
func TestTheQueueHasNoWorkerOnceNoneTookItForAWhile(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	ann := pgtest.User(t, db, "ann", false)
	s, err := db.CreateSession(t.Context(), ann.ID, domain.NewSession{})
	require.NoError(t, err)

	chat := domain.NewID()
	_, err = db.Pool.Exec(t.Context(), `INSERT INTO chats (id, session_id, branch_id, trigger, mode, state)
		VALUES ($1, $2, $3, 'user', 'executing', 'queued')`,
		chat, s.ID, s.ActiveBranchID)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO inbox (session_id, kind, chat_id, turn_id, delivery_applied, position, parts, created_at)
		VALUES ($1, 'message', $2, $3, 'enqueue', 1, '[]', now() - interval '1 minute')`, s.ID, chat, domain.NewID())
	require.NoError(t, err)

	for _, c := range []struct {
		changed string // how long ago the chat before it ended; a slow machine takes its time to ask
		want    domain.WaitingReason
	}{
		{"-1 minute", domain.WaitingQueued},
		{"30 seconds", domain.WaitingWorkerMissing},
	} {
		_, err = db.Pool.Exec(t.Context(), `UPDATE sessions SET updated_at = now() - $2::interval WHERE id = $1`, s.ID, c.changed)
		require.NoError(t, err)
		read, _, err := db.ReadSession(t.Context(), ann, s.ID)
		require.NoError(t, err)
		require.Equal(t, c.want, read.WaitingReason, c.changed)
	}
}

// waitingReasons returns the waiting reasons that session:updated has reported.
func waitingReasons(t *testing.T, log *pgtest.Log) (reasons []domain.WaitingReason) {
	t.Helper()

	for _, e := range log.Events() {
		var changed struct {
			WaitingReason domain.WaitingReason `json:"waiting_reason"`
		}
		if e.Name == domain.EventSessionUpdated {
			require.NoError(t, json.Unmarshal(e.Data, &changed))
			reasons = append(reasons, changed.WaitingReason)
		}
	}

	return reasons
}

// What a running chat waits for is published when it changes, and that there is no worker
// comes before it, in whatever state the chat is.
func TestReportWaiting(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	log := &pgtest.Log{}
	j, user, session, chat := pgtest.RunningWith(t, db, log)
	all := []domain.WaitingReason{domain.WaitingModel} // published so far: the chat has started
	look := func(want domain.WaitingReason, emitted ...domain.WaitingReason) {
		t.Helper()
		read, _, err := db.ReadSession(t.Context(), user, session)
		require.NoError(t, err)
		require.Equal(t, want, read.WaitingReason)

		all = append(all, emitted...)

		for range 2 { // what was published once is not published again
			require.NoError(t, j.ReportChanged(t.Context()))
			require.NoError(t, j.ReportWaiting(t.Context()))
		}

		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, all, waitingReasons(t, log))
		}, time.Minute, 5*time.Millisecond)
	}
	stale := func() {
		_, err := db.Pool.Exec(t.Context(), `UPDATE workers SET seen_at = now() - interval '30 seconds'`)
		require.NoError(t, err)
	}

	look(domain.WaitingModel) // its chat:start said so; nothing is known of workers
	require.NoError(t, db.ReportWorker(t.Context(), prodagent.WorkerReport{ID: "w1"}))
	look(domain.WaitingModel)
	stale()
	look(domain.WaitingWorkerMissing, domain.WaitingWorkerMissing)
	require.NoError(t, db.ReportWorker(t.Context(), prodagent.WorkerReport{ID: "w2"}))
	look(domain.WaitingModel, domain.WaitingModel)

	key := domain.TurnKey{SessionID: session, ChatID: chat, LoopID: domain.RootLoop, Step: 1}
	turn, _, err := j.OpenTurn(t.Context(), key, "m", 1, "")
	require.NoError(t, err)
	require.NoError(t, j.CloseTurn(t.Context(), domain.ClosingTurn{
		TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnCompleted, Blocks: []domain.Block{},
		Calls: []domain.PlannedCall{{ID: "call1", ToolName: "Bash", DisplayName: "Bash", Arguments: "{}"}},
	}))
	look(domain.WaitingTool, domain.WaitingTool)
	require.NoError(t, db.ReportWorkerStopped(t.Context(), "w2"))
	look(domain.WaitingWorkerMissing, domain.WaitingWorkerMissing)
	require.NoError(t, db.ReportWorker(t.Context(), prodagent.WorkerReport{ID: "w2"}))
	look(domain.WaitingTool, domain.WaitingTool)

	_, err = j.RequestStop(t.Context(), user.ID, session, false)
	require.NoError(t, err)
	_, err = j.FinishChat(t.Context(), contract.FinishChatIn{ChatID: chat, Reason: domain.FinishInterrupted}, nil)
	require.NoError(t, err)
	look(domain.WaitingNone, domain.WaitingNone) // said by the chat's end
}

// The last row of a worker that is gone stays, so that it is known that there was one.
func TestReportWorker_forgetsOldOnes(t *testing.T) {
	t.Parallel()

	db := pgtest.Open(t)
	for _, id := range []string{"a", "b"} {
		require.NoError(t, db.ReportWorker(t.Context(), prodagent.WorkerReport{ID: id}))
	}

	_, err := db.Pool.Exec(t.Context(), `UPDATE workers SET seen_at = now() - interval '2 days'`)
	require.NoError(t, err)
	require.NoError(t, db.ReportWorker(t.Context(), prodagent.WorkerReport{ID: "b"}))

	var left string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT string_agg(id, ' ' ORDER BY id) FROM workers`).Scan(&left))
	require.Equal(t, "b", left)
}
