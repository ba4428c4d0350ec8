package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/commands"
	"everloop/domain"
	"everloop/internal/durable"
	"everloop/internal/retry"
)

// Runner runs background commands. A command runs in one long activity and is never repeated: when
// its worker crashes the task is lost.
type Runner struct {
	Store      *Store
	Signals    Signals
	Sandbox    tools.Sandbox
	Workspaces tools.Workspaces
	// Root returns the directory of a session's files on this machine.
	Root func(ctx context.Context, sessionID domain.SessionID, uid int) (string, error)
	// Env returns the variables of a session's commands.
	Env    func(ctx context.Context, session domain.Session) (map[string]string, error)
	Limits Limits
	Logger *slog.Logger

	running durable.Shared[string, contract.RunTaskOut] // by task
	awaited durable.Shared[string, contract.RunTaskOut] // by task
}

// Limits bound one background command; zero fields select the defaults.
type Limits struct {
	Time   time.Duration // 24 h
	Output int64         // bytes of the log; 256 MiB
	Drain  time.Duration // for the command to end after its worker starts to shut down; 5 s
}

// Causes of a kill.
var (
	errTaskStopped = errors.New("stopped on request")
	errTaskTime    = errors.New("its time limit was over")
	errTaskOutput  = errors.New("it wrote more than its log may hold")
	errTaskFenced  = errors.New("another worker has ended it")
	errTaskAlone   = errors.New("the database could not be reached for too long")
	errTaskDrained = errors.New("the service was restarted")
)

// taskBeat is the interval of heartbeats to the database. taskAlone is how long they can fail before
// the command is killed: two thirds of the lease.
const (
	taskBeat  = time.Second
	taskAlone = 20 * time.Second
)

// taskHeldPoll is the interval at which a task that another worker runs is read.
const taskHeldPoll = 2 * time.Second

