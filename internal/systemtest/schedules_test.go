package systemtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"everloop/activities/background"
	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/service/schedules"
	"everloop/service/work"
	"everloop/worker"
)

// timetable is a stack with scheduled tasks.
type timetable struct {
	*stack
	tasks  *schedules.Service
	repair *work.Schedules
}

func newTimetable(t *testing.T) *timetable {
	t.Helper()
	s := &timetable{stack: newStack(t)}
	runs := temporal.Runs{Client: s.client, Queue: s.queue}

	var err error

	s.tasks, err = schedules.New(schedules.Config{Store: s.journal, Runs: runs, Chats: s.chats, Models: s.acts.Models, Logger: s.logger})
	require.NoError(t, err)
	s.repair, err = work.NewSchedules(s.journal, s.tasks)
	require.NoError(t, err)
	worker.RegisterSchedules(s.worker, &background.Schedules{Tasks: s.tasks, Outcomes: &background.Outcomes{
		Sandbox:     s.shells.Sandbox,
		Workspaces:  s.shells.Workspaces,
		Roots:       s.shells.Roots,
		Environment: s.shells.Environment,
		Logger:      s.logger,
	}})

	return s
}

func (s *timetable) create(change func(*schedule.TaskSpec)) schedule.Task {
	s.t.Helper()

	spec := schedule.TaskSpec{
		Title: "t", Prompt: "hello" + script(obj{"steps": []obj{{"text": "done"}}}), Cron: "@yearly", Timezone: "UTC", Enabled: true,
		Overlap: schedule.OverlapSkip, CatchupWindowS: 3600, PauseAfter: 5,
	}
	change(&spec)
	task, err := s.tasks.Create(s.t.Context(), s.caller.User.ID, spec)
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		_ = s.tasks.Delete(context.Background(), s.caller.User.ID, task.ID)
		_ = s.tasks.Sync(context.Background(), task.ID)
	})

	return task
}

// record waits for the newest record of a task that has ended.
func (s *timetable) record(taskID string) (run schedule.Run) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		runs, err := s.tasks.History(s.t.Context(), s.caller.User.ID, taskID, 0, 1)
		require.NoError(s.t, err)

		if len(runs) == 1 && runs[0].Status != domain.RunRunning {
			run = runs[0]
		}

		return run.ID != ""
	}, patience, 50*time.Millisecond, "no run has ended")

	return run
}

// backdate makes the next tick of a task one that was due some time ago.
func (s *timetable) backdate(taskID string, age time.Duration) {
	s.t.Helper()
	_, err := s.journal.Pool.Exec(s.t.Context(), `
		UPDATE scheduled_tasks SET next_run_at = now() - $2::interval, next_fire_at = now() - $2::interval WHERE id = $1`, taskID, age)
	require.NoError(s.t, err)
}

// scheduled waits until Temporal has the schedule of a task: it is made behind the answer,
// and Sync does nothing while that is under way.
func (s *timetable) scheduled(taskID string) client.ScheduleHandle {
	s.t.Helper()

	handle := s.client.ScheduleClient().GetHandle(s.t.Context(), durable.ScheduleID(taskID))
	s.describe(handle, func(*client.ScheduleDescription) bool { return true })

	return handle
}

// describe waits until a schedule shows something: Temporal notes what it does a moment
// after it has done it.
func (s *timetable) describe(schedule client.ScheduleHandle, shows func(*client.ScheduleDescription) bool) *client.ScheduleDescription {
	s.t.Helper()

	var described *client.ScheduleDescription

	require.Eventually(s.t, func() bool {
		var err error

		described, err = schedule.Describe(s.t.Context())

		return err == nil && shows(described)
	}, patience, 50*time.Millisecond)

	return described
}

func TestScheduledTask_ticksByItsSchedule(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(*schedule.TaskSpec) {})
	handle := s.scheduled(task.ID)
	described := s.describe(handle, func(d *client.ScheduleDescription) bool { return len(d.Info.NextActionTimes) > 0 })
	require.Equal(t, *task.NextRunAt, described.Info.NextActionTimes[0].UTC())
	require.False(t, described.Schedule.State.Paused)

	// A tick that was due a minute and a half ago is caught up by the reconciler.
	s.backdate(task.ID, 90*time.Second)
	require.NoError(t, s.repair.Repair(t.Context()))
	run := s.record(task.ID)
	require.Equal(t, schedule.TickCaughtUp, run.Outcome)
	require.Equal(t, domain.RunCompleted, run.Status)
	require.GreaterOrEqual(t, run.DriftMS, int64(90_000))
	s.replayRun("scheduled_run", durable.ScheduledRunWorkflowID(run.ID))

	_, err := s.tasks.SetEnabled(t.Context(), s.caller.User.ID, task.ID, false)
	require.NoError(t, err)
	require.NoError(t, s.repair.Repair(t.Context()))
	s.describe(handle, func(d *client.ScheduleDescription) bool { return d.Schedule.State.Paused })
}

