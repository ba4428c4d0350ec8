// Package tasks starts, lists and stops background tasks: shell commands and
// sub-agents that outlive the chat that started them. It serves the REST operations
// and the tools; the tasks themselves are workflows, which it does not know.
package tasks

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/commands"
	"everloop/domain"
	"everloop/internal/retry"
)

// Config is what New needs.
type Config struct {
	Store      Store
	Runs       Runs
	Bus        Bus
	Workspaces tools.Workspaces
	Logger     *slog.Logger
}

// Service starts, lists and stops background tasks. It implements tools.Background.
type Service struct {
	cfg    Config
	starts *retry.Pauses // of runs again, by task
}

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Runs == nil || cfg.Bus == nil || cfg.Workspaces == nil || cfg.Logger == nil {
		return nil, errors.New("tasks: the configuration needs Records, Runs, Bus, Workspaces and Logger")
	}

	return &Service{cfg: cfg, starts: retry.NewPauses(time.Now)}, nil
}

// Store keeps the tasks of sessions.
type Store interface {
	AddTask(ctx context.Context, in contract.NewTask) (domain.BackgroundTask, error)
	BackgroundTasks(ctx context.Context, sessionID domain.SessionID) ([]domain.BackgroundTask, error)
	BackgroundTask(
		ctx context.Context,
		sessionID domain.SessionID,
		taskID string,
	) (task domain.BackgroundTask, outputPath string, sandboxUID int, err error)
	RequestTaskStop(ctx context.Context, sessionID domain.SessionID, taskID string) (domain.BackgroundTask, error)
	RequestTaskStops(ctx context.Context, sessionID domain.SessionID) ([]domain.BackgroundTask, error)
	UnclaimedTasks(ctx context.Context, age time.Duration, after string, limit int) ([]contract.TaskInput, error)
	AbandonedTasks(ctx context.Context, age time.Duration, after string, limit int) ([]string, error)
	MarkTaskLost(ctx context.Context, taskID, reason string) (domain.TaskStatus, error)
	SessionRun(ctx context.Context, ownerID string, sessionID domain.SessionID) (domain.SessionRun, error)

	AgentRun(ctx context.Context, loopID string) (contract.AgentRun, error)
	RunningAgents(ctx context.Context, age time.Duration, after string, limit int) ([]contract.RunningAgent, error)
	ForkText(ctx context.Context, loopID string) (domain.ForkText, error)
	LoseAgent(ctx context.Context, loopID, reason string) error
}

// Runs starts the runs of tasks; starting one that runs changes nothing.
type Runs interface {
	StartTask(ctx context.Context, in contract.TaskInput) error
	// StartAgent is StartTask for a sub-agent, CancelTask ends its run in good
	// order, DescribeTask returns its state and the cause.
	StartAgent(ctx context.Context, run contract.AgentRun) error
	CancelTask(ctx context.Context, taskID string) error
	DescribeTask(ctx context.Context, taskID string) (domain.RunState, string, error)
}

// Bus announces to running work that its task is to stop.
type Bus interface {
	AnnounceTaskStop(ctx context.Context, taskID string) error
}

// StartShell makes a background command durable and starts its run. The task's
// id comes from the tool call, so that the same call again gives the same task;
// a start that fails after the commit is retried by Repair.
func (s *Service) StartShell(ctx context.Context, in tools.NewShell) (domain.BackgroundTask, error) {
	id := tools.BackgroundTaskID(in.ToolCallID)

	run, err := s.cfg.Store.SessionRun(ctx, "", in.SessionID)
	if err != nil {
		return domain.BackgroundTask{}, err
	}

	task, err := s.cfg.Store.AddTask(ctx, contract.NewTask{
		ID: id, SessionID: in.SessionID, ChatID: in.ChatID, ToolCallID: in.ToolCallID,
		Kind: domain.TaskShell, Title: in.Title, Command: in.Command, OutputPath: tools.TaskLogPath(id),
	})
	if err != nil {
		return domain.BackgroundTask{}, err
	}
	// It is durable now: a caller that disconnects must not keep it from starting.
	start := contract.TaskInput{TaskID: id, SessionID: in.SessionID, OwnerID: run.OwnerID}
	if err := s.cfg.Runs.StartTask(context.WithoutCancel(ctx), start); err != nil {
		s.cfg.Logger.Warn("failed to start a background task, retrying", "task_id", id, "session_id", in.SessionID, "error", err)
	}

	return task, nil
}

// List returns the tasks of a session, newest first.
func (s *Service) List(ctx context.Context, sessionID domain.SessionID) ([]domain.BackgroundTask, error) {
	return s.cfg.Store.BackgroundTasks(ctx, sessionID)
}

