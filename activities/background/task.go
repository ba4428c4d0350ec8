package background

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/commands"
	"everloop/domain"
	"everloop/internal/durable"
	"everloop/internal/retry"
)

// Tasks carries out background tasks: commands that outlive the chat that
// started them. A task runs in one long activity and is never run again: when
// its worker dies it is lost, with a reason.
type Tasks struct {
	Store       TaskRecords
	Stops       TaskStops
	Sandbox     tools.Sandbox
	Workspaces  tools.Workspaces
	Roots       Roots
	Environment Environment
	Limits      TaskLimits
	Logger      *slog.Logger

	running durable.Shared[string, contract.RunTaskOut] // by task
	awaited durable.Shared[string, contract.RunTaskOut] // by task
}

// TaskLimits bound one background task; zero fields take the defaults.
type TaskLimits struct {
	Time   time.Duration // 24 h
	Output int64         // bytes of the log; 256 MiB
	Drain  time.Duration // what a task is given to end by itself when its worker shuts down; 5 s
}

// TaskRecords keep background tasks. Writes are fenced by the attempt.
type TaskRecords interface {
	ClaimTask(ctx context.Context, taskID, runID string, attempt int) (contract.ClaimedTask, error)
	TaskStarted(ctx context.Context, taskID string, attempt, pid int) error
	TaskAlive(ctx context.Context, taskID string, attempt int, bytes int64, lastOutput time.Time) (stop bool, err error)
	EndTask(ctx context.Context, taskID string, attempt int, end contract.TaskEnd) error
	MarkTaskLost(ctx context.Context, taskID, reason string) (domain.TaskStatus, error)
	TaskStatus(ctx context.Context, taskID string) (domain.TaskStatus, error)
}

// TaskStops broadcasts the stop of a task. The flag in the database is the truth: watch
// first, then read it.
type TaskStops interface {
	WatchTaskStop(taskID string) (stop <-chan struct{}, cancel func())
}

// Reasons for which a task is ended from outside.
var (
	errTaskStopped = errors.New("stopped on request")
	errTaskTime    = errors.New("its time limit was over")
	errTaskOutput  = errors.New("it wrote more than its log may hold")
	errTaskFenced  = errors.New("another worker has ended it")
	errTaskAlone   = errors.New("the database could not be reached for too long")
	errTaskDrained = errors.New("the service was restarted")
)

// A task reports that it is alive this often, and kills itself when it could not
// for so long: two thirds of its lease.
const (
	taskBeat  = time.Second
	taskAlone = 20 * time.Second
)

// taskHeldPoll is how often a task that another worker runs is looked at.
const taskHeldPoll = 2 * time.Second

func (t *Tasks) limits() TaskLimits {
	l := t.Limits
	if l.Time == 0 {
		l.Time = 24 * time.Hour
	}

	if l.Output == 0 {
		l.Output = commands.MaxTaskLog
	}

	if l.Drain == 0 {
		l.Drain = 5 * time.Second
	}

	return l
}

// RunTask carries out one background task to its end. A task continues also when
// the server has given its attempt up; a later attempt joins it.
func (t *Tasks) RunTask(ctx context.Context, in contract.RunTaskIn) (contract.RunTaskOut, error) {
	return t.running.Run(ctx, in.TaskID, 0, func(ctx context.Context) (contract.RunTaskOut, error) {
		return t.runTask(ctx, in)
	})
}

// Drain waits until the ends of all tasks are recorded, when the worker has
// stopped.
func (t *Tasks) Drain(ctx context.Context) { t.running.Wait(ctx) }

func (t *Tasks) runTask(ctx context.Context, in contract.RunTaskIn) (contract.RunTaskOut, error) {
	stop, unwatch := t.Stops.WatchTaskStop(in.TaskID)
	defer unwatch()

	attempt := int(activity.GetInfo(ctx).Attempt)

	task, err := t.claim(ctx, in, attempt)
	if err != nil || task.Status != domain.TaskRunning {
		return contract.RunTaskOut{Status: task.Status}, err
	}

	end := t.execute(ctx, task, stop)

	return t.record(context.WithoutCancel(ctx), task, end)
}

// claim takes the task for this attempt. The same attempt may ask again: its
// answer may have been lost, and an answer lost is not a worker lost. While another
// worker runs the task, claim waits for its end.
func (t *Tasks) claim(ctx context.Context, in contract.RunTaskIn, attempt int) (task contract.ClaimedTask, err error) {
	for {
		err = retryWrite(ctx, taskAlone, func() error {
			task, err = t.Store.ClaimTask(ctx, in.TaskID, in.RunID, attempt)
			return err
		})
		if err != nil || !task.Held {
			break
		}

		select {
		case <-time.After(taskHeldPoll):
		case <-ctx.Done():
			return task, context.Cause(ctx)
		}
	}

	if domain.AsError(err).Kind == domain.NotFound && err != nil {
		return task, durable.Final("task_not_found", "the task or its session no longer exists")
	}

	return task, err
}