func TestScheduledTask_tickIsAWorkflow(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) { spec.Persistent = true })
	handle := s.scheduled(task.ID)

	s.backdate(task.ID, 2*time.Second)
	require.NoError(t, handle.Trigger(t.Context(), client.ScheduleTriggerOptions{}))

	run := s.record(task.ID)
	require.Equal(t, schedule.TickFired, run.Outcome)
	require.Equal(t, domain.RunCompleted, run.Status)
	s.requireClass(domain.ClassChat, *run.SessionID) // the task keeps it

	described := s.describe(handle, func(d *client.ScheduleDescription) bool { return len(d.Info.RecentActions) > 0 })
	s.replayRun("schedule_tick", described.Info.RecentActions[0].StartWorkflowResult.WorkflowID)

	// Another wake-up finds nothing to do.
	more, err := s.tasks.Tick(t.Context(), task.ID)
	require.NoError(t, err)
	require.False(t, more)
	runs, err := s.tasks.History(t.Context(), s.caller.User.ID, task.ID, 0, 10)
	require.NoError(t, err)
	require.Len(t, runs, 1)
}

func TestScheduledTask_checksItsOutcome(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) {
		spec.Commands = []string{"echo checked; test -z \"$MISSING\"", "echo broken >&2; exit 3"}
		spec.Files = []string{"report/*.md"}
	})
	run, err := s.tasks.RunNow(t.Context(), s.caller.User.ID, task.ID)
	require.NoError(t, err)

	run = s.record(task.ID)
	s.requireClass(domain.ClassSchedule, *run.SessionID)
	require.Equal(
		t,
		[]any{domain.RunFailed, schedule.ReasonRunNow, schedule.ReasonOutcomeNotMet},
		[]any{run.Status, *run.ReasonCode, *run.ErrorCode},
	)
	require.Equal(
		t,
		`the outcome contract is not met: command "echo broken >&2; exit 3": exit code 3; file "report/*.md": no file matches`,
		*run.Error,
	)
	require.Len(t, run.Checks, 3)
	require.Equal(t, []any{true, "checked\n", 0}, []any{run.Checks[0].Met, run.Checks[0].Output, *run.Checks[0].ExitCode})
	require.Equal(t, []any{false, "broken\n", 3}, []any{run.Checks[1].Met, run.Checks[1].Output, *run.Checks[1].ExitCode})
	s.replayRun("scheduled_run_checked", durable.ScheduledRunWorkflowID(run.ID))
}

// The session of a persistent task takes messages of its owner too. Their chat goes on when
// a run behind it is stopped for the next one.
func TestScheduledTask_stopOfARunLeavesTheOwnersChat(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) { spec.Persistent, spec.Overlap = true, schedule.OverlapCancelOther })
	session := s.ranOnce(task.ID)
	own := s.send(session, script(obj{"steps": []obj{{"calls": []obj{bash(untilGo)}}, {"text": "mine"}}}))
	s.awaitFile("runs")

	var runs []schedule.Run

	for range 2 {
		s.runNow(task.ID)

		// The first is queued, and then stopped for the second.
		require.Eventually(t, func() bool {
			var err error

			runs, err = s.tasks.History(t.Context(), s.caller.User.ID, task.ID, 0, 1)
			require.NoError(t, err)
			live, err := s.journal.Live(t.Context(), session)
			require.NoError(t, err)

			return runs[0].SessionID != nil && len(live.Queue) == 1
		}, patience, 50*time.Millisecond)
	}

	s.write("go")
	require.Equal(t, "completed", s.awaitEnd(session, own.ChatID)["finish_reason"])
	require.Equal(t, domain.RunCompleted, s.record(task.ID).Status)
}

// ranOnce runs a persistent task, and returns the session of its runs.
func (s *timetable) ranOnce(taskID string) domain.SessionID {
	s.t.Helper()
	s.runNow(taskID)

	return *s.record(taskID).SessionID
}

func (s *timetable) runNow(taskID string) {
	s.t.Helper()
	_, err := s.tasks.RunNow(s.t.Context(), s.caller.User.ID, taskID)
	require.NoError(s.t, err)
}

// A run does not come instead of the answer to a question of the owner's chat: it begins
// when that chat has ended.
func TestScheduledTask_runWaitsBehindTheOwnersQuestion(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) { spec.Persistent = true })
	session := s.ranOnce(task.ID)
	own := s.send(session, script(obj{"steps": []obj{{"calls": []obj{ask()}}, {"text": "mine"}}}))
	s.asked(session, 1)
	s.awaitEnds(session, own.ChatID, 1)

	s.runNow(task.ID)
	require.Eventually(t, func() bool {
		live, err := s.journal.Live(t.Context(), session)
		require.NoError(t, err)

		return len(live.Queue) == 1 && len(live.Questions) == 1
	}, patience, 50*time.Millisecond)

	s.answer(session, 0)
	s.awaitEnds(session, own.ChatID, 2)
	require.Equal(t, domain.RunCompleted, s.record(task.ID).Status)

	turns := s.messages(session)
	require.Equal(t, "mine", turns[len(turns)-3].Blocks[0].Content, "before the run's message and its answer")
}
