package systemtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"everloop/activities/background"
	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/service/board"
	"everloop/service/schedules"
	targetservice "everloop/service/targets"
	"everloop/worker"
)

// timetable is a stack with scheduled tasks.
type timetable struct {
	*works
	issues  *board.Service
	targets *targetservice.Service
	tasks   *schedules.Service
}

func newTimetable(t *testing.T) *timetable {
	t.Helper()
	s := &timetable{works: newWorks(t)}
	runs := temporal.Runs{Client: s.client, Queue: s.queue, Namespace: s.stack.runs.Namespace}
	s.issues = s.newBoard(runs)
	s.targets = targetservice.New(targetservice.Deps{Chats: s.chats, Agents: s.agents, DAGs: s.works.runs, Board: s.issues})

	var err error

	s.tasks, err = schedules.New(
		schedules.Config{
			Store:   s.journal,
			Engine:  runs,
			Chats:   s.chats,
			Models:  s.acts.Model.Models,
			Agents:  s.agents,
			Targets: s.targets,
			Network: domain.NetworkRules,
			Logger:  s.logger,
		},
	)
	require.NoError(t, err)
	worker.RegisterSchedules(s.worker, &background.Schedules{Tasks: s.tasks, Outcomes: &background.Outcomes{
		Sandbox:    s.runner.Sandbox,
		Workspaces: s.runner.Workspaces,
		Root:       s.runner.Root,
		Env:        s.runner.Env,
		Logger:     s.logger,
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
	s.t.Cleanup(func() { _ = s.tasks.Delete(context.Background(), s.caller.User.ID, task.ID) })

	return task
}

func (s *timetable) handle(taskID string) client.ScheduleHandle {
	return s.client.ScheduleClient().GetHandle(s.t.Context(), durable.ScheduleID(taskID))
}

// records are those of a task, the newest first.
func (s *timetable) records(taskID string) []schedule.Run {
	s.t.Helper()
	runs, err := s.tasks.History(s.t.Context(), s.caller.User.ID, taskID, 0, 1000)
	require.NoError(s.t, err)

	return runs
}

// record waits for the newest record of a task that has ended.
func (s *timetable) record(taskID string) (run schedule.Run) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		if runs := s.records(taskID); len(runs) > 0 && runs[0].Status != domain.RunRunning {
			run = runs[0]
		}

		return run.ID != ""
	}, patience, 50*time.Millisecond, "no run has ended")

	return run
}

// ended waits until a task has n records, all of which have ended, and returns the oldest first.
func (s *timetable) ended(taskID string, n int) (runs []schedule.Run) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		runs = s.records(taskID)
		slices.Reverse(runs)

		return len(runs) == n && !slices.ContainsFunc(runs, func(r schedule.Run) bool { return r.Status == domain.RunRunning })
	}, patience, 50*time.Millisecond, "not all runs have ended")

	return runs
}

// shown waits until the row of a task shows something; the job that follows Schedules works next to.
func (s *timetable) shown(taskID string, shows func(schedule.Task) bool) (task schedule.Task) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		if s.tasks.Reconcile(s.t.Context()) != nil { // Temporal bounds queries: the job repeats it, too
			return false
		}

		var err error

		task, err = s.journal.ScheduledTask(s.t.Context(), s.caller.User.ID, taskID) // not through the service, which asks Temporal

		return err == nil && shows(task)
	}, patience, 50*time.Millisecond)

	return task
}

func (s *timetable) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.journal.Pool.Exec(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
}

