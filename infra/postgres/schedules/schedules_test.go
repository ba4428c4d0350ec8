package schedules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/domain/webhook"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/service/webhooks"
)

// timetable is a database with one user.
type timetable struct {
	t     *testing.T
	db    *postgres.DB
	owner string
}

func newTimetable(t *testing.T) timetable {
	t.Helper()
	db := pgtest.Open(t)

	return timetable{t, db, pgtest.User(t, db, "ann", false).ID}
}

func (s timetable) task(change func(*schedule.TaskSpec)) schedule.Task {
	s.t.Helper()

	spec := schedule.TaskSpec{
		Title: "t", Prompt: "p", Cron: "* * * * *", Timezone: "UTC", Enabled: true, Overlap: schedule.OverlapSkip,
		CatchupWindowS: 3600, PauseAfter: 2,
	}
	if change != nil {
		change(&spec)
	}

	task, err := s.db.CreateScheduledTask(s.t.Context(), s.owner, spec)
	require.NoError(s.t, err)

	return task
}

// due makes the last whole minutes due.
func (s timetable) due(taskID string, minutes int) {
	s.t.Helper()
	_, err := s.db.Pool.Exec(s.t.Context(), `
		UPDATE scheduled_tasks SET next_run_at = date_trunc('minute', now()) - make_interval(mins => $2 - 1)
		    WHERE id = $1`, taskID, minutes)
	require.NoError(s.t, err)
}

func (s timetable) take(taskID string) schedule.TickPlan {
	s.t.Helper()
	plan, err := s.db.TakeTicks(s.t.Context(), taskID)
	require.NoError(s.t, err)

	return plan
}

// outcomes are those of the records, the oldest first, with what they say.
func (s timetable) outcomes(taskID string) (all []string) {
	s.t.Helper()
	runs, err := s.db.ScheduledRuns(s.t.Context(), s.owner, taskID, 0, 1000)
	require.NoError(s.t, err)

	for i := len(runs) - 1; i >= 0; i-- {
		text := string(runs[i].Outcome) + " " + string(runs[i].Status)
		if runs[i].ReasonCode != nil {
			text += " " + *runs[i].ReasonCode
		}

		if code := runs[i].ErrorCode; code != nil && *code != *runs[i].ReasonCode {
			text += " " + *code
		}

		all = append(all, text)
	}

	return all
}

// chat gives a run that was started a session and a chat that ended so; an empty reason
// leaves it running.
func (s timetable) chat(runID string, reason domain.FinishReason) domain.RunChat {
	s.t.Helper()
	ctx := s.t.Context()
	claimed, _, err := s.db.ClaimRun(ctx, runID)
	require.NoError(s.t, err)
	require.False(s.t, claimed.Ended)
	again, _, err := s.db.ClaimRun(ctx, runID)
	require.NoError(s.t, err)
	require.Equal(s.t, claimed.SessionID, again.SessionID, "a run keeps its session")
	require.NoError(s.t, s.db.EnsureSession(ctx, s.owner, domain.NewSession{ID: claimed.SessionID}))
	require.NoError(s.t, s.db.EnsureSession(ctx, s.owner, domain.NewSession{ID: claimed.SessionID}))

	chatID, state := domain.NewID(), "ended"
	if reason == "" {
		state = "running"
	}

	_, err = s.db.Pool.Exec(ctx, `
		INSERT INTO chats (id, session_id, branch_id, trigger, mode, state, finish_reason, ended_at, input_tokens, waiter)
		SELECT $1, id, active_branch_id, 'schedule', 'executing', $3, nullif($4, ''), now(), 7, 'waiter' FROM sessions WHERE id = $2`,
		chatID, claimed.SessionID, state, reason)
	require.NoError(s.t, err)
	_, err = s.db.RunBegan(ctx, runID, domain.ChatID(chatID))
	require.NoError(s.t, err)

	return domain.RunChat{OwnerID: s.owner, SessionID: claimed.SessionID, ChatID: domain.ChatID(chatID)}
}

func (s timetable) end(runID string) (bool, schedule.TickPlan) {
	s.t.Helper()
	next, plan, err := s.db.EndRun(s.t.Context(), runID)
	require.NoError(s.t, err)

	return next == schedule.RunOver, plan
}

