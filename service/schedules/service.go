// Package schedules answers for scheduled tasks: it checks and changes them, says when
// they are due, and begins and ends their runs. The database decides which ticks there
// are; Temporal's schedules wake the service at their times. What a crash leaves
// undone is repaired by service/work.
package schedules

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/domain"
	"everloop/domain/schedule"
)

// Store reads and writes tasks and runs.
type Store interface {
	CreateScheduledTask(ctx context.Context, ownerID string, spec schedule.TaskSpec) (schedule.Task, error)
	ScheduledTasks(ctx context.Context, ownerID string) ([]schedule.Task, error)
	// WorkspaceTasks lists those of a production workspace that the user may see.
	WorkspaceTasks(ctx context.Context, userID, workspaceID string) ([]schedule.Task, error)
	// ScheduledTask reads one that the user may see.
	ScheduledTask(ctx context.Context, userID, id string) (schedule.Task, error)
	// ChangeScheduledTask calls change under the lock of the task.
	ChangeScheduledTask(ctx context.Context, ownerID, id string, change func(*schedule.Task) error) (schedule.Task, error)
	DeleteScheduledTask(ctx context.Context, ownerID, id string) error
	OwnWebhooks(ctx context.Context, ownerID string, ids []string) (bool, error)
	ScheduledRuns(ctx context.Context, userID, taskID string, offset, limit int) ([]schedule.Run, error)

	TakeTicks(ctx context.Context, taskID string) (schedule.TickPlan, error)
	RunNow(ctx context.Context, ownerID, taskID string) (schedule.TickPlan, error)
	SyncSchedule(ctx context.Context, taskID string, apply func(context.Context, schedule.Sync) error) error
	ClaimRun(ctx context.Context, runID string) (schedule.ClaimedRun, schedule.TickPlan, error)
	RunBegan(ctx context.Context, runID string, chatID domain.ChatID) (cancelled bool, err error)
	BlockRun(ctx context.Context, runID, code, message string) (schedule.TickPlan, error)
	CancelRun(ctx context.Context, runID string) (open bool, plan schedule.TickPlan, err error)
	EndRun(ctx context.Context, runID string) (schedule.RunNext, schedule.TickPlan, error)
	RunToCheck(ctx context.Context, runID string) (run schedule.OutcomeRun, found bool, err error)
	EndChecks(ctx context.Context, runID string, checks []schedule.RunCheck) (schedule.TickPlan, error)

	EnsureSession(ctx context.Context, ownerID string, in domain.NewSession) error
}

// Runs reaches Temporal.
type Runs interface {
	StartScheduledRun(ctx context.Context, runID string) error
	SyncSchedule(ctx context.Context, in schedule.Sync) error
}

// Chats sends messages and stops chats.
type Chats interface {
	Send(ctx context.Context, caller domain.Caller, send domain.Send) (domain.SendAck, error)
	StopChat(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, chatID domain.ChatID) error
}

// Models resolves the names of models.
type Models interface {
	Resolve(ctx context.Context, requested string) (domain.Model, error)
}

// Config is what New needs.
type Config struct {
	Store  Store
	Runs   Runs
	Chats  Chats
	Models Models
	Logger *slog.Logger
}

// Service answers for scheduled tasks.
type Service struct {
	cfg   Config
	syncs chan struct{} // one for each update of a schedule that works
}

// maxSyncs is how many updates of schedules call Temporal concurrently after changes.
const maxSyncs = 4

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Runs == nil || cfg.Chats == nil || cfg.Models == nil || cfg.Logger == nil {
		return nil, errors.New("schedules: the configuration needs Records, Runs, Chats, Models and Logger")
	}

	return &Service{cfg, make(chan struct{}, maxSyncs)}, nil
}

// Create makes a task. Its schedule in Temporal follows, now or when Temporal is there.
func (s *Service) Create(ctx context.Context, ownerID string, spec schedule.TaskSpec) (schedule.Task, error) {
	if err := s.check(ctx, &spec, true); err != nil {
		return schedule.Task{}, err
	}

	if err := s.checkNotify(ctx, ownerID, nil, spec.Notify); err != nil {
		return schedule.Task{}, err
	}

	task, err := s.cfg.Store.CreateScheduledTask(ctx, ownerID, spec)
	if err == nil {
		s.synchronise(ctx, task.ID)
	}

	return task, err
}

// List gives the tasks of a user, the newest first.
func (s *Service) List(ctx context.Context, ownerID string) ([]schedule.Task, error) {
	return s.cfg.Store.ScheduledTasks(ctx, ownerID)
}

// ListOf gives the tasks of a production workspace that a user may see, the newest first.
func (s *Service) ListOf(ctx context.Context, userID, workspaceID string) ([]schedule.Task, error) {
	return s.cfg.Store.WorkspaceTasks(ctx, userID, workspaceID)
}

// Get reads a task that a user may see.
func (s *Service) Get(ctx context.Context, userID, id string) (schedule.Task, error) {
	return s.cfg.Store.ScheduledTask(ctx, userID, id)
}

