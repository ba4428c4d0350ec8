//go:build linux

package tasks_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/sandbox"
	"everloop/infra/secrets"
	"everloop/infra/temporal"
	"everloop/infra/toolbox"
	"everloop/infra/workspace"
	"everloop/internal/testkit"
	"everloop/service/accounts"
	"everloop/service/tasks"
	"everloop/workflows"
)

// patience is how long a test waits for what is to come on a slow machine.
const patience = 3 * time.Minute

// eventLog counts updates of tasks.
type eventLog struct{ pgtest.Log }

func (l *eventLog) count(taskID, status string) int {
	n := 0

	for _, e := range l.Events() {
		if e.Name == domain.EventTaskUpdated && strings.Contains(string(e.Data), taskID) &&
			strings.Contains(string(e.Data), `"status":"`+status+`"`) {
			n++
		}
	}

	return n
}

// bus carries stops within the process. It can be deaf, as a broken connection.
type bus struct {
	mu       sync.Mutex
	watchers map[string][]chan struct{}
	deaf     bool
}

func (b *bus) WatchTaskStop(taskID string) (<-chan struct{}, func()) {
	b.mu.Lock()
	defer b.mu.Unlock()

	ch := make(chan struct{}, 1)
	b.watchers[taskID] = append(b.watchers[taskID], ch)

	return ch, func() {}
}

func (b *bus) AnnounceTaskStop(_ context.Context, taskID string) error {
	b.mu.Lock()
	defer b.mu.Unlock()

	for _, ch := range b.watchers[taskID] {
		if !b.deaf {
			ch <- struct{}{}
		}
	}

	return nil
}

// place is a session with everything that background tasks need.
type place struct {
	*tasks.Service
	t       *testing.T
	journal *postgres.Store
	log     *eventLog
	bus     *bus
	session domain.Session
	client  client.Client
	queue   string
	runner  *tasks.Runner
	worker  worker.Worker
	files   toolbox.Files
}

func newPlace(t *testing.T, limits tasks.Limits) *place {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))

	box, err := sandbox.New(t.Context(), sandbox.Config{})
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}

	t.Cleanup(box.Close)
	db := testkit.Database(t)
	session := testkit.Session(t, db, testkit.User(t, db, "owner"), domain.NewSession{Env: map[string]string{"GREETING": "good day"}})
	c, err := temporal.Dial(t.Context(), testkit.Temporal(t), logger)
	require.NoError(t, err)
	t.Cleanup(c.Close)

	p := &place{
		t: t, log: &eventLog{}, bus: &bus{watchers: map[string][]chan struct{}{}}, session: session, client: c,
		queue: testkit.Prefix(t), files: toolbox.Files{Store: workspace.New(workspaceDir(t))},
	}
	p.journal = postgres.NewStore(db, p.log, logger)
	p.Service = tasks.New(tasks.Deps{
		DB: db.DB, Outbox: p.journal.Outbox, Chats: p.journal.ChatStore(), Runs: temporal.Runs{Client: c, Queue: p.queue},
		Signals: p.bus, Workspaces: p.files, Logger: logger,
	})
	p.runner = &tasks.Runner{
		Store: p.Store, Signals: p.bus, Sandbox: toolbox.Shell{Sandbox: box}, Workspaces: p.files, Root: p.files.Root,
		Env: secrets.Buckets{Store: accounts.New(db.DB)}.ToolEnv, Limits: limits, Logger: logger,
	}

	return p
}