func TestTakeTicks_eachOnce(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.Overlap = schedule.OverlapAllowAll })
	s.due(task.ID, 5)

	var together sync.WaitGroup
	for range 8 {
		together.Go(func() { s.take(task.ID) })
	}

	together.Wait()

	all := s.outcomes(task.ID)
	require.GreaterOrEqual(t, len(all), 5)
	require.LessOrEqual(t, len(all), 6, "a minute may have passed")
	require.Equal(t, "caught_up running service_was_late", all[0])
}

func TestTakeTicks_closedAccount(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.Overlap = schedule.OverlapAllowAll })
	set := func(disabled string) {
		_, err := s.db.Pool.Exec(t.Context(), `UPDATE users SET disabled_at = `+disabled+` WHERE id = $1`, s.owner)
		require.NoError(t, err)
	}

	set("now()")
	s.due(task.ID, 3)
	require.Empty(t, s.take(task.ID).Start)
	require.Equal(t, "blocked failed account_closed", s.outcomes(task.ID)[0])

	set("NULL")

	_, err := s.db.Pool.Exec(t.Context(), `DELETE FROM scheduled_runs`)
	require.NoError(t, err)
	s.due(task.ID, 1)
	require.NotEmpty(t, s.take(task.ID).Start, "the task was paused only")
}

func TestTakeTicks_missed(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.CatchupWindowS = 180 })
	s.due(task.ID, 250)
	plan := s.take(task.ID)
	require.True(t, plan.More, "one transaction takes 200")
	require.Empty(t, plan.Start)
	require.Len(t, s.outcomes(task.ID), 200)
	plan = s.take(task.ID)
	require.False(t, plan.More)
	require.Len(t, plan.Start, 1)

	all := s.outcomes(task.ID)
	require.Equal(t, "missed failed catchup_window_over", all[0])
	require.Contains(t, all, "caught_up running service_was_late")
	require.Equal(t, "skipped failed previous_run_active", all[len(all)-1])
}

// Ticks that did not run are one event of each transaction that finds them, and the end
// of a run that disables its task is two.
// The jitter of a tick is planned: only what comes on top of it is drift.
func TestTakeTicks_driftCountsFromTheJitteredTime(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.JitterS = 3600 })
	s.due(task.ID, 300)
	s.take(task.ID)

	runs, err := s.db.ScheduledRuns(t.Context(), s.owner, task.ID, 0, 1000)
	require.NoError(t, err)

	jittered := 0

	for _, run := range runs {
		due := schedule.FireAt(task.ID, run.ScheduledFor, task.JitterS)
		if due.After(run.ScheduledFor) {
			jittered++
		}

		require.InDelta(t, run.TriggeredAt.Sub(due).Milliseconds(), run.DriftMS, 1)
	}

	require.Greater(t, jittered, 100)

	_, err = s.db.ChangeScheduledTask(t.Context(), s.owner, task.ID, func(task *schedule.Task) error {
		task.JitterS = 0
		return nil
	})
	require.NoError(t, err)
	again, err := s.db.ScheduledRuns(t.Context(), s.owner, task.ID, 0, 1000)
	require.NoError(t, err)
	require.Equal(t, runs, again, "a later jitter changes no record")
}

func TestScheduledTasks_notifyWebhooks(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	hook, err := webhooks.NewStore(s.db.DB).CreateWebhook(t.Context(), s.owner, domain.NewID(), webhook.Spec{
		URL: "https://hooks.example.org/", Events: []webhook.Event{}, Enabled: true,
	}, []byte("sealed"))
	require.NoError(t, err)

	events := func() (list []string) {
		page, _, err := webhooks.NewStore(s.db.DB).WebhookDeliveries(t.Context(), s.owner, hook.ID, "", "", 0, 10)
		require.NoError(t, err)

		for _, d := range page {
			var body struct {
				Data struct {
					Total int
					Runs  []schedule.Run
				}
			}
			require.NoError(t, json.Unmarshal(d.Request, &body))
			list = append(list, fmt.Sprintf("%s %d %d", d.Event, body.Data.Total, len(body.Data.Runs)))
		}

		return list
	}
	task := s.task(func(spec *schedule.TaskSpec) {
		spec.CatchupWindowS, spec.PauseAfter, spec.Notify = 0, 1, []string{hook.ID}
	})
	s.task(nil)
	s.due(task.ID, 100)
	plan := s.take(task.ID)
	require.Len(t, plan.Start, 1)

	missed := events()
	require.Len(t, missed, 1)
	require.Regexp(t, `^schedule.run_missed (98|99|100) 20$`, missed[0])

	s.chat(plan.Start[0], domain.FinishFailed)
	s.end(plan.Start[0])
	require.ElementsMatch(t, []string{missed[0], "schedule.run_failed 1 1", "schedule.paused 1 1"}, events())
}