// execute runs the command and gives how it ended.
func (t *Tasks) execute(ctx context.Context, task contract.ClaimedTask, stop <-chan struct{}) contract.TaskEnd {
	limits := t.limits()

	run, kill := context.WithCancelCause(ctx)
	defer kill(nil)

	clock := time.AfterFunc(limits.Time, func() { kill(errTaskTime) })
	defer clock.Stop()

	view, err := t.prepare(ctx, task)
	if err != nil {
		return t.notStarted(task, err)
	}

	log, err := t.openLog(ctx, view, task, limits.Output, func() { kill(errTaskOutput) })
	if err != nil {
		return t.notStarted(task, err)
	}

	started := make(chan int, 1)

	watched := make(chan struct{})
	go func() {
		defer close(watched)

		t.watch(run, kill, task, log, stop, started, limits.Drain)
	}()

	exit, err := t.Sandbox.Run(run, tools.Command{
		Session: view, Argv: []string{"bash", "-c", task.Command}, Env: tools.Environment(view.Env),
		Stdout: log.Stdout(), Stderr: log.Stderr(), Started: func(pid int) { started <- pid },
	})
	cause := context.Cause(run)

	kill(nil)
	<-watched

	if closing := log.Close(); closing != nil {
		t.Logger.Warn("part of a background task's log was not written", "task_id", task.ID, "error", closing)
	}

	end := ended(exit, err, cause, limits)
	if domain.AsError(err).Kind == domain.Internal && err != nil && cause == nil {
		t.Logger.Error("the sandbox failed under a background task", "task_id", task.ID, "session_id", task.Session.ID, "error", err)
	}

	end.OutputBytes, end.LastOutputAt = log.Written()
	end.Connections = exit.Connections

	return end
}

// prepare makes what a task needs before its command starts. An engine that is away for a
// moment does not end the task: nothing has run, and the lease holds for twice as long.
func (t *Tasks) prepare(ctx context.Context, task contract.ClaimedTask) (tools.SessionView, error) {
	session := task.Session
	view := tools.SessionView{ID: session.ID, OwnerID: session.OwnerID, SandboxUID: session.SandboxUID}

	attempt := func() (err error) {
		if view.Env, err = t.Environment.ToolEnv(ctx, session); err != nil {
			return err
		}

		if view.Root, err = t.Roots.Root(ctx, session.ID, session.SandboxUID); err != nil {
			return err
		}

		return t.writeScript(ctx, view, task)
	}

	err := retry.Writes(taskAlone/2).Do(ctx, attempt, func(err error) bool { return domain.AsError(err).Kind == domain.Unavailable })

	return view, err
}

// writeScript writes the script of a task to the file that its command runs. As an
// argument of the command a long one would not fit.
func (t *Tasks) writeScript(ctx context.Context, view tools.SessionView, task contract.ClaimedTask) error {
	if task.Script == "" {
		return nil
	}

	files, err := t.Workspaces.Open(ctx, view)
	if err != nil {
		return err
	}
	defer files.Close()

	_, err = files.Write(ctx, domain.InitTaskScript(task.ID), strings.NewReader(task.Script), "")

	return err
}

func (t *Tasks) openLog(
	ctx context.Context, view tools.SessionView, task contract.ClaimedTask, limit int64, full func(),
) (*commands.TaskLog, error) {
	files, err := t.Workspaces.Open(ctx, view)
	if err != nil {
		return nil, err
	}
	defer files.Close()

	file, err := files.Append(ctx, task.OutputPath)
	if err != nil {
		return nil, err
	}

	return commands.NewTaskLog(file, limit, full), nil
}

// watch sends heartbeats to the database while the command runs and kills it when it must
// end: on request, with its worker, or when another worker has taken it over.
func (t *Tasks) watch(run context.Context, kill context.CancelCauseFunc, task contract.ClaimedTask, log *commands.TaskLog,
	stop <-chan struct{}, started <-chan int, drain time.Duration,
) {
	beat := time.NewTicker(taskBeat)
	defer beat.Stop()

	draining := activity.GetWorkerStopChannel(run)
	lastBeat := time.Now()

	for {
		select {
		case <-run.Done():
			return
		case pid := <-started:
			t.onHeartbeat(kill, &lastBeat, false, t.started(run, task, pid))
		case <-draining:
			draining = nil

			timer := time.AfterFunc(drain, func() { kill(errTaskDrained) })
			defer timer.Stop()
		case <-stop: // the flag is the truth
			t.alive(run, kill, &lastBeat, task, log)
		case <-beat.C:
			t.alive(run, kill, &lastBeat, task, log)
		}
	}
}

func (t *Tasks) started(run context.Context, task contract.ClaimedTask, pid int) error {
	ctx, cancel := context.WithTimeout(run, taskAlone/2)
	defer cancel()

	return t.Store.TaskStarted(ctx, task.ID, task.Attempt, pid)
}

func (t *Tasks) alive(
	run context.Context, kill context.CancelCauseFunc, lastBeat *time.Time, task contract.ClaimedTask, log *commands.TaskLog,
) {
	bytes, last := log.Written()

	ctx, cancel := context.WithTimeout(run, taskAlone/2)
	defer cancel()

	stop, err := t.Store.TaskAlive(ctx, task.ID, task.Attempt, bytes, last)
	t.onHeartbeat(kill, lastBeat, stop, err)
}

