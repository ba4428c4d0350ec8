// Package tasks is the room of background tasks: shell commands and sub-agents that outlive the chat
// that started them. Service starts, lists, stops and repairs them for the REST interface and the
// tools; Runner has the activities of their workflow.
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
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/internal/retry"
)

// Deps are what the service works with.
type Deps struct {
	DB         *pg.DB
	Outbox     *pg.Outbox
	Chats      *conversation.Store
	Runs       Runs
	Signals    Signals
	Workspaces tools.Workspaces
	Logger     *slog.Logger
}

// Service starts, lists and stops background tasks. It implements tools.Background.
type Service struct {
	*Store

	deps   Deps
	starts *retry.Pauses // between repeated starts, by task
}

// New returns a new service.
func New(deps Deps) *Service {
	return &Service{NewStore(deps.DB, deps.Outbox), deps, retry.NewPauses(time.Now)}
}

// Runs starts and stops the workflows of tasks.
type Runs interface {
	// StartTask starts the workflow of a command unless it is open; StartAgent does so for a
	// sub-agent.
	StartTask(ctx context.Context, in contract.TaskInput) error
	StartAgent(ctx context.Context, run contract.AgentRun) error
	// CancelTask requests the cancellation of a workflow.
	CancelTask(ctx context.Context, taskID string) error
	// DescribeTask returns the state of a workflow, and why it was closed.
	DescribeTask(ctx context.Context, taskID string) (domain.RunState, string, error)
}

// Signals broadcasts the stops of tasks between processes. A broadcast can be lost: the flag in the
// database decides.
type Signals interface {
	AnnounceTaskStop(ctx context.Context, taskID string) error
	WatchTaskStop(taskID string) (stop <-chan struct{}, cancel func())
}

// StartShell stores a background command and starts its workflow. The id of the task is derived from
// the tool call, so that a repeated call returns the same task. Repair repeats a start that fails
// after the commit.
func (s *Service) StartShell(ctx context.Context, in tools.NewShell) (domain.BackgroundTask, error) {
	id := tools.BackgroundTaskID(in.ToolCallID)

	run, err := s.deps.Chats.SessionRun(ctx, "", in.SessionID)
	if err != nil {
		return domain.BackgroundTask{}, err
	}

	task, err := s.AddTask(ctx, contract.NewTask{
		ID: id, SessionID: in.SessionID, ChatID: in.ChatID, ToolCallID: in.ToolCallID,
		Kind: domain.TaskShell, Title: in.Title, Command: in.Command, OutputPath: tools.TaskLogPath(id),
	})
	if err != nil {
		return domain.BackgroundTask{}, err
	}
	// The task is stored: it must start even if the caller disconnects.
	start := contract.TaskInput{TaskID: id, SessionID: in.SessionID, OwnerID: run.OwnerID}
	if err := s.deps.Runs.StartTask(context.WithoutCancel(ctx), start); err != nil {
		s.deps.Logger.Warn("failed to start a background task, retrying", "task_id", id, "session_id", in.SessionID, "error", err)
	}

	return task, nil
}

// Output returns the last lines of the output of a task, at most tail.
func (s *Service) Output(ctx context.Context, sessionID domain.SessionID, taskID string, tail int) (domain.TaskOutput, error) {
	task, path, uid, err := s.Task(ctx, sessionID, taskID)
	if err != nil {
		return domain.TaskOutput{}, err
	}

	var out domain.TaskOutput
	if task.Kind == domain.TaskAgent {
		out, err = s.agentText(ctx, task, tail)
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

	files, err := s.deps.Workspaces.Open(ctx, view)
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

// Stop requests the end of a task: it commits the stop flag, then broadcasts the stop. A task that has
// ended is unchanged.
func (s *Service) Stop(ctx context.Context, sessionID domain.SessionID, taskID string) (domain.BackgroundTask, error) {
	task, err := s.RequestTaskStop(ctx, sessionID, taskID)
	if err == nil && task.Status == domain.TaskRunning {
		s.announce(ctx, task)
	}

	return task, err
}

// StopAll requests the end of all running tasks of a session that is about to be deleted.
func (s *Service) StopAll(ctx context.Context, sessionID domain.SessionID) error {
	tasks, err := s.RequestTaskStops(ctx, sessionID)
	for _, task := range tasks {
		s.announce(ctx, task)
	}

	return err
}

// announce broadcasts the stop of a task, and cancels the workflow of a sub-agent. A failure only
// delays the stop: a command reads its flag every second, and Repair repeats the stop of a sub-agent.
func (s *Service) announce(ctx context.Context, task domain.BackgroundTask) {
	err := s.deps.Signals.AnnounceTaskStop(context.WithoutCancel(ctx), task.TaskID)
	if task.Kind == domain.TaskAgent {
		err = errors.Join(err, s.deps.Runs.CancelTask(context.WithoutCancel(ctx), task.TaskID))
	}

	if err != nil {
		s.deps.Logger.Warn("failed to announce the stop of a background task, retrying", "task_id", task.TaskID, "error", err)
	}
}

// unclaimedAfter is the age at which the start of an unclaimed task counts as lost.
// abandonedAfter is how long after the end of its lease a task counts as abandoned.
const (
	unclaimedAfter = 10 * time.Second
	abandonedAfter = 2 * time.Minute
)

// Repair starts tasks whose start was lost, repeats the stops of sub-agents, and ends tasks whose
// worker has crashed. It continues after a task that fails. It is idempotent, and safe for concurrent
// use by all processes.
func (s *Service) Repair(ctx context.Context) error {
	return errors.Join(s.startUnclaimed(ctx), s.repairAgents(ctx), s.loseAbandoned(ctx))
}

// repairPage is the number of tasks of one query.
const repairPage = 500

func (s *Service) startUnclaimed(ctx context.Context) error {
	var failed []error

	for after := ""; ; {
		unclaimed, err := s.UnclaimedTasks(ctx, unclaimedAfter, after, repairPage)
		failed = append(failed, err)

		for _, task := range unclaimed {
			after = task.TaskID

			if _, due := s.starts.Try(task.TaskID); due {
				failed = append(failed, s.deps.Runs.StartTask(ctx, task))
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
		abandoned, err := s.AbandonedTasks(ctx, abandonedAfter, after, repairPage)
		failed = append(failed, err)

		for _, id := range abandoned {
			_, err := s.MarkTaskLost(ctx, id, "its worker was lost")
			failed = append(failed, err)
			after = id
		}

		if len(abandoned) < repairPage || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}
