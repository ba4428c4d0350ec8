package tasks_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres/pgtest"
	"everloop/service/tasks"
)

func newTask(session domain.SessionID, id string) contract.NewTask {
	return contract.NewTask{
		ID: id, SessionID: session, ChatID: "chat", ToolCallID: "call", Kind: domain.TaskShell,
		Title: "Start the server", Command: "npm run dev", OutputPath: ".everloop/tasks/" + id + ".log",
	}
}

// A task names the sub-agent in the background whose call started it, wherever it is read.
func TestAddTask_parent(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, user, session, chat := pgtest.Running(t, db)
	store := tasks.NewStore(j.DB, j.Outbox)

	_, err := db.Pool.Exec(t.Context(), `
		INSERT INTO entries (id, session_id, branch_id, sequence, chat_id, role, status, blocks, loop_id)
		SELECT e.id, s.id, s.active_branch_id, e.n, $2, 'assistant', 'completed', '[]', e.loop
		FROM   sessions s, (VALUES ('e1', 101, 'root'), ('e2', 102, 'agent'), ('e3', 103, 'inner'), ('e4', 104, 'waited')) e (id, n, loop)
		WHERE  s.id = $1`, session, chat)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO tool_calls (id, session_id, chat_id, entry_id, position, tool_name, display_name, arguments, status, phase)
		SELECT c.id, $1, $2, c.entry, c.n, 'Bash', 'Bash', '{}', 'pending', 'queued'
		FROM   (VALUES ('agent', 'e1', 0), ('waited', 'e1', 1), ('main', 'e1', 2), ('inner', 'e2', 0), ('own', 'e2', 1), ('deep', 'e3', 0),
		        ('fork', 'e4', 0)) c (id, entry, n)`, session, chat)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `
		INSERT INTO loops (id, session_id, chat_id, branch_id, parent_loop_id, task_id, background, depth, agent_type, description, prompt,
		                   max_steps, time_limit_s)
		SELECT l.id, s.id, $2, s.active_branch_id, l.parent, l.task, l.id = 'agent', 1, 'general-purpose', '', '', 1, 1
		FROM   sessions s, (VALUES ('agent', 'root', 'bg'), ('inner', 'agent', 'bg'), ('waited', 'root', NULL)) l (id, parent, task)
		WHERE  s.id = $1`, session, chat)
	require.NoError(t, err)

	parent := "bg"
	for call, want := range map[string]*string{"agent": nil, "main": nil, "fork": nil, "own": &parent, "deep": &parent} {
		in := newTask(session, "task-"+call)
		in.ChatID, in.ToolCallID = chat, call
		made, err := store.AddTask(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, want, made.ParentTaskID, call)

		read, _, _, err := store.Task(t.Context(), session, made.TaskID)
		require.NoError(t, err)
		require.Equal(t, want, read.ParentTaskID, call)
	}

	work, err := j.ComputeWork(t.Context(), user.ID)
	require.NoError(t, err)
	require.Len(t, work.Tasks, 5)
}

// What is no command and no sub-agent is no background task.
func TestAddTask_kinds(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t)
	j, _, session, _ := pgtest.Running(t, db)
	store := tasks.NewStore(j.DB, j.Outbox)

	for kind, fits := range map[domain.TaskKind]bool{domain.TaskShell: true, domain.TaskAgent: true, "schedule": false, "publish": false} {
		in := newTask(session, "task-"+string(kind))
		in.Kind = kind

		task, err := store.AddTask(t.Context(), in)
		if fits {
			require.NoError(t, err)
			require.Equal(t, kind, task.Kind)
		} else {
			require.ErrorContains(t, err, "background_tasks_kind_check")
		}
	}
}

func TestBackgroundTaskFromStartToEnd(t *testing.T) {
	t.Parallel()
	j, log, session := pgtest.Session(t)
	store := tasks.NewStore(j.DB, j.Outbox)
	made, err := store.AddTask(t.Context(), newTask(session.ID, "t1"))
	require.NoError(t, err)
	require.Equal(t, domain.TaskRunning, made.Status)
	again, err := store.AddTask(t.Context(), newTask(session.ID, "t1"))
	require.NoError(t, err)
	require.Equal(t, made, again)

	claim, err := store.ClaimTask(t.Context(), "t1", "run-1", 1)
	require.NoError(t, err)
	require.Equal(t, "npm run dev", claim.Command)
	require.Equal(t, ".everloop/tasks/t1.log", claim.OutputPath)
	require.Equal(t, session.SandboxUID, claim.Session.SandboxUID)
	require.Equal(t, domain.SessionEnv{"A": "b"}, claim.Session.Env)
	same, err := store.ClaimTask(t.Context(), "t1", "run-1", 1)
	require.NoError(t, err)
	require.Equal(t, domain.TaskRunning, same.Status, "an answer that was lost is asked for again by the same attempt")

	require.NoError(t, store.TaskStarted(t.Context(), "t1", 1, 4711))

	at := time.Now().UTC().Truncate(time.Millisecond)
	stop, err := store.TaskAlive(t.Context(), "t1", 1, 100, at)
	require.NoError(t, err)
	require.False(t, stop)
	row, path, uid, err := store.Task(t.Context(), session.ID, "t1")
	require.NoError(t, err)
	require.Equal(t, 4711, *row.PID)
	require.EqualValues(t, 100, row.OutputBytes)
	require.Equal(t, at, *row.LastOutputAt)
	require.Equal(t, claim.OutputPath, path)
	require.Equal(t, session.SandboxUID, uid)

	flagged, err := store.RequestTaskStop(t.Context(), session.ID, "t1")
	require.NoError(t, err)
	require.True(t, flagged.StopRequested)
	stop, err = store.TaskAlive(t.Context(), "t1", 1, 100, time.Time{})
	require.NoError(t, err)
	require.True(t, stop)

	require.ErrorIs(t, store.EndTask(t.Context(), "t1", 2, contract.TaskEnd{Status: domain.TaskStopped}), domain.ErrFenced)
	require.NoError(t, store.EndTask(t.Context(), "t1", 1, contract.TaskEnd{Status: domain.TaskStopped, OutputBytes: 120}))
	require.ErrorIs(
		t,
		store.EndTask(t.Context(), "t1", 1, contract.TaskEnd{Status: domain.TaskCompleted}),
		domain.ErrFenced,
		"a task ends once",
	)
	status, err := store.MarkTaskLost(t.Context(), "t1", "too late")
	require.NoError(t, err)
	require.Equal(t, domain.TaskStopped, status)
	after, err := store.ClaimTask(t.Context(), "t1", "run-1", 2)
	require.NoError(t, err)
	require.Equal(t, domain.TaskStopped, after.Status)
	row, _, _, err = store.Task(t.Context(), session.ID, "t1")
	require.NoError(t, err)
	require.EqualValues(t, 120, row.OutputBytes)
	require.Nil(t, row.PID)
	require.Nil(t, row.LeaseExpiresAt)

	require.NoError(t, j.Flush(t.Context()))
	// started, process known, stop requested, ended
	require.Equal(
		t,
		[]string{domain.EventTaskUpdated, domain.EventTaskUpdated, domain.EventTaskUpdated, domain.EventTaskUpdated},
		log.Names(),
	)

	var emitted map[string]any
	require.NoError(t, json.Unmarshal(log.Events()[3].Data, &emitted))
	require.Equal(t, "stopped", emitted["status"])
	require.Equal(t, "t1", emitted["task_id"])
	require.NotContains(t, emitted, "session_id", "the envelope has it")
}

func TestBackgroundTasksAreBounded(t *testing.T) {
	t.Parallel()

	j, _, session := pgtest.Session(t)
	store := tasks.NewStore(j.DB, j.Outbox)
	for i := range 20 {
		_, err := store.AddTask(t.Context(), newTask(session.ID, fmt.Sprintf("t%d", i)))
		require.NoError(t, err)
	}

	_, err := store.AddTask(t.Context(), newTask(session.ID, "t20"))
	require.True(t, domain.HasCode(err, "too_many_tasks"))
	ids, err := store.RequestTaskStops(t.Context(), session.ID)
	require.NoError(t, err)
	require.Len(t, ids, 20)
	stopped, err := store.ClaimTask(t.Context(), "t0", "run", 1)
	require.NoError(t, err)
	require.Equal(t, domain.TaskStopped, stopped.Status)
	_, err = store.AddTask(t.Context(), newTask(session.ID, "t20"))
	require.NoError(t, err)
	_, err = store.AddTask(t.Context(), newTask("no-session", "t21"))
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound))
	_, err = store.ClaimTask(t.Context(), "none", "run", 1)
	require.True(t, domain.HasCode(err, "task_not_found"))
}

// A run that was started again, and an attempt that was reset, look like the first.
func TestBackgroundTaskIsNeverBegunTwice(t *testing.T) {
	t.Parallel()

	for name, again := range map[string]struct {
		run     string
		attempt int
		started bool
	}{
		"another attempt":           {"run-1", 2, false},
		"another run":               {"run-2", 1, false},
		"the same, process started": {"run-1", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, _, session := pgtest.Session(t)
			store := tasks.NewStore(j.DB, j.Outbox)
			_, err := store.AddTask(t.Context(), newTask(session.ID, "t1"))
			require.NoError(t, err)
			_, err = store.ClaimTask(t.Context(), "t1", "run-1", 1)
			require.NoError(t, err)

			if again.started {
				require.NoError(t, store.TaskStarted(t.Context(), "t1", 1, 4711))
			}

			claim, err := store.ClaimTask(t.Context(), "t1", again.run, again.attempt)
			require.NoError(t, err)
			require.True(t, claim.Held, "its worker is alive")
			require.Equal(t, domain.TaskRunning, claim.Status)
			_, err = j.Pool.Exec(t.Context(), `UPDATE background_tasks SET lease_expires_at = now() - interval '1 second'`)
			require.NoError(t, err)
			claim, err = store.ClaimTask(t.Context(), "t1", again.run, again.attempt)
			require.NoError(t, err)
			require.Equal(t, domain.TaskLost, claim.Status)
		})
	}
}

// Whatever comes at once, a task ends once.
func TestBackgroundTaskEndsOnce(t *testing.T) {
	t.Parallel()
	j, log, session := pgtest.Session(t)
	store := tasks.NewStore(j.DB, j.Outbox)
	_, err := store.AddTask(t.Context(), newTask(session.ID, "t1"))
	require.NoError(t, err)
	_, err = store.ClaimTask(t.Context(), "t1", "run", 1)
	require.NoError(t, err)

	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() {
			switch i % 3 {
			case 0:
				_ = store.EndTask(t.Context(), "t1", 1, contract.TaskEnd{Status: domain.TaskCompleted})
			case 1:
				_, _ = store.MarkTaskLost(t.Context(), "t1", "lost")
			case 2:
				_, _ = store.ClaimTask(t.Context(), "t1", "run", 2)
			}
		})
	}

	group.Wait()
	require.NoError(t, j.Flush(t.Context()))
	require.Len(t, log.Names(), 2, "one start and one end")
}
