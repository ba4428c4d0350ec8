package work_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/operator"
	"everloop/domain/prodagent"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/temporal"
	"everloop/internal/testkit"
	"everloop/service/agents"
	boardstore "everloop/service/board"
	"everloop/service/dagruns"
	"everloop/service/work"
)

// fill gives a session work of nearly every kind that should have had a workflow for a
// minute.
func fill(t *testing.T, db *postgres.Store, owner string, session domain.SessionID, chat domain.ChatID) {
	t.Helper()

	for statement := range strings.SplitSeq(strings.NewReplacer("$session", string(session), "$chat", string(chat), "$owner", owner).Replace(`
		UPDATE chats SET started_at = now() - interval '1 minute' WHERE id = '$chat';
		INSERT INTO prod_solutions (id, owner_id, name) VALUES ('sol', '$owner', 'n');
		INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs, created_at)
		VALUES ('d1', 'sol', '$owner', 1, 'api', 'running', '{}', now() - interval '1 minute'),
		       ('d2', 'sol', '$owner', 1, 'api', 'running', '{}', now());
		INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, session_id, chat_id, begun, started_at)
		VALUES ('n1', 'd1', 'sol', 'a', 'running', '$session', '$chat', true, now()),
		       ('n2', 'd2', 'sol', 'b', 'waiting', NULL, NULL, false, now()),
		       ('n3', 'd1', 'sol', 'c', 'completed', NULL, NULL, false, now());
		INSERT INTO compactions (id, session_id, branch_id, loop_id, trigger, created_at)
		SELECT 'k1', id, active_branch_id, 'root', 'manual', now() - interval '1 minute' FROM sessions WHERE id = '$session';
		INSERT INTO background_tasks (id, session_id, kind, title, status, started_at)
		VALUES ('t1', '$session', 'shell', 't', 'running', now() - interval '1 minute');
		INSERT INTO imports (session_id, owner_id, changed_at, state) VALUES ('i1', '$owner', now() - interval '1 minute', 'running');
		INSERT INTO scheduled_tasks (id, owner_id, title, prompt, cron, timezone, enabled, skip_confirmations, persistent, overlap,
		                             catchup_window_s, pause_on_failure_after, jitter_s)
		VALUES ('st', '$owner', 't', 'p', '* * * * *', 'UTC', true, true, false, 'skip', 0, 0, 0);
		INSERT INTO scheduled_runs (id, task_id, manual, state, status, outcome, session_id, chat_id, scheduled_for, triggered_at)
		VALUES ('r1', 'st', true, 'running', 'running', 'fired', '$session', '$chat', now(), now() - interval '1 minute'),
		       ('r2', 'st', true, 'waiting', 'running', 'fired', NULL, NULL, now() - interval '1 hour', now())`), ";") {
		_, err := db.Pool.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}

func byWorkflow(jobs []operator.Job) map[string]operator.Job {
	found := map[string]operator.Job{}
	for _, job := range jobs {
		found[job.WorkflowID] = job
	}

	return found
}

func TestStore_Jobs(t *testing.T) {
	t.Parallel()
	db, user, session, chat := pgtest.Running(t, pgtest.Open(t))
	fill(t, db, user.ID, session, chat)

	all := map[string][]string{}
	for _, kind := range operator.RunKinds { // of some kinds there is none: their queries run all the same
		all[kind] = []string{"none"}
	}

	all["chat"], all["dag"], all["compaction"], all["task"] = []string{
		string(session),
	}, []string{
		"d1",
		"d2",
	}, []string{
		"k1",
	}, []string{
		"t1",
	}
	all["import"], all["schedule"] = []string{"i1"}, []string{"r1", "r2"}
	jobs, err := work.NewStore(db.DB).Jobs(t.Context(), all)
	require.NoError(t, err)

	found := byWorkflow(jobs)
	require.Len(t, found, 8)

	for id, job := range found {
		require.True(t, job.Open, id)
		require.Equal(t, user.ID, job.OwnerID, id)
	}

	require.Equal(t, "running", found["session/"+string(session)].Status)
	require.Equal(t, "st", found["schedule-run/r1"].PartOf)
	require.Equal(t, "queued", found["schedule-run/r2"].Waiting.Reason)
	require.Equal(t, "run", found["schedule-run/r1"].Waiting.On)
	require.Equal(t, "session/"+string(session), found["schedule-run/r1"].Waiting.ID)
	require.Equal(t, "child", found["dag/sol/d1"].Waiting.Reason)
	require.Equal(t, "session/"+string(session), found["dag/sol/d1"].Waiting.ID)
	require.Equal(t, "timer", found["dag/sol/d2"].Waiting.Reason)
	require.Equal(t, "session/"+string(session), found["compact/k1"].PartOf)

	_, err = db.Pool.Exec(t.Context(), `UPDATE chats SET state = 'parked', waiting_reason = 'question' WHERE id = $1`, chat)
	require.NoError(t, err)
	jobs, err = work.NewStore(db.DB).Jobs(t.Context(), map[string][]string{"dag": {"d1"}})
	require.NoError(t, err)
	require.Equal(t, "question", jobs[0].Waiting.Reason)
	require.Equal(t, operator.RunWait{Reason: "question", On: "user", ID: user.ID, Since: jobs[0].Waiting.Since}, jobs[0].Waiting)
}

// The owner of an issue run is written when the run starts; its workflow starts before.
func TestStore_Subject(t *testing.T) {
	t.Parallel()
	db, user, session, chat := pgtest.Running(t, pgtest.Open(t))
	fill(t, db, user.ID, session, chat)

	boards := boardstore.NewStore(db.DB)
	workspace, err := boards.CreateWorkspace(t.Context(), user.ID, board.NewWorkspace{Name: "w", Settings: board.DefaultWorkspaceSettings})
	require.NoError(t, err)
	_, err = agents.NewStore(db.DB).CreateAgentInstance(t.Context(), prodagent.Instance{
		ID: "a", OwnerID: user.ID, Name: "Builder", RuntimeID: prodagent.BuiltinRuntime, MaxConcurrentTasks: 1,
		Visibility: prodagent.VisibilityWorkspace,
	})
	require.NoError(t, err)

	title := "t"
	_, _, err = boards.CreateIssue(t.Context(), user.ID, workspace.ID, board.IssueFields{
		Title: &title, Assignee: &board.AssigneeRef{Type: board.ActorAgent, ID: "a"},
	})
	require.NoError(t, err)
	started, err := boards.DispatchRuns(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, started, 1)

	for kind, id := range map[string]string{"dag": "d1", "schedule": "r1", "issue": started[0]} {
		found, err := work.NewStore(db.DB).Subject(t.Context(), kind, id)
		require.NoError(t, err)
		require.Equal(t, user.ID, found.OwnerID, kind)

		jobs, err := work.NewStore(db.DB).Jobs(t.Context(), map[string][]string{kind: {id}})
		require.NoError(t, err)
		require.Equal(t, user.ID, jobs[0].OwnerID, kind)
	}

	found, err := work.NewStore(db.DB).Subject(t.Context(), "issue", "gone")
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestOperator_Runs_lost(t *testing.T) {
	t.Parallel()
	db, user, session, chat := pgtest.Running(t, pgtest.Open(t))
	fill(t, db, user.ID, session, chat)

	c, err := temporal.Dial(t.Context(), testkit.Temporal(t), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(c.Close)

	operated := work.NewOperator(work.NewStore(db.DB), temporal.Runs{Client: c}, temporal.Operator{Client: c}, nil)

	var listed []string

	q := operator.RunQuery{Status: operator.RunLost, Limit: 1}

	for pages := 1; ; pages++ {
		require.Less(t, pages, 20)
		runs, next, err := operated.Runs(t.Context(), q)
		require.NoError(t, err)

		for _, run := range runs {
			listed = append(listed, run.WorkflowID)
			require.Equal(t, operator.RunLost, run.Status)
			require.Equal(t, user.ID, run.OwnerID)
		}

		if q.Page = next; next == nil {
			break
		}
	}
	// Not those that wait for their turn, or were created a moment ago.
	require.Equal(t, []string{
		"session/" + string(session), "compact/k1", "dag/sol/d1", "import/i1", "schedule-run/r1", "task/t1",
	}, listed)

	runs, _, err := operated.Runs(t.Context(), operator.RunQuery{Status: operator.RunLost, Limit: 10, OwnerID: "another"})
	require.NoError(t, err)
	require.Empty(t, runs)
	_, _, err = operated.Runs(t.Context(), operator.RunQuery{Status: operator.RunLost, Limit: 2, Page: []byte("odd")})
	require.Equal(t, domain.Invalid, domain.AsError(err).Kind)
	require.True(t, domain.HasCode(operated.Cancel(t.Context(), "dag/sol/none"), "run_not_found"))
}

func TestStore_endsOfRuns(t *testing.T) {
	t.Parallel()
	db, user, session, chat := pgtest.Running(t, pgtest.Open(t))
	fill(t, db, user.ID, session, chat)

	runs := dagruns.NewStore(db.DB)

	for _, want := range []bool{true, false} {
		failed, err := runs.FailDAGRun(t.Context(), "d1", "run_lost", "because")
		require.NoError(t, err)
		require.Equal(t, want, failed)
		cancelled, _, err := db.CancelRun(t.Context(), "r2")
		require.NoError(t, err)
		require.Equal(t, want, cancelled)
	}

	loaded, err := runs.LoadRun(t.Context(), contract.LoadDAGRunIn{RunID: "d1"})
	require.NoError(t, err)
	require.Len(t, loaded.Units, 1, "the work of a node is stopped after the end of its run")
	require.True(t, loaded.Units[0].Stop)
	run, err := runs.DAGRun(t.Context(), user, "sol", "d1")
	require.NoError(t, err)
	require.EqualValues(t, "failed", run.Status)
	require.Equal(t, "run_lost", run.Error.Code)
	require.NotNil(t, run.FinishedAt)

	open, plan, err := db.CancelRun(t.Context(), "r1")
	require.NoError(t, err)
	require.True(t, open)
	require.Equal(t, []domain.RunChat{{OwnerID: user.ID, SessionID: session, ChatID: chat}}, plan.Stop)
}