// The sessions of a task have what it sets up, and its message says the time of the tick.
func TestScheduledTask_setup(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	mode := domain.ModePlanning
	task := s.create(func(spec *schedule.TaskSpec) {
		spec.Prompt = "{{task.title}} of {{input.product}} at {{tick.time}} since {{tick.previous}}" + spec.Prompt
		spec.Setup = schedule.Setup{
			Mode: &mode, Skills: []string{"notes"}, EnvBuckets: []string{"reports"}, Network: domain.NetworkNone, MemoryEnabled: true,
			Permissions: []schedule.PermissionRule{{Tool: "Write", Decision: domain.PermissionDeny}},
			Inputs:      map[string]string{"product": "Atlas"},
		}
	})
	s.runNow(task.ID)
	run := s.record(task.ID)
	session, err := s.journal.OwnSession(t.Context(), s.caller.User, *run.SessionID)
	require.NoError(t, err)
	require.Equal(t, []any{domain.ModePlanning, true}, []any{session.Mode, session.MemoryEnabled})
	require.Equal(t, []any{[]string{"notes"}, []string{"reports"}, domain.NetworkNone, task.Rules()},
		[]any{session.Setup.Skills, session.Setup.EnvBuckets, session.Setup.Network, session.Setup.Permissions})

	said := s.messages(*run.SessionID)[0].Blocks[0].Content
	year := time.Now().UTC().Format("2006") + "-01-01T00:00:00Z"
	require.Contains(t, said, "t of Atlas at "+run.ScheduledFor.UTC().Format(time.RFC3339)+" since "+year)
}

func TestScheduledTask_isASchedule(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) {
		spec.Cron, spec.Timezone, spec.JitterS, spec.Overlap = "30 2 * * 1-5", "Europe/Berlin", 30, schedule.OverlapBufferAll
		spec.ExpiresAt = new(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC))
	})
	d, err := s.handle(task.ID).Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Europe/Berlin", d.Schedule.Spec.TimeZoneName)
	require.Equal(t, 30*time.Second, d.Schedule.Spec.Jitter)
	require.Equal(t, time.Hour, d.Schedule.Policy.CatchupWindow)
	require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL, d.Schedule.Policy.Overlap)
	require.True(t, d.Schedule.Spec.EndAt.Before(*task.ExpiresAt))
	require.WithinRange(t, d.Info.NextActionTimes[0], *task.NextRunAt, task.NextRunAt.Add(30*time.Second))
	require.False(t, d.Schedule.State.Paused)

	_, err = s.tasks.SetEnabled(t.Context(), s.caller.User.ID, task.ID, false)
	require.NoError(t, err)
	d, err = s.handle(task.ID).Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{true, "stopped by its owner"}, []any{d.Schedule.State.Paused, d.Schedule.State.Note})

	require.NoError(t, s.tasks.Delete(t.Context(), s.caller.User.ID, task.ID))
	_, err = s.handle(task.ID).Describe(t.Context())
	require.ErrorContains(t, err, "not found")
}

