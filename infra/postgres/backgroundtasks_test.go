package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres"
)

// heard is an event log that only listens.
type heard struct {
	mu     sync.Mutex
	events []domain.Event
}

func (h *heard) Publish(_ context.Context, e domain.Event) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	return uint64(len(h.events)), nil
}

func (h *heard) Find(context.Context, string, uint64, string) (uint64, bool, error) {
	return 0, false, nil
}

func (h *heard) names() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		names = append(names, e.Name)
	}
	return names
}

func taskBench(t *testing.T) (*postgres.Journal, *heard, domain.Session) {
	t.Helper()
	db, log := open(t), &heard{}
	user := person(t, db, "owner", false)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{Env: map[string]string{"A": "b"}})
	require.NoError(t, err)
	return postgres.NewJournal(db, log, slog.New(slog.NewTextHandler(t.Output(), nil))), log, session
}

func newTask(session, id string) contract.NewTask {
	return contract.NewTask{
		ID: id, SessionID: session, ChatID: "chat", ToolCallID: "call", Kind: domain.TaskShell,
		Title: "Start the server", Command: "npm run dev", OutputPath: ".everloop/tasks/" + id + ".log",
	}
}

func TestBackgroundTaskFromStartToEnd(t *testing.T) {
	t.Parallel()
	j, log, session := taskBench(t)
	made, err := j.AddTask(t.Context(), newTask(session.ID, "t1"))
	require.NoError(t, err)
	require.Equal(t, domain.TaskRunning, made.Status)
	again, err := j.AddTask(t.Context(), newTask(session.ID, "t1"))
	require.NoError(t, err)
	require.Equal(t, made, again)

	claim, err := j.ClaimTask(t.Context(), "t1", "run-1", 1)
	require.NoError(t, err)
	require.Equal(t, "npm run dev", claim.Command)
	require.Equal(t, ".everloop/tasks/t1.log", claim.OutputPath)
	require.Equal(t, session.SandboxUID, claim.Session.SandboxUID)
	require.Equal(t, map[string]string{"A": "b"}, claim.Session.Env)
	same, err := j.ClaimTask(t.Context(), "t1", "run-1", 1)
	require.NoError(t, err)
	require.Equal(t, domain.TaskRunning, same.Status, "an answer that was lost is asked for again by the same attempt")

	require.NoError(t, j.TaskStarted(t.Context(), "t1", 1, 4711))
	at := time.Now().UTC().Truncate(time.Millisecond)
	stop, err := j.TaskAlive(t.Context(), "t1", 1, 100, at)
	require.NoError(t, err)
	require.False(t, stop)
	row, path, uid, err := j.BackgroundTask(t.Context(), session.ID, "t1")
	require.NoError(t, err)
	require.Equal(t, 4711, *row.PID)
	require.EqualValues(t, 100, row.OutputBytes)
	require.Equal(t, at, *row.LastOutputAt)
	require.Equal(t, claim.OutputPath, path)
	require.Equal(t, session.SandboxUID, uid)

	flagged, err := j.RequestTaskStop(t.Context(), session.ID, "t1")
	require.NoError(t, err)
	require.True(t, flagged.StopRequested)
	stop, err = j.TaskAlive(t.Context(), "t1", 1, 100, time.Time{})
	require.NoError(t, err)
	require.True(t, stop)

	require.ErrorIs(t, j.EndTask(t.Context(), "t1", 2, contract.TaskEnd{Status: domain.TaskStopped}), domain.ErrFenced)
	require.NoError(t, j.EndTask(t.Context(), "t1", 1, contract.TaskEnd{Status: domain.TaskStopped, OutputBytes: 120}))
	require.ErrorIs(t, j.EndTask(t.Context(), "t1", 1, contract.TaskEnd{Status: domain.TaskCompleted}), domain.ErrFenced, "a task ends once")
	status, err := j.LoseTask(t.Context(), "t1", "too late")
	require.NoError(t, err)
	require.Equal(t, domain.TaskStopped, status)
	after, err := j.ClaimTask(t.Context(), "t1", "run-1", 2)
	require.NoError(t, err)
	require.Equal(t, domain.TaskStopped, after.Status)
	row, _, _, err = j.BackgroundTask(t.Context(), session.ID, "t1")
	require.NoError(t, err)
	require.EqualValues(t, 120, row.OutputBytes)
	require.Nil(t, row.PID)
	require.Nil(t, row.LeaseExpiresAt)

	// started, process known, stop requested, ended
	require.Equal(t, []string{domain.EventTaskUpdated, domain.EventTaskUpdated, domain.EventTaskUpdated, domain.EventTaskUpdated}, log.names())
	var told map[string]any
	require.NoError(t, json.Unmarshal(log.events[3].Data, &told))
	require.Equal(t, "stopped", told["status"])
	require.Equal(t, "t1", told["task_id"])
	require.NotContains(t, told, "session_id", "the envelope has it")
}