func TestRunNow_overlap(t *testing.T) {
	t.Parallel()

	for overlap, want := range map[schedule.Overlap][]string{
		schedule.OverlapSkip:        {"fired running run_now", "skipped failed previous_run_active", "skipped failed previous_run_active"},
		schedule.OverlapBufferOne:   {"fired running run_now", "fired running run_now", "coalesced failed previous_run_waiting"},
		schedule.OverlapBufferAll:   {"fired running run_now", "fired running run_now", "fired running run_now"},
		schedule.OverlapAllowAll:    {"fired running run_now", "fired running run_now", "fired running run_now"},
		schedule.OverlapCancelOther: {"fired running run_now", "fired running run_now", "fired running run_now"},
	} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			s := newTimetable(t)
			task := s.task(func(spec *schedule.TaskSpec) { spec.Overlap, spec.Cron = overlap, "@yearly" })

			var started []string

			for range 3 {
				plan, err := s.db.RunNow(t.Context(), s.owner, task.ID)
				require.NoError(t, err)

				started = append(started, plan.Start...)
			}

			require.Equal(t, want, s.outcomes(task.ID))

			if overlap == schedule.OverlapCancelOther {
				claimed, _, err := s.db.ClaimRun(t.Context(), started[0])
				require.NoError(t, err)
				require.True(t, claimed.Ended, "it was cancelled before it began")
				require.Equal(t, "fired failed run_now cancelled_by_next_run", s.outcomes(task.ID)[0])
			}

			if overlap == schedule.OverlapBufferAll {
				s.chat(started[0], domain.FinishCompleted)
				ended, plan := s.end(started[0])
				require.True(t, ended)
				require.Len(t, plan.Start, 1, "the next one begins")
			}
		})
	}
}

func TestEndRun(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.Cron = "@yearly" })
	run := func(reason domain.FinishReason) schedule.TickPlan {
		plan, err := s.db.RunNow(t.Context(), s.owner, task.ID)
		require.NoError(t, err)
		s.chat(plan.Start[0], reason)
		ended, plan := s.end(plan.Run.ID)
		require.True(t, ended)

		return plan
	}
	run(domain.FinishFailed)
	run(domain.FinishInterrupted) // by its user: it does not count
	run(domain.FinishCompleted)
	run(domain.FinishMaxSteps)
	require.True(t, run(domain.FinishSchemaMismatch).Sync)
	paused, err := s.db.ScheduledTask(t.Context(), s.owner, task.ID)
	require.NoError(t, err)
	require.False(t, paused.Enabled)
	require.Nil(t, paused.NextRunAt)
	require.Equal(t, "2 runs in a row failed, the last one: the chat ended as schema_mismatch", *paused.PausedReason)
	runs, err := s.db.ScheduledRuns(t.Context(), s.owner, task.ID, 0, 1)
	require.NoError(t, err)
	require.Equal(t, domain.Usage{InputTokens: 7}, runs[0].Usage)

	waiters, err := s.db.ChatWaiters(t.Context(), 0, "", 10)
	require.NoError(t, err)
	require.Len(t, waiters, 5)
	require.NoError(t, s.db.WaiterNotified(t.Context(), waiters[0].ChatID))
	waiters, err = s.db.ChatWaiters(t.Context(), 0, "", 10)
	require.NoError(t, err)
	require.Len(t, waiters, 4)
}