// Change lets set change a user's own task. The coming ticks are planned again. A new model,
// budget, workspace or way to confirm is for a new session, if the task keeps one.
func (s *Service) Change(ctx context.Context, ownerID, id string, set func(*schedule.TaskSpec)) (schedule.Task, error) {
	before, err := s.cfg.Store.ScheduledTask(ctx, ownerID, id)
	if err != nil {
		return before, err
	}

	if before.OwnerID != ownerID {
		return schedule.Task{}, schedule.NotOwnerOfTask()
	}

	// What needs the model server is checked before the lock.
	proposed := before.TaskSpec
	set(&proposed)

	if err := s.check(ctx, &proposed, !sameTime(proposed.ExpiresAt, before.ExpiresAt)); err != nil {
		return before, err
	}

	if err := s.checkNotify(ctx, ownerID, before.Notify, proposed.Notify); err != nil {
		return before, err
	}

	task, err := s.cfg.Store.ChangeScheduledTask(ctx, ownerID, id, func(task *schedule.Task) error {
		was := task.TaskSpec
		set(&task.TaskSpec)

		if err := checkSpec(&task.TaskSpec); err != nil {
			return err
		}

		if otherSession(was, task.TaskSpec) {
			task.SessionID = nil
		}

		if task.Enabled && !was.Enabled {
			task.ConsecutiveFailures, task.PausedReason = 0, nil
		}

		return nil
	})
	if err == nil {
		s.synchronise(ctx, id)
	}

	return task, err
}

// SetEnabled starts or stops a task.
func (s *Service) SetEnabled(ctx context.Context, ownerID, id string, enabled bool) (schedule.Task, error) {
	task, err := s.cfg.Store.ChangeScheduledTask(ctx, ownerID, id, func(task *schedule.Task) error {
		if enabled {
			task.ConsecutiveFailures, task.PausedReason = 0, nil
		}

		task.Enabled = enabled

		return nil
	})
	if err == nil {
		s.synchronise(ctx, id)
	}

	return task, err
}

// Delete removes a task and its records. Runs that work go on in their sessions.
func (s *Service) Delete(ctx context.Context, ownerID, id string) error {
	err := s.cfg.Store.DeleteScheduledTask(ctx, ownerID, id)
	if err == nil {
		s.synchronise(ctx, id)
	}

	return err
}

// RunNow runs a task at once, by its overlap policy.
func (s *Service) RunNow(ctx context.Context, ownerID, id string) (schedule.Run, error) {
	plan, err := s.cfg.Store.RunNow(ctx, ownerID, id)
	if err != nil {
		return schedule.Run{}, err
	}

	s.follow(ctx, id, plan)

	return *plan.Run, nil
}

// History gives a page of the records of the runs of a task that a user may see, the newest first.
func (s *Service) History(ctx context.Context, userID, id string, offset, limit int) ([]schedule.Run, error) {
	return s.cfg.Store.ScheduledRuns(ctx, userID, id, offset, limit)
}

// syncTimeout bounds one update of a schedule in Temporal.
const syncTimeout = 10 * time.Second

// Sync makes the schedule of a task in Temporal what the database says.
func (s *Service) Sync(ctx context.Context, taskID string) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()

	return s.cfg.Store.SyncSchedule(ctx, taskID, s.cfg.Runs.SyncSchedule)
}

// synchronise is Sync after a commit: it may fail, and is repeated then. Where many work
// already, as while Temporal hangs, it is left to the repair.
func (s *Service) synchronise(ctx context.Context, taskID string) {
	select {
	case s.syncs <- struct{}{}:
	default:
		return
	}

	ctx = context.WithoutCancel(ctx)

	go func() {
		defer func() { <-s.syncs }()

		if err := s.Sync(ctx, taskID); err != nil {
			s.cfg.Logger.Warn("failed to update the schedule of a task, retrying", "task_id", taskID, "error", err)
		}
	}()
}

// follow does what follows from ticks that were recorded. What fails is repaired.
func (s *Service) follow(ctx context.Context, taskID string, plan schedule.TickPlan) {
	ctx = context.WithoutCancel(ctx)
	for _, run := range plan.Stop {
		if err := s.Stop(ctx, run); err != nil {
			s.cfg.Logger.Warn("failed to stop a scheduled run, retrying", "session_id", run.SessionID, "error", err)
		}
	}

	for _, run := range plan.Start {
		if err := s.cfg.Runs.StartScheduledRun(ctx, run); err != nil {
			s.cfg.Logger.Warn("failed to start a scheduled run, retrying", "run_id", run, "error", err)
		}
	}

	if plan.Sync {
		s.synchronise(ctx, taskID)
	}
}

// CancelRun stops a run for an administrator; with false it is over.
func (s *Service) CancelRun(ctx context.Context, runID string) (open bool, err error) {
	open, plan, err := s.cfg.Store.CancelRun(ctx, runID)
	if err == nil && open {
		s.follow(ctx, plan.TaskID, plan)
	}

	return open, err
}

// FailRun ends a run as failed for an administrator, and lets the next one begin.
func (s *Service) FailRun(ctx context.Context, runID, code, message string) error {
	plan, err := s.cfg.Store.BlockRun(ctx, runID, code, message)
	if err == nil {
		s.follow(ctx, plan.TaskID, plan)
	}

	return err
}

// Stop stops the chat of a run, and no other of its session.
func (s *Service) Stop(ctx context.Context, run domain.RunChat) error {
	err := s.cfg.Chats.StopChat(ctx, caller(run.OwnerID), run.SessionID, run.ChatID)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return nil
	}

	return err
}

func caller(ownerID string) domain.Caller { return domain.Caller{User: domain.User{ID: ownerID}} }
