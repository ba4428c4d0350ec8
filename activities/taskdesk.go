package activities

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
)

// TaskDesk is where background tasks are started, looked at and stopped. It
// serves the Bash tool (tools.Background) and the REST operations.
type TaskDesk struct {
	Records    TaskList
	Runs       TaskRuns
	Bus        TaskBus
	Workspaces tools.Workspaces
	Logger     *slog.Logger
}

// TaskList keeps the tasks of sessions.
type TaskList interface {
	AddTask(ctx context.Context, in contract.NewTask) (domain.BackgroundTask, error)
	BackgroundTasks(ctx context.Context, sessionID string) ([]domain.BackgroundTask, error)
	BackgroundTask(ctx context.Context, sessionID, taskID string) (task domain.BackgroundTask, outputPath string, sandboxUID int, err error)
	RequestTaskStop(ctx context.Context, sessionID, taskID string) (domain.BackgroundTask, error)
	RequestTaskStops(ctx context.Context, sessionID string) ([]domain.BackgroundTask, error)
	UnclaimedTasks(ctx context.Context, age time.Duration) ([]contract.TaskInput, error)
	ForsakenTasks(ctx context.Context, age time.Duration) ([]string, error)
	LoseTask(ctx context.Context, taskID, reason string) (domain.TaskStatus, error)
	SessionRun(ctx context.Context, ownerID, sessionID string) (domain.SessionRun, error)

	AgentRun(ctx context.Context, loopID string) (contract.AgentRun, error)
	RunningAgents(ctx context.Context, age time.Duration) (reserved, stopping, open []contract.AgentRun, err error)
	ForkText(ctx context.Context, loopID string) (domain.ForkText, error)
	LoseAgent(ctx context.Context, loopID, reason string) error
}

// TaskRuns starts the runs of tasks; starting one that runs changes nothing.
type TaskRuns interface {
	StartTask(ctx context.Context, in contract.TaskInput) error
	// StartAgent is StartTask for a sub-agent, CancelTask ends its run in good
	// order, DescribeTask tells how it stands, and why.
	StartAgent(ctx context.Context, run contract.AgentRun) error
	CancelTask(ctx context.Context, taskID string) error
	DescribeTask(ctx context.Context, taskID string) (domain.RunState, string, error)
}

// TaskBus tells running work at once that its task is to stop.
type TaskBus interface {
	AnnounceTaskStop(ctx context.Context, taskID string) error
}

// StartShell makes a background command durable and starts its run. The task's
// id comes from the tool call, so that the same call again gives the same task;
// a start that fails after the commit is made good by Sweep.
func (d *TaskDesk) StartShell(ctx context.Context, in tools.NewShell) (domain.BackgroundTask, error) {
	id := tools.BackgroundTaskID(in.ToolCallID)
	run, err := d.Records.SessionRun(ctx, "", in.SessionID)
	if err != nil {
		return domain.BackgroundTask{}, err
	}
	task, err := d.Records.AddTask(ctx, contract.NewTask{
		ID: id, SessionID: in.SessionID, ChatID: in.ChatID, ToolCallID: in.ToolCallID,
		Kind: domain.TaskShell, Title: in.Title, Command: in.Command, OutputPath: tools.TaskLogPath(id),
	})
	if err != nil {
		return domain.BackgroundTask{}, err
	}
	// It is promised now: the caller going away must not keep it from starting.
	start := contract.TaskInput{TaskID: id, SessionID: in.SessionID, OwnerID: run.OwnerID, Title: in.Title}
	if err := d.Runs.StartTask(context.WithoutCancel(ctx), start); err != nil {
		d.Logger.Warn("a background task is not started yet; the sweep will", "task_id", id, "session_id", in.SessionID, "error", err)
	}
	return task, nil
}

// List gives the tasks of a session, newest first.
func (d *TaskDesk) List(ctx context.Context, sessionID string) ([]domain.BackgroundTask, error) {
	return d.Records.BackgroundTasks(ctx, sessionID)
}