func TestEndChecks(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) {
		spec.Cron, spec.Files, spec.Commands = "@yearly", []string{"*.md"}, []string{"true"}
	})
	begin := func(reason domain.FinishReason) string {
		plan, err := s.db.RunNow(t.Context(), s.owner, task.ID)
		require.NoError(t, err)
		s.chat(plan.Run.ID, reason)
		next, _, err := s.db.EndRun(t.Context(), plan.Run.ID)
		require.NoError(t, err)

		if reason != domain.FinishCompleted {
			require.Equal(t, schedule.RunOver, next, "a chat that failed is not checked")
			return plan.Run.ID
		}

		require.Equal(t, schedule.RunChecks, next)
		run, found, err := s.db.RunToCheck(t.Context(), plan.Run.ID)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, []any{[]string{"*.md"}, []string{"true"}, false}, []any{run.Files, run.Commands, run.Cancelled})
		require.Equal(t, s.owner, run.Session.OwnerID)

		return plan.Run.ID
	}
	end := func(runID string, checks ...schedule.RunCheck) schedule.Run {
		_, err := s.db.EndChecks(t.Context(), runID, checks)
		require.NoError(t, err)
		_, found, err := s.db.RunToCheck(t.Context(), runID)
		require.NoError(t, err)
		require.False(t, found)
		runs, err := s.db.ScheduledRuns(t.Context(), s.owner, task.ID, 0, 1)
		require.NoError(t, err)

		return runs[0]
	}

	begin(domain.FinishFailed)

	met := schedule.RunCheck{Kind: schedule.CheckFile, Subject: "*.md", Met: true}
	run := end(begin(domain.FinishCompleted), met)
	require.Equal(t, []any{domain.RunCompleted, []schedule.RunCheck{met}}, []any{run.Status, run.Checks})

	missing := schedule.RunCheck{Kind: schedule.CheckFile, Subject: "*.md", Reason: "no file matches"}
	run = end(begin(domain.FinishCompleted), missing)
	require.Equal(t, []any{domain.RunFailed, schedule.ReasonOutcomeNotMet}, []any{run.Status, *run.ErrorCode})
	require.Equal(t, schedule.ReasonRunNow, *run.ReasonCode, "its failure does not hide that it was asked for")
	require.Equal(t, `the outcome contract is not met: file "*.md": no file matches`, *run.Error)

	id := begin(domain.FinishCompleted)
	_, err := s.db.Pool.Exec(t.Context(), `UPDATE scheduled_runs SET cancel_requested = true WHERE id = $1`, id)
	require.NoError(t, err)
	require.Equal(t, domain.ReasonCancelled, *end(id).ErrorCode, "it was cancelled while it was checked")

	id = begin(domain.FinishCompleted)
	_, err = s.db.Pool.Exec(t.Context(), `UPDATE sessions SET deleted_at = now()`)
	require.NoError(t, err)
	gone, found, err := s.db.RunToCheck(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []bool{true, true}, []bool{found, gone.Cancelled})
	require.Equal(t, schedule.ReasonSessionDeleted, *end(id, met).ErrorCode)
}

func TestEndRun_chatGoesOnOrIsGone(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.Cron = "@yearly" })
	plan, err := s.db.RunNow(t.Context(), s.owner, task.ID)
	require.NoError(t, err)
	s.chat(plan.Run.ID, "")
	ended, _ := s.end(plan.Run.ID)
	require.False(t, ended)
	_, err = s.db.Pool.Exec(t.Context(), `UPDATE scheduled_runs SET chat_id = 'gone' WHERE id = $1`, plan.Run.ID)
	require.NoError(t, err)

	ended, _ = s.end(plan.Run.ID)
	require.True(t, ended)
	require.Equal(t, []string{"fired failed run_now session_deleted"}, s.outcomes(task.ID))
}

// The session of a persistent task has other chats too: what is stopped is named by its chat.
func TestRunNow_cancelOtherNamesTheChat(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) {
		spec.Cron, spec.Persistent, spec.Overlap = "@yearly", true, schedule.OverlapCancelOther
	})
	first, err := s.db.RunNow(t.Context(), s.owner, task.ID)
	require.NoError(t, err)

	want := []domain.RunChat{s.chat(first.Run.ID, "")}
	second, err := s.db.RunNow(t.Context(), s.owner, task.ID)
	require.NoError(t, err)
	require.Equal(t, want, second.Stop)

	repeated, err := s.db.CancelledRuns(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, repeated)
}