func TestBackgroundTasksAreBounded(t *testing.T) {
	t.Parallel()
	j, _, session := taskBench(t)
	for i := range 20 {
		_, err := j.AddTask(t.Context(), newTask(session.ID, fmt.Sprintf("t%d", i)))
		require.NoError(t, err)
	}
	_, err := j.AddTask(t.Context(), newTask(session.ID, "t20"))
	require.True(t, domain.HasCode(err, "too_many_tasks"))
	ids, err := j.RequestTaskStops(t.Context(), session.ID)
	require.NoError(t, err)
	require.Len(t, ids, 20)
	stopped, err := j.ClaimTask(t.Context(), "t0", "run", 1)
	require.NoError(t, err)
	require.Equal(t, domain.TaskStopped, stopped.Status)
	_, err = j.AddTask(t.Context(), newTask(session.ID, "t20"))
	require.NoError(t, err)
	_, err = j.AddTask(t.Context(), newTask("no-session", "t21"))
	require.True(t, domain.HasCode(err, domain.CodeSessionNotFound))
	_, err = j.ClaimTask(t.Context(), "none", "run", 1)
	require.True(t, domain.HasCode(err, "task_not_found"))
}

// A run that was begun anew, and an attempt that was reset, look like the first.
func TestBackgroundTaskIsNeverBegunTwice(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]struct {
		run     string
		attempt int
		begun   bool
	}{
		"another attempt":           {"run-1", 2, false},
		"another run":               {"run-2", 1, false},
		"the same, process started": {"run-1", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, _, session := taskBench(t)
			_, err := j.AddTask(t.Context(), newTask(session.ID, "t1"))
			require.NoError(t, err)
			_, err = j.ClaimTask(t.Context(), "t1", "run-1", 1)
			require.NoError(t, err)
			if again.begun {
				require.NoError(t, j.TaskStarted(t.Context(), "t1", 1, 4711))
			}
			claim, err := j.ClaimTask(t.Context(), "t1", again.run, again.attempt)
			require.NoError(t, err)
			require.Equal(t, domain.TaskLost, claim.Status)
		})
	}
}

// Whatever comes at once, a task ends once.
func TestBackgroundTaskEndsOnce(t *testing.T) {
	t.Parallel()
	j, log, session := taskBench(t)
	_, err := j.AddTask(t.Context(), newTask(session.ID, "t1"))
	require.NoError(t, err)
	_, err = j.ClaimTask(t.Context(), "t1", "run", 1)
	require.NoError(t, err)
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() {
			switch i % 3 {
			case 0:
				_ = j.EndTask(t.Context(), "t1", 1, contract.TaskEnd{Status: domain.TaskCompleted})
			case 1:
				_, _ = j.LoseTask(t.Context(), "t1", "lost")
			case 2:
				_, _ = j.ClaimTask(t.Context(), "t1", "run", 2)
			}
		})
	}
	group.Wait()
	require.Len(t, log.names(), 2, "one start and one end")
}

func TestEndedTasksAreToldToTheModelOnce(t *testing.T) {
	t.Parallel()
	j, log, session := taskBench(t)
	for _, id := range []string{"t1", "t2"} {
		_, err := j.AddTask(t.Context(), newTask(session.ID, id))
		require.NoError(t, err)
	}
	_, err := j.LoseTask(t.Context(), "t1", "the service was restarted")
	require.NoError(t, err)
	_, err = j.Pool.Exec(t.Context(), `
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state) VALUES ('chat', $1, $2, 'user', 'executing', 'running')`,
		session.ID, session.ActiveBranchID)
	require.NoError(t, err)
	join := func() {
		require.NoError(t, j.Commit(t.Context(), func(c *postgres.Change) error {
			return postgres.JoinTaskNotes(t.Context(), c, session.ID, session.ActiveBranchID, "chat")
		}))
	}
	join()
	join()
	told, err := j.Transcript(t.Context(), domain.TranscriptQuery{BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 100})
	require.NoError(t, err)
	turns := told.Turns
	require.Len(t, turns, 1)
	require.Equal(t, domain.RoleSystem, turns[0].Role)
	require.Equal(t, "Background task t1 (Start the server) has ended: lost, the service was restarted. Its output is in .everloop/tasks/t1.log.", turns[0].Parts[0].Text)

	exit := 3
	_, err = j.ClaimTask(t.Context(), "t2", "run", 1)
	require.NoError(t, err)
	require.NoError(t, j.EndTask(t.Context(), "t2", 1, contract.TaskEnd{Status: domain.TaskFailed, ExitCode: &exit}))
	join()
	told, err = j.Transcript(t.Context(), domain.TranscriptQuery{BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 100})
	require.NoError(t, err)
	turns = told.Turns
	require.Len(t, turns, 2)
	require.Contains(t, turns[1].Parts[0].Text, "failed, exit code 3.")
	names := log.names()
	require.Equal(t, []string{domain.EventTurnStart, domain.EventTurnEnd}, names[len(names)-2:])
}