func TestScheduledTask_changesInTemporal(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) { spec.Cron, spec.Timezone = "30 2 * * *", "Europe/Berlin" })
	handle := s.handle(task.ID)

	require.NoError(t, handle.Pause(t.Context(), client.SchedulePauseOptions{Note: "release freeze"}))
	paused := s.shown(task.ID, func(task schedule.Task) bool { return !task.Enabled })
	require.Equal(t, "paused in Temporal: release freeze", *paused.PausedReason)
	require.Nil(t, paused.NextRunAt)

	require.NoError(t, handle.Unpause(t.Context(), client.ScheduleUnpauseOptions{}))
	on := s.shown(task.ID, func(task schedule.Task) bool { return task.Enabled })
	require.Nil(t, on.PausedReason)
	require.NotNil(t, on.NextRunAt)

	edit := func(change func(*client.Schedule)) {
		require.NoError(t, handle.Update(t.Context(), client.ScheduleUpdateOptions{
			DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
				change(&in.Description.Schedule)
				return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
			},
		}))
	}
	edit(func(s *client.Schedule) {
		s.Spec = &client.ScheduleSpec{CronExpressions: []string{"15 6 * * MON-FRI"}, TimeZoneName: "Asia/Tokyo", Jitter: time.Minute}
		s.Policy.Overlap = enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE
	})
	edited := s.shown(task.ID, func(task schedule.Task) bool { return task.Timezone == "Asia/Tokyo" })
	require.Equal(t, []any{"15 6 * * 1-5", 60, schedule.OverlapBufferOne}, []any{edited.Cron, edited.JitterS, edited.Overlap})

	// Times that no cron expression names stay as they are, also after a change of the API.
	edit(func(s *client.Schedule) {
		s.Spec = &client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: 7 * time.Hour}}}
	})
	custom := s.shown(task.ID, func(task schedule.Task) bool { return task.Timezone == "UTC" })
	require.Zero(t, custom.NextRunAt.Unix()%int64(7*time.Hour/time.Second))
	require.Empty(t, custom.CronText)
	from := custom.NextRunAt.Add(-time.Second)
	entries, err := s.tasks.Calendar(t.Context(), s.caller.User.ID, from, from.Add(8*time.Hour))
	require.NoError(t, err)
	require.Len(t, entries[0].Occurrences, 2)
	_, err = s.tasks.Change(t.Context(), s.caller.User.ID, task.ID, func(spec *schedule.TaskSpec) { spec.CatchupWindowS = 60 })
	require.NoError(t, err)
	d, err := handle.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7*time.Hour, d.Schedule.Spec.Intervals[0].Every)
	require.Equal(t, time.Minute, d.Schedule.Policy.CatchupWindow)

	require.NoError(t, handle.Delete(t.Context()))
	s.exec(`UPDATE scheduled_tasks SET updated_at = now() - interval '1 minute' WHERE id = $1`, task.ID)
	require.Eventually(t, func() bool {
		require.NoError(t, s.tasks.Reconcile(t.Context()))
		_, err := s.journal.ScheduledTask(t.Context(), s.caller.User.ID, task.ID)

		return domain.HasCode(err, "scheduled_task_not_found")
	}, patience, 50*time.Millisecond)
}

func TestScheduledTask_triggerAndBackfillInTemporal(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) { spec.Cron, spec.Overlap = "0 3 * * *", schedule.OverlapBufferAll })
	handle := s.handle(task.ID)

	require.NoError(t, handle.Trigger(t.Context(), client.ScheduleTriggerOptions{}))
	byHand := s.ended(task.ID, 1)[0]
	require.Equal(t, []any{schedule.TickFired, domain.RunCompleted}, []any{byHand.Outcome, byHand.Status})
	require.Equal(t, schedule.ReasonRunNow, *byHand.ReasonCode)

	night := time.Now().UTC().Truncate(24 * time.Hour).Add(-45 * time.Hour)
	require.NoError(t, handle.Backfill(t.Context(), client.ScheduleBackfillOptions{
		Backfill: []client.ScheduleBackfill{{Start: night.Add(-time.Hour), End: night.Add(25 * time.Hour)}},
	}))
	runs := s.ended(task.ID, 3)
	for i, run := range runs[:2] {
		require.Equal(t, night.Add(time.Duration(i)*24*time.Hour), run.ScheduledFor.UTC())
		require.Equal(t, []any{schedule.ReasonBackfilled, domain.RunCompleted}, []any{*run.ReasonCode, run.Status})
	}

	// The same night again: one record, with the run that came last.
	require.NoError(t, handle.Backfill(t.Context(), client.ScheduleBackfillOptions{
		Backfill: []client.ScheduleBackfill{{Start: night.Add(-time.Hour), End: night.Add(time.Hour)}},
	}))
	require.Eventually(t, func() bool {
		again := s.ended(task.ID, 3)[0]
		return *again.SessionID != *runs[0].SessionID && again.Status == domain.RunCompleted
	}, patience, 50*time.Millisecond)
}