func TestClaimRun_persistent(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.Cron, spec.Persistent = "@yearly", true })
	session := func() domain.SessionID {
		plan, err := s.db.RunNow(t.Context(), s.owner, task.ID)
		require.NoError(t, err)
		s.chat(plan.Run.ID, domain.FinishCompleted)
		s.end(plan.Run.ID)
		runs, err := s.db.ScheduledRuns(t.Context(), s.owner, task.ID, 0, 1)
		require.NoError(t, err)

		return *runs[0].SessionID
	}
	first := session()
	require.Equal(t, first, session())
	require.NoError(t, postgres.NewStore(s.db, nil, nil).DeleteSession(t.Context(), first))
	require.NotEqual(t, first, session())
}

func TestSyncSchedule(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(nil)

	var got schedule.Sync

	apply := func(_ context.Context, in schedule.Sync) error { got = in; return nil }
	stale := func() []string {
		ids, err := s.db.StaleSchedules(t.Context(), "", 10)
		require.NoError(t, err)

		return ids
	}
	require.Equal(t, []string{task.ID}, stale())

	away := errors.New("away")
	require.ErrorIs(t, s.db.SyncSchedule(t.Context(), task.ID, func(context.Context, schedule.Sync) error { return away }), away)
	require.Equal(t, []string{task.ID}, stale())
	require.NoError(t, s.db.SyncSchedule(t.Context(), task.ID, apply))
	require.Len(t, got.Times, 32)
	require.Equal(t, *task.NextRunAt, got.Times[0])
	require.Empty(t, stale())

	_, err := s.db.Pool.Exec(t.Context(), `UPDATE scheduled_tasks SET synced_until = now() + interval '5 minutes'`)
	require.NoError(t, err)
	s.due(task.ID, 1)
	require.True(t, s.take(task.ID).Sync, "few ticks are left in the engine")
	require.Equal(t, []string{task.ID}, stale())

	require.NoError(t, s.db.DeleteScheduledTask(t.Context(), s.owner, task.ID))
	require.Equal(t, []string{task.ID}, stale())
	_, err = s.db.ScheduledTask(t.Context(), s.owner, task.ID)
	require.True(t, domain.HasCode(err, "scheduled_task_not_found"))
}

// While Temporal hangs, an update of a schedule holds no transaction and no other process
// begins one; what was applied without the claim is applied again.
func TestSyncSchedule_holdsNoTransaction(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(nil)
	applied := 0

	require.NoError(t, s.db.SyncSchedule(t.Context(), task.ID, func(ctx context.Context, _ schedule.Sync) error {
		var open int

		require.NoError(t, s.db.Pool.QueryRow(ctx, `
			SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`).Scan(&open))
		require.Zero(t, open)

		applied++

		return s.db.SyncSchedule(ctx, task.ID, func(context.Context, schedule.Sync) error {
			applied++
			return nil
		})
	}))
	require.Equal(t, 1, applied)

	stale, err := s.db.StaleSchedules(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, stale)

	_, err = s.db.Pool.Exec(t.Context(), `UPDATE scheduled_tasks SET version = version + 1`)
	require.NoError(t, err)
	require.NoError(t, s.db.SyncSchedule(t.Context(), task.ID, func(ctx context.Context, _ schedule.Sync) error {
		_, err := s.db.Pool.Exec(ctx, `UPDATE scheduled_tasks SET sync_until = now() + interval '1 hour'`)
		return err
	}))

	stale, err = s.db.StaleSchedules(t.Context(), "", 10)
	require.NoError(t, err)
	require.Equal(t, []string{task.ID}, stale)
}