// workspaceDir returns a directory that the sessions' own users can get to.
func workspaceDir(t *testing.T) string {
	t.Helper()

	dir, err := os.MkdirTemp("", "everloop-task-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })

	return filepath.Join(dir, "workspace")
}

// work starts a worker.
func (p *place) work() *place {
	p.t.Helper()
	p.worker = worker.New(p.client, p.queue, worker.Options{WorkerStopTimeout: patience})
	p.worker.RegisterWorkflowWithOptions(workflows.Task, workflow.RegisterOptions{Name: contract.WorkflowTask})
	p.runner.Register(p.worker)
	require.NoError(p.t, p.worker.Start())
	p.t.Cleanup(func() {
		if p.worker != nil {
			p.worker.Stop()
		}
	})

	return p
}

func (p *place) start(command string) domain.BackgroundTask {
	p.t.Helper()
	task, err := p.StartShell(p.t.Context(), tools.NewShell{
		SessionID: p.session.ID, ToolCallID: domain.NewToolCallID(), Title: "a task", Command: command,
	})
	require.NoError(p.t, err)
	require.Equal(p.t, domain.TaskRunning, task.Status)

	return task
}

func (p *place) look(id string) domain.BackgroundTask {
	p.t.Helper()
	task, _, _, err := p.Task(p.t.Context(), p.session.ID, id)
	require.NoError(p.t, err)

	return task
}

// until waits for a state of the task.
func (p *place) until(id string, what string, holds func(domain.BackgroundTask) bool) domain.BackgroundTask {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return holds(p.look(id)) }, patience, 20*time.Millisecond, what)

	return p.look(id)
}

func (p *place) untilEnded(id string) domain.BackgroundTask {
	p.t.Helper()
	return p.until(id, "the task ends", func(b domain.BackgroundTask) bool { return b.Status != domain.TaskRunning })
}

// untilEmitted waits until the event of the end is published, a moment after the end is
// stored, and checks that it comes once.
func (p *place) untilEmitted(id, status string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.log.count(id, status) > 0 }, patience, 20*time.Millisecond)
	require.Equal(p.t, 1, p.log.count(id, status))
}

func (p *place) untilSays(id, line string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		out, err := p.Output(p.t.Context(), p.session.ID, id, 100)
		return err == nil && strings.Contains(strings.Join(out.Lines, "\n"), line)
	}, patience, 20*time.Millisecond)
}

// A store that is unavailable between the claim and the start of the command ends no task.
func TestRunner_RunTask_storeUnavailableBeforeStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t, tasks.Limits{})
	env := p.runner.Env

	var reads atomic.Int32

	p.runner.Env = func(ctx context.Context, session domain.Session) (map[string]string, error) {
		if reads.Add(1) <= 2 {
			return nil, domain.Unavailablef("PostgreSQL", errors.New("connection refused"))
		}

		return env(ctx, session)
	}
	p.work()

	task := p.start(`test "$GREETING" = "good day"`)
	require.Equal(t, domain.TaskCompleted, p.untilEnded(task.TaskID).Status)
	require.EqualValues(t, 3, reads.Load(), "it was read again")
}

func TestRunner_RunTask_runsToEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t, tasks.Limits{}).work()
	// The two streams are read side by side: each line waits until the one before is in the log.
	task := p.start(`logged() { until grep -qs "$1" .everloop/tasks/*; do sleep 0.05; done; }
		echo "$GREETING"; logged day; echo trouble >&2; logged trouble; pwd; exit 4`)
	ended := p.untilEnded(task.TaskID)
	require.Equal(t, domain.TaskFailed, ended.Status)
	require.Equal(t, 4, *ended.ExitCode)
	require.NotNil(t, ended.FinishedAt)
	require.NotNil(t, ended.LastOutputAt)
	require.Nil(t, ended.PID)
	require.NotEmpty(t, ended.OwnerRunID)

	out, err := p.Output(t.Context(), p.session.ID, task.TaskID, 2)
	require.NoError(t, err)
	require.Equal(t, domain.TaskOutput{
		TaskID: task.TaskID, Status: domain.TaskFailed, Lines: []string{"trouble", "/workspace"}, Markers: []string{"stderr", "stdout"},
		Tail: 2, Truncated: true, TotalLines: 3, NextOffset: ended.OutputBytes,
	}, out)
	p.untilEmitted(task.TaskID, "failed")
	require.NoError(t, p.journal.Flush(t.Context()))
	require.NotZero(t, p.log.count(task.TaskID, "running"))

	fine := p.start("true")
	require.Equal(t, domain.TaskCompleted, p.untilEnded(fine.TaskID).Status)
	list, err := p.List(t.Context(), p.session.ID)
	require.NoError(t, err)
	require.Len(t, list, 2)
}