func TestScheduledTask_backfill(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) { spec.Cron, spec.Enabled = "0 3 * * *", false })

	// From is included, to is not; the policy of the task, which skips, does not hold.
	night := time.Now().UTC().Truncate(24 * time.Hour).Add(-45 * time.Hour)
	count, err := s.tasks.Backfill(t.Context(), s.caller.User.ID, task.ID, night.Add(-24*time.Hour), night.Add(24*time.Hour))
	require.NoError(t, err)
	require.Equal(t, 2, count)

	runs := s.ended(task.ID, 2)
	for i, run := range runs {
		require.Equal(t, night.Add(time.Duration(i-1)*24*time.Hour), run.ScheduledFor.UTC())
		require.Equal(t, []any{schedule.ReasonBackfilled, domain.RunCompleted}, []any{*run.ReasonCode, run.Status})
	}

	count, err = s.tasks.Backfill(t.Context(), s.caller.User.ID, task.ID, night.Add(time.Minute), night.Add(time.Hour))
	require.NoError(t, err)
	require.Zero(t, count)
}

// A crash between the row and the Schedule: the row says what is wanted.
func TestScheduledTask_convergesAfterACrash(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(*schedule.TaskSpec) {})
	// What a process leaves that ends after the commit.
	s.exec(`UPDATE scheduled_tasks SET cron = '0 5 * * *', enabled = false, pending = 'x', push_until = NULL WHERE id = $1`, task.ID)
	require.NoError(t, s.handle(task.ID).Pause(t.Context(), client.SchedulePauseOptions{Note: "older"}))
	require.NoError(t, s.handle(task.ID).Unpause(t.Context(), client.ScheduleUnpauseOptions{}))
	s.shown(task.ID, func(task schedule.Task) bool { return !task.Enabled && task.Cron == "0 5 * * *" })
	d, err := s.handle(task.ID).Describe(t.Context())
	require.NoError(t, err)
	require.True(t, d.Schedule.State.Paused)
	require.Equal(t, 5, d.Schedule.Spec.Calendars[0].Hour[0].Start)

	// A run that was asked for, and no Schedule triggered.
	asked, err := s.journal.AskRun(t.Context(), s.caller.User.ID, task.ID)
	require.NoError(t, err)
	s.exec(`UPDATE scheduled_runs SET triggered_at = now() - interval '1 minute' WHERE id = $1`, asked.ID)
	require.NoError(t, s.tasks.Reconcile(t.Context()))
	require.Equal(t, []any{asked.ID, domain.RunCompleted}, []any{s.record(task.ID).ID, s.record(task.ID).Status})

	// Triggered twice: it runs once.
	s.exec(`UPDATE scheduled_runs SET asked = true WHERE id = $1`, asked.ID)
	require.NoError(t, s.tasks.Trigger(t.Context(), asked.ID))
	require.Equal(t, s.ended(task.ID, 1)[0].SessionID, s.record(task.ID).SessionID)

	// Temporal has lost the Schedule with its data.
	s.exec(`UPDATE scheduled_tasks SET pending = NULL, updated_at = now() - interval '1 minute' WHERE id = $1`, task.ID)
	require.NoError(t, s.journal.ForgetSchedule(t.Context(), task.ID))
	s.shown(task.ID, func(schedule.Task) bool { _, err := s.handle(task.ID).Describe(t.Context()); return err == nil })
}

// Ticks that started nothing have their record, each with its reason.
func TestScheduledTask_recordsTicksThatDidNotRun(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) { spec.Cron, spec.CatchupWindowS = "0 * * * *", 60 })
	hour := time.Now().UTC().Truncate(time.Hour)
	s.exec(`UPDATE scheduled_tasks SET recorded_until = $2 WHERE id = $1`, task.ID, hour.Add(-150*time.Minute))

	runs := s.ended(task.ID, 3)
	for i, run := range runs {
		require.Equal(t, hour.Add(time.Duration(i-2)*time.Hour), run.ScheduledFor.UTC())
	}

	require.Equal(t, []any{schedule.TickMissed, schedule.ReasonWindowOver}, []any{runs[0].Outcome, *runs[0].ReasonCode})

	_, err := s.tasks.SetEnabled(t.Context(), s.caller.User.ID, task.ID, false)
	require.NoError(t, err)
	s.exec(`UPDATE scheduled_tasks SET recorded_until = $2 WHERE id = $1`, task.ID, hour.Add(-210*time.Minute))

	_, err = s.tasks.SetEnabled(t.Context(), s.caller.User.ID, task.ID, true)
	require.NoError(t, err)
	runs = s.ended(task.ID, 4)
	require.Equal(t, []any{schedule.TickSkipped, schedule.ReasonPaused}, []any{runs[0].Outcome, *runs[0].ReasonCode})
}