func TestScheduledTasks_ofOthers(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(nil)
	ben := pgtest.User(t, s.db, "ben", true).ID
	_, err := s.db.ScheduledTask(t.Context(), ben, task.ID)
	require.True(t, domain.HasCode(err, "scheduled_task_not_found"))
	_, err = s.db.RunNow(t.Context(), ben, task.ID)
	require.True(t, domain.HasCode(err, "scheduled_task_not_found"))
	_, err = s.db.ScheduledRuns(t.Context(), ben, task.ID, 0, 1)
	require.True(t, domain.HasCode(err, "scheduled_task_not_found"))
	require.True(t, domain.HasCode(s.db.DeleteScheduledTask(t.Context(), ben, task.ID), "scheduled_task_not_found"))

	require.NoError(t, s.db.DeleteUser(t.Context(), s.owner))
	s.due(task.ID, 3)
	require.Empty(t, s.take(task.ID).Start, "nothing works for a user who is gone")
}

// TestChangeScheduledTask_keepsWhatIsDue holds that only a change of when a task is due
// plans its ticks again: an overdue tick, or one that waits for its jitter, is not lost.
func TestChangeScheduledTask_keepsWhatIsDue(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		change func(*schedule.Task)
		kept   bool
	}{
		"title":    {func(task *schedule.Task) { task.Title = "other" }, true},
		"jitter":   {func(task *schedule.Task) { task.JitterS = 0 }, true},
		"cron":     {func(task *schedule.Task) { task.Cron = "*/2 * * * *" }, false},
		"timezone": {func(task *schedule.Task) { task.Timezone = "Europe/Berlin" }, false},
		"disabled": {func(task *schedule.Task) { task.Enabled = false }, false},
		"expiry": {func(task *schedule.Task) {
			end := time.Now().Add(24 * time.Hour)
			task.ExpiresAt = &end
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTimetable(t)
			task := s.task(func(spec *schedule.TaskSpec) { spec.JitterS = 3600 })
			s.due(task.ID, 300)

			before, err := s.db.ScheduledTask(t.Context(), s.owner, task.ID)
			require.NoError(t, err)
			changed, err := s.db.ChangeScheduledTask(t.Context(), s.owner, task.ID, func(task *schedule.Task) error {
				c.change(task)
				return nil
			})
			require.NoError(t, err)

			if !c.kept {
				require.NotEqual(t, before.NextRunAt, changed.NextRunAt)
				return
			}

			require.Equal(t, before.NextRunAt, changed.NextRunAt)

			var fire time.Time
			require.NoError(
				t,
				s.db.Pool.QueryRow(t.Context(), `SELECT next_fire_at FROM scheduled_tasks WHERE id = $1`, task.ID).Scan(&fire),
			)
			require.True(t, fire.Equal(schedule.FireAt(task.ID, *changed.NextRunAt, changed.JitterS)))

			s.take(task.ID)
			runs, err := s.db.ScheduledRuns(t.Context(), s.owner, task.ID, 0, 1000)
			require.NoError(t, err)
			require.NotEmpty(t, runs)
			require.True(t, runs[len(runs)-1].ScheduledFor.Equal(*before.NextRunAt))
		})
	}
}

// A tick that has a record is neither recorded nor run again, and ends no other run.
func TestTakeTicks_recordedAlready(t *testing.T) {
	t.Parallel()

	for _, overlap := range []schedule.Overlap{schedule.OverlapAllowAll, schedule.OverlapCancelOther, schedule.OverlapBufferAll} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			s := newTimetable(t)
			task := s.task(func(spec *schedule.TaskSpec) { spec.Overlap, spec.Cron = overlap, "@yearly" })

			again := func() {
				_, err := s.db.Pool.Exec(t.Context(), `
					UPDATE scheduled_tasks SET next_run_at = date_trunc('year', now()), catchup_window_s = 63244800 WHERE id = $1`, task.ID)
				require.NoError(t, err)
			}

			again()
			require.Len(t, s.take(task.ID).Start, 1)

			all := s.outcomes(task.ID)

			again()
			require.Empty(t, s.take(task.ID).Start)
			require.Equal(t, all, s.outcomes(task.ID))

			var cancelled int
			require.NoError(t, s.db.Pool.QueryRow(t.Context(), `
				SELECT count(*) FROM scheduled_runs WHERE task_id = $1 AND cancel_requested`, task.ID).Scan(&cancelled))
			require.Zero(t, cancelled)
		})
	}
}