// Output gives the last lines that a task has written, at most tail.
func (d *TaskDesk) Output(ctx context.Context, sessionID, taskID string, tail int) (domain.TaskOutput, error) {
	task, path, uid, err := d.Records.BackgroundTask(ctx, sessionID, taskID)
	if err != nil {
		return domain.TaskOutput{}, err
	}
	var out domain.TaskOutput
	if task.Kind == domain.TaskAgent {
		out, err = d.said(ctx, task, tail)
	} else {
		out, err = d.log(ctx, tools.SessionView{ID: sessionID, SandboxUID: uid}, path, tail)
	}
	out.TaskID, out.Status = task.TaskID, task.Status
	return out, err
}

func (d *TaskDesk) log(ctx context.Context, view tools.SessionView, path string, tail int) (domain.TaskOutput, error) {
	nothing := domain.TaskOutput{Lines: []string{}, Markers: []string{}, Tail: tail}
	if path == "" {
		return nothing, nil
	}
	files, err := d.Workspaces.Open(ctx, view)
	if err != nil {
		return nothing, err
	}
	defer files.Close()
	file, _, err := files.Read(path)
	if domain.HasCode(err, domain.CodeFileNotFound) { // it has not begun, or somebody deleted it
		return nothing, nil
	}
	if err != nil {
		return nothing, err
	}
	defer file.Close()
	return tools.ReadTaskLog(file, tail)
}

// Stop asks a task to end: the flag first, then the word to whoever carries it
// out. Stopping one that has ended changes nothing.
func (d *TaskDesk) Stop(ctx context.Context, sessionID, taskID string) (domain.BackgroundTask, error) {
	task, err := d.Records.RequestTaskStop(ctx, sessionID, taskID)
	if err == nil && task.Status == domain.TaskRunning {
		d.announce(ctx, task)
	}
	return task, err
}

// StopAll asks every running task of a session to end, before it is deleted.
func (d *TaskDesk) StopAll(ctx context.Context, sessionID string) error {
	tasks, err := d.Records.RequestTaskStops(ctx, sessionID)
	for _, task := range tasks {
		d.announce(ctx, task)
	}
	return err
}

// announce may fail: a command looks at its flag every second, and the sweep
// tells a sub-agent again.
func (d *TaskDesk) announce(ctx context.Context, task domain.BackgroundTask) {
	err := d.Bus.AnnounceTaskStop(context.WithoutCancel(ctx), task.TaskID)
	if task.Kind == domain.TaskAgent {
		err = errors.Join(err, d.Runs.CancelTask(context.WithoutCancel(ctx), task.TaskID))
	}
	if err != nil {
		d.Logger.Warn("the stop of a background task was not announced", "task_id", task.TaskID, "error", err)
	}
}

// How long a task may stand unclaimed before its start is taken for lost, and
// how long after the end of its lease a task is given up.
const (
	unclaimedAfter = 10 * time.Second
	forsakenAfter  = 2 * time.Minute
)

// Sweep makes good what crashes left: it starts tasks whose start was lost, and
// ends tasks whose worker has been gone for long. Running it anywhere, at any
// time, any number of times does no harm.
func (d *TaskDesk) Sweep(ctx context.Context) error {
	unclaimed, err := d.Records.UnclaimedTasks(ctx, unclaimedAfter)
	if err != nil {
		return err
	}
	for _, task := range unclaimed {
		if err := d.Runs.StartTask(ctx, task); err != nil {
			return err
		}
	}
	if err := d.sweepAgents(ctx); err != nil {
		return err
	}
	forsaken, err := d.Records.ForsakenTasks(ctx, forsakenAfter)
	if err != nil {
		return err
	}
	for _, id := range forsaken {
		if _, err := d.Records.LoseTask(ctx, id, "its worker was lost"); err != nil {
			return err
		}
	}
	return nil
}
