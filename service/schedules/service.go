// Package schedules answers for scheduled tasks: it checks and changes them, says when
// they are due, and starts and ends their runs. Each task is a Temporal Schedule, and both may
// be changed: a change of the API is written to the row, and from there to the Schedule; a change in
// Temporal is taken over into the row when the Schedule has all changes of the API.
package schedules

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/domain"
	"everloop/domain/cron"
	"everloop/domain/prodagent"
	"everloop/domain/schedule"
	"everloop/domain/target"
	"everloop/service/targets"
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

	RecordedUntil(ctx context.Context, taskID string) (task schedule.Task, until time.Time, custom bool, err error)
	Observe(ctx context.Context, taskID string, seen schedule.Observed, at time.Time, ticks []time.Time) (schedule.TickPlan, error)
	ClaimPush(ctx context.Context, taskID string) (push schedule.Push, found bool, err error)
	ReleasePush(ctx context.Context, push schedule.Push) error
	Pushed(ctx context.Context, push schedule.Push, due string, renewAt *time.Time) error
	PendingSchedules(ctx context.Context, after string, limit int) ([]string, error)
	SyncedSchedules(ctx context.Context, after string, limit int) ([]string, error)
	RenewSchedules(ctx context.Context) error
	ForgetSchedule(ctx context.Context, taskID string) error
	DeletedInTemporal(ctx context.Context, taskID string) error

	AskRun(ctx context.Context, ownerID, taskID string) (schedule.Run, error)
	AskedRuns(ctx context.Context, after string, limit int) ([]string, error)
	RunTriggered(ctx context.Context, runID string) error
	ScheduledRun(ctx context.Context, runID string) (schedule.Run, error)
	WaitsForStart(ctx context.Context, runID string) (bool, error)
	CancelledRuns(ctx context.Context) ([]domain.RunChat, error)
	CancelledTargets(ctx context.Context) ([]target.Started, error)

	ClaimRun(ctx context.Context, in schedule.RunStart) (schedule.ClaimedRun, schedule.TickPlan, error)
	StopRun(ctx context.Context, runID string) (schedule.TickPlan, error)
	RunBegan(ctx context.Context, runID string, started target.Started) (cancelled bool, err error)
	BlockRun(ctx context.Context, runID, code, message string) (schedule.TickPlan, error)
	CancelRun(ctx context.Context, runID string) (open bool, plan schedule.TickPlan, err error)
	EndRun(ctx context.Context, runID string) (schedule.RunNext, schedule.TickPlan, error)
	StartedBy(ctx context.Context, runID string) (*target.Started, error)
	EndStarted(ctx context.Context, runID string, end domain.RunEnd, used domain.Usage) (schedule.TickPlan, error)
	RunToCheck(ctx context.Context, runID string) (run schedule.OutcomeRun, found bool, err error)
	EndChecks(ctx context.Context, runID string, checks []schedule.RunCheck) (schedule.TickPlan, error)
}

// Engine reaches the Schedules of tasks in Temporal.
type Engine interface {
	// DescribeSchedule returns false for a Schedule that does not exist.
	DescribeSchedule(ctx context.Context, taskID string) (schedule.Observed, bool, error)
	// PushSchedule leaves the times of the Schedule as they are without a plan.
	PushSchedule(ctx context.Context, task schedule.Task, plan *cron.Plan, note string) (schedule.Observed, error)
	TriggerSchedule(ctx context.Context, taskID string, nominal time.Time) error
	// BackfillSchedule runs the ticks from one time to another, both included, one after the other.
	BackfillSchedule(ctx context.Context, taskID string, from, to time.Time) error
	DeleteSchedule(ctx context.Context, taskID string) error
	MissingSchedule(ctx context.Context, taskID string) (schedule.Missing, error)
	ListSchedules(ctx context.Context, token []byte, size int) (page []schedule.Listed, next []byte, err error)
	MatchingTimes(ctx context.Context, taskID string, from, to time.Time) ([]time.Time, error)
}

// Chats stops chats.
type Chats interface {
	StopChat(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, chatID domain.ChatID) error
}

// Agents knows who may use which production agent and take which role of a solution.
type Agents interface {
	ProdAgentByName(ctx context.Context, userID, agentID string) (prodagent.Agent, error)
	CheckRole(ctx context.Context, userID, solutionID, roleID string) error
}