func (r *Runner) limits() Limits {
	l := r.Limits
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

// Register binds the activities of the runner to their names.
func (r *Runner) Register(w worker.ActivityRegistry) {
	contract.RunTask.Handle(w, r.RunTask)
	contract.LoseTask.Handle(w, r.LoseTask)
	contract.AwaitTask.Handle(w, r.AwaitTask)
}

// RunTask runs one background command to its end. The command continues when the server has given up
// the attempt; a later attempt joins it.
func (r *Runner) RunTask(ctx context.Context, in contract.RunTaskIn) (contract.RunTaskOut, error) {
	return r.running.Run(ctx, in.TaskID, 0, func(ctx context.Context) (contract.RunTaskOut, error) {
		return r.runTask(ctx, in)
	})
}

// Drain waits until the ends of all tasks are recorded. It is called after the worker has stopped.
func (r *Runner) Drain(ctx context.Context) { r.running.Wait(ctx) }

func (r *Runner) runTask(ctx context.Context, in contract.RunTaskIn) (contract.RunTaskOut, error) {
	stop, unwatch := r.Signals.WatchTaskStop(in.TaskID)
	defer unwatch()

	attempt := int(activity.GetInfo(ctx).Attempt)

	task, err := r.claim(ctx, in, attempt)
	if err != nil || task.Status != domain.TaskRunning {
		return contract.RunTaskOut{Status: task.Status}, err
	}

	end := r.execute(ctx, task, stop)

	return r.record(context.WithoutCancel(ctx), task, end)
}

// claim claims the task for this attempt, and repeats a claim whose answer was lost. While another
// worker runs the task, claim waits for its end.
func (r *Runner) claim(ctx context.Context, in contract.RunTaskIn, attempt int) (task contract.ClaimedTask, err error) {
	for {
		err = retryWrite(ctx, taskAlone, func() error {
			task, err = r.Store.ClaimTask(ctx, in.TaskID, in.RunID, attempt)
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

// execute runs the command and returns how it ended.
func (r *Runner) execute(ctx context.Context, task contract.ClaimedTask, stop <-chan struct{}) contract.TaskEnd {
	limits := r.limits()

	run, kill := context.WithCancelCause(ctx)
	defer kill(nil)

	clock := time.AfterFunc(limits.Time, func() { kill(errTaskTime) })
	defer clock.Stop()

	view, err := r.prepare(ctx, task)
	if err != nil {
		return r.notStarted(task, err)
	}

	log, err := r.openLog(ctx, view, task, limits.Output, func() { kill(errTaskOutput) })
	if err != nil {
		return r.notStarted(task, err)
	}

	started := make(chan int, 1)

	watched := make(chan struct{})
	go func() {
		defer close(watched)

		r.watch(run, kill, task, log, stop, started, limits.Drain)
	}()

	exit, err := r.Sandbox.Run(run, tools.Command{
		Session: view, Argv: []string{"bash", "-c", task.Command}, Env: tools.Environment(view.Env),
		Stdout: log.Stdout(), Stderr: log.Stderr(), Started: func(pid int) { started <- pid },
	})
	cause := context.Cause(run)

	kill(nil)
	<-watched

	if closing := log.Close(); closing != nil {
		r.Logger.Warn("part of a background task's log was not written", "task_id", task.ID, "error", closing)
	}

	end := ended(exit, err, cause, limits)
	if domain.AsError(err).Kind == domain.Internal && err != nil && cause == nil {
		r.Logger.Error("the sandbox failed under a background task", "task_id", task.ID, "session_id", task.Session.ID, "error", err)
	}

	end.OutputBytes, end.LastOutputAt = log.Written()
	end.Connections = exit.Connections

	return end
}

// prepare reads the environment and writes the script of a task. It retries while an engine is
// unavailable, for a third of the lease: nothing has run yet.
func (r *Runner) prepare(ctx context.Context, task contract.ClaimedTask) (tools.SessionView, error) {
	session := task.Session
	view := tools.SessionView{ID: session.ID, OwnerID: session.OwnerID, SandboxUID: session.SandboxUID}

	attempt := func() (err error) {
		if view.Env, err = r.Env(ctx, session); err != nil {
			return err
		}

		if view.Root, err = r.Root(ctx, session.ID, session.SandboxUID); err != nil {
			return err
		}

		return r.writeScript(ctx, view, task)
	}

	err := retry.Writes(taskAlone/2).Do(ctx, attempt, func(err error) bool { return domain.AsError(err).Kind == domain.Unavailable })

	return view, err
}

// writeScript writes the script of a task to the file that its command runs. Arguments of commands
// are too short for scripts.
func (r *Runner) writeScript(ctx context.Context, view tools.SessionView, task contract.ClaimedTask) error {
	if task.Script == "" {
		return nil
	}

	files, err := r.Workspaces.Open(ctx, view)
	if err != nil {
		return err
	}
	defer files.Close()

	_, err = files.Write(ctx, domain.InitTaskScript(task.ID), strings.NewReader(task.Script), "")

	return err
}

func (r *Runner) openLog(
	ctx context.Context, view tools.SessionView, task contract.ClaimedTask, limit int64, full func(),
) (*commands.TaskLog, error) {
	files, err := r.Workspaces.Open(ctx, view)
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

// watch sends heartbeats to the database while the command runs. It kills the command on request, at
// the end of its worker, and when another worker has the task.
func (r *Runner) watch(run context.Context, kill context.CancelCauseFunc, task contract.ClaimedTask, log *commands.TaskLog,
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
			r.onHeartbeat(kill, &lastBeat, false, r.started(run, task, pid))
		case <-draining:
			draining = nil

			timer := time.AfterFunc(drain, func() { kill(errTaskDrained) })
			defer timer.Stop()
		case <-stop: // the flag in the database decides
			r.alive(run, kill, &lastBeat, task, log)
		case <-beat.C:
			r.alive(run, kill, &lastBeat, task, log)
		}
	}
}

func (r *Runner) started(run context.Context, task contract.ClaimedTask, pid int) error {
	ctx, cancel := context.WithTimeout(run, taskAlone/2)
	defer cancel()

	return r.Store.TaskStarted(ctx, task.ID, task.Attempt, pid)
}

func (r *Runner) alive(
	run context.Context, kill context.CancelCauseFunc, lastBeat *time.Time, task contract.ClaimedTask, log *commands.TaskLog,
) {
	bytes, last := log.Written()

	ctx, cancel := context.WithTimeout(run, taskAlone/2)
	defer cancel()

	stop, err := r.Store.TaskAlive(ctx, task.ID, task.Attempt, bytes, last)
	r.onHeartbeat(kill, lastBeat, stop, err)
}

// onHeartbeat acts on the reply to a heartbeat.
func (r *Runner) onHeartbeat(kill context.CancelCauseFunc, lastBeat *time.Time, stop bool, err error) {
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

func (r *Runner) notStarted(task contract.ClaimedTask, err error) contract.TaskEnd {
	r.Logger.Error("failed to start a background task", "task_id", task.ID, "session_id", task.Session.ID, "error", err)
	return contract.TaskEnd{Status: domain.TaskFailed, Reason: "it could not be started"}
}

// ended returns how a task ended: by its exit, or by the cause of its kill.
func ended(exit tools.Exit, err, cause error, limits Limits) contract.TaskEnd {
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

// record writes the end of a task, and retries for up to one minute, because a task without a recorded
// end counts as lost.
func (r *Runner) record(ctx context.Context, task contract.ClaimedTask, end contract.TaskEnd) (contract.RunTaskOut, error) {
	err := retryWrite(ctx, time.Minute, func() error { return r.Store.EndTask(ctx, task.ID, task.Attempt, end) })
	if errors.Is(err, domain.ErrFenced) { // another has ended it already
		return contract.RunTaskOut{Status: domain.TaskLost}, nil
	}

	return contract.RunTaskOut{Status: end.Status}, err
}

// awaitPoll is the interval at which the status of an awaited task is read.
const awaitPoll = 250 * time.Millisecond

// AwaitTask waits until a task has ended.
func (r *Runner) AwaitTask(ctx context.Context, in contract.AwaitTaskIn) (contract.RunTaskOut, error) {
	return r.awaited.Run(ctx, in.TaskID, durable.AbandonAfter, func(ctx context.Context) (contract.RunTaskOut, error) {
		for {
			status, err := r.Store.TaskStatus(ctx, in.TaskID)
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

// LoseTask ends a task whose worker cannot report its end.
func (r *Runner) LoseTask(ctx context.Context, in contract.LoseTaskIn) (contract.RunTaskOut, error) {
	status, err := r.Store.MarkTaskLost(ctx, in.TaskID, in.Reason)
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