// Output returns the last lines that a task has written, at most tail.
func (s *Service) Output(ctx context.Context, sessionID domain.SessionID, taskID string, tail int) (domain.TaskOutput, error) {
	task, path, uid, err := s.cfg.Store.BackgroundTask(ctx, sessionID, taskID)
	if err != nil {
		return domain.TaskOutput{}, err
	}

	var out domain.TaskOutput
	if task.Kind == domain.TaskAgent {
		out, err = s.said(ctx, task, tail)
	} else {
		out, err = s.log(ctx, tools.SessionView{ID: sessionID, SandboxUID: uid}, path, tail)
	}

	out.TaskID, out.Status = task.TaskID, task.Status

	return out, err
}

func (s *Service) log(ctx context.Context, view tools.SessionView, path string, tail int) (domain.TaskOutput, error) {
	nothing := domain.TaskOutput{Lines: []string{}, Markers: []string{}, Tail: tail}
	if path == "" {
		return nothing, nil
	}

	files, err := s.cfg.Workspaces.Open(ctx, view)
	if err != nil {
		return nothing, err
	}
	defer files.Close()

	file, _, err := files.Read(path)
	if domain.HasCode(err, domain.CodeFileNotFound) { // it has not started, or the file was deleted
		return nothing, nil
	}

	if err != nil {
		return nothing, err
	}

	defer file.Close()

	return commands.ReadTaskLog(ctx, file, tail)
}

// Stop asks a task to end: it commits the flag, then announces the stop. Stopping one
// that has ended changes nothing.
func (s *Service) Stop(ctx context.Context, sessionID domain.SessionID, taskID string) (domain.BackgroundTask, error) {
	task, err := s.cfg.Store.RequestTaskStop(ctx, sessionID, taskID)
	if err == nil && task.Status == domain.TaskRunning {
		s.announce(ctx, task)
	}

	return task, err
}

// StopAll asks every running task of a session to end, before it is deleted.
func (s *Service) StopAll(ctx context.Context, sessionID domain.SessionID) error {
	tasks, err := s.cfg.Store.RequestTaskStops(ctx, sessionID)
	for _, task := range tasks {
		s.announce(ctx, task)
	}

	return err
}

// announce may fail: a command reads its flag every second, and the periodic job repeats the
// stop of a sub-agent.
func (s *Service) announce(ctx context.Context, task domain.BackgroundTask) {
	err := s.cfg.Bus.AnnounceTaskStop(context.WithoutCancel(ctx), task.TaskID)
	if task.Kind == domain.TaskAgent {
		err = errors.Join(err, s.cfg.Runs.CancelTask(context.WithoutCancel(ctx), task.TaskID))
	}

	if err != nil {
		s.cfg.Logger.Warn("failed to announce the stop of a background task, retrying", "task_id", task.TaskID, "error", err)
	}
}

// unclaimedAfter is the age at which the start of an unclaimed task counts as lost;
// abandonedAfter is how long after the end of its lease a task is abandoned.
const (
	unclaimedAfter = 10 * time.Second
	abandonedAfter = 2 * time.Minute
)

// Repair repairs what crashes left: it starts tasks whose start was lost, and ends
// tasks whose worker has been gone for long. It continues after a task that fails.
// Running it anywhere, at any time, any number of times does no harm.
func (s *Service) Repair(ctx context.Context) error {
	return errors.Join(s.startUnclaimed(ctx), s.repairAgents(ctx), s.loseAbandoned(ctx))
}

// repairPage is how many tasks are read at once.
const repairPage = 500

func (s *Service) startUnclaimed(ctx context.Context) error {
	var failed []error

	for after := ""; ; {
		unclaimed, err := s.cfg.Store.UnclaimedTasks(ctx, unclaimedAfter, after, repairPage)
		failed = append(failed, err)

		for _, task := range unclaimed {
			after = task.TaskID

			if _, due := s.starts.Try(task.TaskID); due {
				failed = append(failed, s.cfg.Runs.StartTask(ctx, task))
			}
		}

		if len(unclaimed) < repairPage || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}

func (s *Service) loseAbandoned(ctx context.Context) error {
	var failed []error

	for after := ""; ; {
		abandoned, err := s.cfg.Store.AbandonedTasks(ctx, abandonedAfter, after, repairPage)
		failed = append(failed, err)

		for _, id := range abandoned {
			_, err := s.cfg.Store.MarkTaskLost(ctx, id, "its worker was lost")
			failed = append(failed, err)
			after = id
		}

		if len(abandoned) < repairPage || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}