func TestRunner_RunTask_stop(t *testing.T) {
	t.Parallel()

	for name, deaf := range map[string]bool{"by the bus": false, "by its flag": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, tasks.Limits{}).work()
			p.bus.deaf = deaf
			task := p.start("echo up; (sleep 600; echo never) & sleep 600")
			p.untilSays(task.TaskID, "up")
			require.NotNil(t, p.until(task.TaskID, "its process is known", func(b domain.BackgroundTask) bool { return b.PID != nil }).PID)
			asked, err := p.Stop(t.Context(), p.session.ID, task.TaskID)
			require.NoError(t, err)
			require.True(t, asked.StopRequested)
			require.Equal(t, domain.TaskStopped, p.untilEnded(task.TaskID).Status)
			again, err := p.Stop(t.Context(), p.session.ID, task.TaskID)
			require.NoError(t, err)
			require.Equal(t, domain.TaskStopped, again.Status)
			p.untilEmitted(task.TaskID, "stopped")
		})
	}
}

func TestRunner_RunTask_stoppedBeforeStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t, tasks.Limits{})
	task := p.start("touch ran")
	require.NoError(t, p.StopAll(t.Context(), p.session.ID))
	p.work()
	require.Equal(t, domain.TaskStopped, p.untilEnded(task.TaskID).Status)
	require.NoFileExists(t, filepath.Join(p.root(), "ran"))
	_, err := p.Stop(t.Context(), p.session.ID, "nope")
	require.True(t, domain.HasCode(err, "task_not_found"))
	_, err = p.Output(t.Context(), "other", task.TaskID, 10)
	require.True(t, domain.HasCode(err, "task_not_found"), "a task of another session does not exist")
}

func (p *place) root() string {
	root, err := p.files.Root(p.t.Context(), p.session.ID, p.session.SandboxUID)
	require.NoError(p.t, err)

	return root
}

func TestRunner_RunTask_limits(t *testing.T) {
	t.Parallel()
	slowly := newPlace(t, tasks.Limits{Time: 1500 * time.Millisecond}).work()
	slow := slowly.start("echo up; sleep 600")
	ended := slowly.untilEnded(slow.TaskID)
	require.Equal(t, domain.TaskFailed, ended.Status)
	require.Contains(t, *ended.Reason, "time limit")
	p := newPlace(t, tasks.Limits{Output: 4096}).work()
	loud := p.start("yes")
	ended = p.untilEnded(loud.TaskID)
	require.Equal(t, domain.TaskFailed, ended.Status)
	require.Contains(t, *ended.Reason, "more than 4096 bytes")
	require.LessOrEqual(t, ended.OutputBytes, int64(4096))
}

func TestRunner_RunTask_deadWorkerLosesTask(t *testing.T) {
	t.Parallel()
	p := newPlace(t, tasks.Limits{})
	task := p.start("touch ran")
	// A worker claims it, and is heard of no more.
	claim, err := p.ClaimTask(t.Context(), task.TaskID, "run", 7)
	require.NoError(t, err)
	require.Equal(t, domain.TaskRunning, claim.Status)
	p.work()
	ended := p.untilEnded(task.TaskID)
	require.Equal(t, domain.TaskLost, ended.Status)
	require.Contains(t, *ended.Reason, "worker was lost")
	require.NoFileExists(t, filepath.Join(p.root(), "ran"))
	// What the dead worker would write now changes nothing.
	require.ErrorIs(t, p.EndTask(t.Context(), task.TaskID, 7, contract.TaskEnd{Status: domain.TaskCompleted}), domain.ErrFenced)
	_, err = p.TaskAlive(t.Context(), task.TaskID, 7, 1, time.Now())
	require.ErrorIs(t, err, domain.ErrFenced)
	require.ErrorIs(t, p.TaskStarted(t.Context(), task.TaskID, 7, 1), domain.ErrFenced)
}