// onHeartbeat acts on the reply to a heartbeat.
func (t *Tasks) onHeartbeat(kill context.CancelCauseFunc, lastBeat *time.Time, stop bool, err error) {
	switch {
	case err == nil && stop:
		kill(errTaskStopped)
	case err == nil:
		*lastBeat = time.Now()
	case errors.Is(err, domain.ErrFenced):
		kill(errTaskFenced)
	case time.Since(*lastBeat) > taskAlone:
		kill(errTaskAlone)
	}
}

func (t *Tasks) notStarted(task contract.ClaimedTask, err error) contract.TaskEnd {
	t.Logger.Error("failed to start a background task", "task_id", task.ID, "session_id", task.Session.ID, "error", err)
	return contract.TaskEnd{Status: domain.TaskFailed, Reason: "it could not be started"}
}

// ended derives how a task ended from its exit, or from why it was killed.
func ended(exit tools.Exit, err, cause error, limits TaskLimits) contract.TaskEnd {
	switch {
	case err == nil && exit.Killed != "":
		return contract.TaskEnd{Status: domain.TaskFailed, ExitCode: &exit.Code, Reason: exit.Killed}
	case err == nil && exit.Code == 0:
		return contract.TaskEnd{Status: domain.TaskCompleted, ExitCode: &exit.Code}
	case err == nil:
		return contract.TaskEnd{Status: domain.TaskFailed, ExitCode: &exit.Code}
	case errors.Is(cause, errTaskStopped):
		return contract.TaskEnd{Status: domain.TaskStopped}
	case errors.Is(cause, errTaskTime):
		return contract.TaskEnd{Status: domain.TaskFailed, Reason: fmt.Sprintf("its time limit of %s was over", limits.Time)}
	case errors.Is(cause, errTaskOutput):
		return contract.TaskEnd{Status: domain.TaskFailed, Reason: fmt.Sprintf("it wrote more than %d bytes", limits.Output)}
	case cause == nil && domain.AsError(err).Kind == domain.RateLimited:
		return contract.TaskEnd{Status: domain.TaskFailed, Reason: domain.AsError(err).Message}
	case cause == nil:
		return contract.TaskEnd{Status: domain.TaskFailed, Reason: "the sandbox failed"}
	case errors.Is(cause, errTaskAlone), errors.Is(cause, errTaskDrained):
		return contract.TaskEnd{Status: domain.TaskLost, Reason: cause.Error()}
	default: // the run was cancelled, or the worker has shut down
		return contract.TaskEnd{Status: domain.TaskLost, Reason: "its run was ended"}
	}
}

// record writes the end of a task, and retries for up to one minute: a task whose end was
// not recorded would look lost.
func (t *Tasks) record(ctx context.Context, task contract.ClaimedTask, end contract.TaskEnd) (contract.RunTaskOut, error) {
	err := retryWrite(ctx, time.Minute, func() error { return t.Store.EndTask(ctx, task.ID, task.Attempt, end) })
	if errors.Is(err, domain.ErrFenced) { // another has ended it already
		return contract.RunTaskOut{Status: domain.TaskLost}, nil
	}

	return contract.RunTaskOut{Status: end.Status}, err
}

// awaitPoll is how often a task that is waited for is looked at.
const awaitPoll = 250 * time.Millisecond

// AwaitTask waits until a task has ended.
func (t *Tasks) AwaitTask(ctx context.Context, in contract.AwaitTaskIn) (contract.RunTaskOut, error) {
	return t.awaited.Run(ctx, in.TaskID, durable.AbandonAfter, func(ctx context.Context) (contract.RunTaskOut, error) {
		for {
			status, err := t.Store.TaskStatus(ctx, in.TaskID)
			if err != nil && domain.AsError(err).Kind == domain.NotFound {
				return contract.RunTaskOut{}, durable.Final("task_not_found", "the task or its session no longer exists")
			}

			if err != nil || status != domain.TaskRunning {
				return contract.RunTaskOut{Status: status}, err
			}

			select {
			case <-time.After(awaitPoll):
			case <-ctx.Done():
				return contract.RunTaskOut{}, context.Cause(ctx)
			}
		}
	})
}

// LoseTask ends a task whose work cannot report any more.
func (t *Tasks) LoseTask(ctx context.Context, in contract.LoseTaskIn) (contract.RunTaskOut, error) {
	status, err := t.Store.MarkTaskLost(ctx, in.TaskID, in.Reason)
	if err != nil && domain.AsError(err).Kind == domain.NotFound {
		return contract.RunTaskOut{}, durable.Final("task_not_found", "the task no longer exists")
	}

	return contract.RunTaskOut{Status: status}, err
}

// retryWrite retries a write to the database until it succeeds, is rejected, or the limit
// has ended.
func retryWrite(ctx context.Context, limit time.Duration, write func() error) error {
	return retry.Writes(limit).Do(ctx, write, func(err error) bool {
		kind := domain.AsError(err).Kind
		return kind == domain.Internal || kind == domain.Unavailable
	})
}