// Models resolves the names of models.
type Models interface {
	Resolve(ctx context.Context, requested string) (domain.Model, error)
}

// Config is what New needs.
type Config struct {
	Store  Store
	Engine Engine
	Chats  Chats
	Models Models
	Agents Agents
	// Targets starts what tasks are for.
	Targets *targets.Service
	// Network is that of the service, which a task can narrow.
	Network domain.NetworkMode
	Logger  *slog.Logger
}

// Service answers for scheduled tasks.
type Service struct {
	cfg    Config
	pushes chan struct{} // one for each change that is written to a Schedule
	seen   reconciled
}

// maxPushes is how many changes are written to Schedules concurrently by their requests.
const maxPushes = 16

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Engine == nil || cfg.Chats == nil || cfg.Models == nil || cfg.Agents == nil || cfg.Targets == nil ||
		cfg.Logger == nil {
		return nil, errors.New("schedules: the configuration needs Store, Engine, Chats, Models, Agents, Targets and Logger")
	}

	return &Service{cfg: cfg, pushes: make(chan struct{}, maxPushes)}, nil
}

// Create creates a task. Its schedule in Temporal follows, now or when Temporal is there.
func (s *Service) Create(ctx context.Context, ownerID string, spec schedule.TaskSpec) (schedule.Task, error) {
	if err := s.check(ctx, &spec, true); err != nil {
		return schedule.Task{}, err
	}

	if err := s.checkNotify(ctx, ownerID, nil, spec.Notify); err != nil {
		return schedule.Task{}, err
	}

	if err := s.checkSetup(ctx, ownerID, spec); err != nil {
		return schedule.Task{}, err
	}

	task, err := s.cfg.Store.CreateScheduledTask(ctx, ownerID, spec)
	if err == nil {
		s.write(ctx, task.ID)
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

// Get reads a task that a user may see, as its Schedule is now.
func (s *Service) Get(ctx context.Context, userID, id string) (schedule.Task, error) {
	if _, err := s.cfg.Store.ScheduledTask(ctx, userID, id); err != nil {
		return schedule.Task{}, err
	}

	s.look(ctx, id)

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

	if err := s.checkSetup(ctx, ownerID, proposed); err != nil {
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
		s.write(ctx, id)
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
		s.write(ctx, id)
	}

	return task, err
}

// Delete removes a task and its records. Runs that work continue in their sessions.
func (s *Service) Delete(ctx context.Context, ownerID, id string) error {
	err := s.cfg.Store.DeleteScheduledTask(ctx, ownerID, id)
	if err == nil {
		s.write(ctx, id)
	}

	return err
}

// History gives a page of the records of the runs of a task that a user may see, the newest first.
func (s *Service) History(ctx context.Context, userID, id string, offset, limit int) ([]schedule.Run, error) {
	if _, err := s.cfg.Store.ScheduledTask(ctx, userID, id); err != nil {
		return nil, err
	}

	if offset == 0 {
		s.look(ctx, id)
	}

	return s.cfg.Store.ScheduledRuns(ctx, userID, id, offset, limit)
}

// follow does what follows from records. What fails is repaired.
func (s *Service) follow(ctx context.Context, plan schedule.TickPlan) {
	ctx = context.WithoutCancel(ctx)
	for _, run := range plan.Stop {
		if err := s.Stop(ctx, run); err != nil {
			s.cfg.Logger.Warn("failed to stop a scheduled run, retrying", "session_id", run.SessionID, "error", err)
		}
	}

	for _, started := range plan.Cancel {
		if err := s.cfg.Targets.Stop(ctx, started); err != nil {
			s.cfg.Logger.Warn("failed to cancel what a scheduled run has started, retrying", "task_id", plan.TaskID, "error", err)
		}
	}

	if plan.Push {
		s.write(ctx, plan.TaskID)
	}
}

// CancelRun stops a run for an administrator; with false it has ended.
func (s *Service) CancelRun(ctx context.Context, runID string) (open bool, err error) {
	open, plan, err := s.cfg.Store.CancelRun(ctx, runID)
	if err == nil && open {
		s.follow(ctx, plan)
	}

	return open, err
}

// FailRun ends a run as failed for an administrator, and lets the next one start.
func (s *Service) FailRun(ctx context.Context, runID, code, message string) error {
	plan, err := s.cfg.Store.BlockRun(ctx, runID, code, message)
	if err == nil {
		s.follow(ctx, plan)
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