func TestRunner_RunTask_fencedKillsProcess(t *testing.T) {
	t.Parallel()
	p := newPlace(t, tasks.Limits{}).work()
	task := p.start("echo up; while sleep 0.1; do echo alive >> alive.txt; done")
	p.untilSays(task.TaskID, "up")
	require.Eventually(
		t, func() bool { _, err := os.Stat(filepath.Join(p.root(), "alive.txt")); return err == nil }, patience, 20*time.Millisecond,
	)
	status, err := p.MarkTaskLost(t.Context(), task.TaskID, "given up")
	require.NoError(t, err)
	require.Equal(t, domain.TaskLost, status)
	run := p.client.GetWorkflow(t.Context(), "task/"+task.TaskID, "")

	var end domain.TaskStatus
	require.NoError(t, run.Get(t.Context(), &end))
	require.Equal(t, domain.TaskLost, end)

	before, err := os.ReadFile(filepath.Join(p.root(), "alive.txt"))
	require.NoError(t, err)
	require.Never(t, func() bool {
		now, err := os.ReadFile(filepath.Join(p.root(), "alive.txt"))
		return err != nil || len(now) != len(before)
	}, 500*time.Millisecond, 100*time.Millisecond, "the process still runs")
	require.Equal(t, "given up", *p.look(task.TaskID).Reason)
}

func TestRunner_RunTask_workerShutdownLosesTask(t *testing.T) {
	t.Parallel()
	p := newPlace(t, tasks.Limits{Drain: 300 * time.Millisecond}).work()
	task := p.start("echo up; sleep 600")
	p.untilSays(task.TaskID, "up")
	p.worker.Stop()
	p.worker = nil
	ended := p.look(task.TaskID)
	require.Equal(t, domain.TaskLost, ended.Status)
	require.Equal(t, "the service was restarted", *ended.Reason)
}

func TestService_StartShell_oncePerCall(t *testing.T) {
	t.Parallel()
	p := newPlace(t, tasks.Limits{}).work()
	in := tools.NewShell{SessionID: p.session.ID, ToolCallID: domain.NewToolCallID(), Title: "once", Command: "echo x >> times"}
	first, err := p.StartShell(t.Context(), in)
	require.NoError(t, err)
	p.untilEnded(first.TaskID)
	second, err := p.StartShell(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, first.TaskID, second.TaskID)
	require.Equal(t, domain.TaskCompleted, second.Status)

	content, err := os.ReadFile(filepath.Join(p.root(), "times"))
	require.NoError(t, err)
	require.Equal(t, "x\n", string(content))
}

func TestService_repairAfterCrash(t *testing.T) {
	t.Parallel()
	p := newPlace(t, tasks.Limits{})
	prefix := testkit.Prefix(t) // tasks are runs, whose ids all tests share
	unstarted, abandoned, fresh := prefix+"-unstarted", prefix+"-abandoned", prefix+"-fresh"
	add := func(id string) {
		_, err := p.AddTask(t.Context(), contract.NewTask{
			ID: id, SessionID: p.session.ID, Kind: domain.TaskShell, Title: id, Command: "touch " + id, OutputPath: tools.TaskLogPath(id),
		})
		require.NoError(t, err)
	}
	add(unstarted) // the process died between the commit and the start
	add(abandoned) // its worker died and Temporal has forgotten it
	_, err := p.ClaimTask(t.Context(), abandoned, "run", 1)
	require.NoError(t, err)
	_, err = p.journal.Pool.Exec(t.Context(), `
		UPDATE background_tasks SET started_at = now() - interval '1 hour', lease_expires_at = lease_expires_at - interval '1 hour'`)
	require.NoError(t, err)
	add(fresh)
	_, err = p.journal.Pool.Exec(t.Context(), `UPDATE background_tasks SET started_at = now() + interval '1 hour' WHERE id = $1`, fresh)
	require.NoError(t, err, "it stays fresh however slow this machine is")
	p.work()
	require.NoError(t, p.Repair(t.Context()))
	require.NoError(t, p.Repair(t.Context()))
	require.Equal(t, domain.TaskCompleted, p.untilEnded(unstarted).Status)
	require.Equal(t, domain.TaskLost, p.look(abandoned).Status)
	require.Equal(t, domain.TaskRunning, p.look(fresh).Status, "a start under way is not started again")
}