func TestScheduledTask_overlapIsTemporals(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	held := func(name string) string {
		return script(obj{"steps": []obj{{"calls": []obj{bash("while [ ! -e " + name + " ]; do sleep 0.05; done")}}, {"text": "done"}}})
	}
	task := s.create(func(spec *schedule.TaskSpec) { spec.Prompt, spec.Persistent = held("go"), true })
	first := s.runNow(task.ID)
	require.Equal(t, domain.RunRunning, first.Status)
	require.Equal(t, []any{schedule.TickSkipped, schedule.ReasonPreviousActive}, reason(s.runNow(task.ID)))

	_, err := s.tasks.Change(
		t.Context(),
		s.caller.User.ID,
		task.ID,
		func(spec *schedule.TaskSpec) { spec.Overlap = schedule.OverlapBufferOne },
	)
	require.NoError(t, err)
	waits := s.runNow(task.ID)
	require.Equal(t, domain.RunRunning, waits.Status)
	require.Equal(t, []any{schedule.TickCoalesced, schedule.ReasonPreviousWaiting}, reason(s.runNow(task.ID)))

	_, err = s.tasks.Change(t.Context(), s.caller.User.ID, task.ID, func(spec *schedule.TaskSpec) {
		spec.Overlap, spec.Prompt = schedule.OverlapCancelOther, script(obj{"steps": []obj{{"text": "last"}}})
	})
	require.NoError(t, err)
	last := s.runNow(task.ID)

	runs := s.ended(task.ID, 5)
	for _, run := range runs {
		switch run.ID {
		case first.ID, waits.ID:
			require.Equal(t, []any{domain.RunFailed, domain.ReasonCancelled}, []any{run.Status, *run.ErrorCode})
		case last.ID:
			require.Equal(t, domain.RunCompleted, run.Status)
		}
	}
}

func reason(run schedule.Run) []any {
	if run.ReasonCode == nil {
		return []any{run.Outcome, nil}
	}

	return []any{run.Outcome, *run.ReasonCode}
}

// An operator cancels the workflow of a run: its chat is stopped, and its record says so.
func TestScheduledTask_cancelledInTemporal(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) {
		spec.Prompt = script(obj{"steps": []obj{{"calls": []obj{bash(untilGo)}}, {"text": "done"}}})
	})
	run := s.runNow(task.ID)
	s.awaitFile("runs")
	require.NoError(t, s.client.CancelWorkflow(t.Context(), durable.ScheduledRunWorkflowID(run.ID), ""))
	over := s.record(task.ID)
	require.Equal(t, []any{run.ID, domain.RunFailed, "cancelled"}, []any{over.ID, over.Status, *over.ErrorCode})
	s.replayRun("scheduled_run_cancelled", durable.ScheduledRunWorkflowID(run.ID))
}

func TestScheduledTask_checksItsOutcome(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.create(func(spec *schedule.TaskSpec) {
		spec.Commands = []string{"echo checked; test -z \"$MISSING\"", "echo broken >&2; exit 3"}
		spec.Files = []string{"report/*.md"}
	})
	s.runNow(task.ID)

	run := s.record(task.ID)
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

// The session of a persistent task takes messages of its owner too. Their chat continues when
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

func (s *timetable) runNow(taskID string) schedule.Run {
	s.t.Helper()
	run, err := s.tasks.RunNow(s.t.Context(), s.caller.User.ID, taskID)
	require.NoError(s.t, err)

	return run
}

// A run does not come instead of the answer to a question of the owner's chat: it starts
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
