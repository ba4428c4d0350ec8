package schedules_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/domain/target"
	"everloop/domain/webhook"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/postgres/schedules"
	"everloop/service/accounts"
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

// ask records a run and has its workflow take it.
func (s timetable) ask(taskID string) schedule.Run {
	s.t.Helper()
	run, err := s.db.AskRun(s.t.Context(), s.owner, taskID)
	require.NoError(s.t, err)

	return run
}

// start returns the workflow run of a run.
func start(runID string) schedule.RunStart {
	return schedule.RunStart{RunID: runID, Execution: "execution", StartedAt: time.Now()}
}

// observe takes over what Temporal says of a task.
func (s timetable) observe(task schedule.Task, seen schedule.Observed) schedule.TickPlan {
	s.t.Helper()
	task, until, _, err := s.db.RecordedUntil(s.t.Context(), task.ID)
	require.NoError(s.t, err)
	ticks, err := schedules.Ticks(task, until, time.Now())
	require.NoError(s.t, err)
	plan, err := s.db.Observe(s.t.Context(), task.ID, seen, time.Now().Add(time.Second), ticks)
	require.NoError(s.t, err)

	return plan
}

// synced has all changes of a task in its Schedule, and its ticks recorded until some hours ago.
func (s timetable) synced(task schedule.Task, hours int) schedule.Observed {
	s.t.Helper()
	_, err := s.db.Pool.Exec(s.t.Context(), `
		UPDATE scheduled_tasks SET pending = NULL, due_seen = 'due', recorded_until = now() - make_interval(hours => $2) WHERE id = $1`,
		task.ID, hours)
	require.NoError(s.t, err)

	return schedule.Observed{
		Overlap: task.Overlap, CatchupWindowS: int(task.Catchup() / time.Second), JitterS: task.JitterS, Timezone: task.Timezone,
		Due: "due", Paused: !task.Enabled,
	}
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

// chat returns a run that was started a session and a chat that ended so; an empty reason
// leaves it running.
func (s timetable) chat(runID string, reason domain.FinishReason) domain.RunChat {
	s.t.Helper()
	ctx := s.t.Context()
	claimed, _, err := s.db.ClaimRun(ctx, start(runID))
	require.NoError(s.t, err)
	require.False(s.t, claimed.Ended)
	again, _, err := s.db.ClaimRun(ctx, start(runID))
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
	_, err = s.db.RunBegan(ctx, runID, target.Started{Kind: target.Prompt, ChatID: domain.ChatID(chatID)})
	require.NoError(s.t, err)

	return domain.RunChat{OwnerID: s.owner, SessionID: claimed.SessionID, ChatID: domain.ChatID(chatID)}
}

func (s timetable) end(runID string) (bool, schedule.TickPlan) {
	s.t.Helper()
	next, plan, err := s.db.EndRun(s.t.Context(), runID)
	require.NoError(s.t, err)

	return next == schedule.RunOver, plan
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
	s.observe(task, s.synced(task, 2))

	missed := events()
	require.Len(t, missed, 1)
	require.Regexp(t, `^schedule.run_missed (119|120|121) 20$`, missed[0])

	run := s.ask(task.ID)
	s.chat(run.ID, domain.FinishFailed)
	s.end(run.ID)
	require.ElementsMatch(t, []string{missed[0], "schedule.run_failed 1 1", "schedule.paused 1 1"}, events())
}

func TestEndRun(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.Cron = "@yearly" })
	run := func(reason domain.FinishReason) schedule.TickPlan {
		run := s.ask(task.ID)
		s.chat(run.ID, reason)
		ended, plan := s.end(run.ID)
		require.True(t, ended)

		return plan
	}
	run(domain.FinishFailed)
	run(domain.FinishInterrupted) // by its user: it does not count
	run(domain.FinishCompleted)
	run(domain.FinishMaxSteps)
	require.True(t, run(domain.FinishSchemaMismatch).Push)
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
		asked := s.ask(task.ID)
		s.chat(asked.ID, reason)
		next, _, err := s.db.EndRun(t.Context(), asked.ID)
		require.NoError(t, err)

		if reason != domain.FinishCompleted {
			require.Equal(t, schedule.RunOver, next, "a chat that failed is not checked")
			return asked.ID
		}

		require.Equal(t, schedule.RunChecks, next)
		run, found, err := s.db.RunToCheck(t.Context(), asked.ID)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, []any{[]string{"*.md"}, []string{"true"}, false}, []any{run.Files, run.Commands, run.Cancelled})
		require.Equal(t, s.owner, run.Session.OwnerID)

		return asked.ID
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
	run := s.ask(task.ID)
	s.chat(run.ID, "")
	ended, _ := s.end(run.ID)
	require.False(t, ended)
	_, err := s.db.Pool.Exec(t.Context(), `UPDATE scheduled_runs SET chat_id = 'gone' WHERE id = $1`, run.ID)
	require.NoError(t, err)

	ended, _ = s.end(run.ID)
	require.True(t, ended)
	require.Equal(t, []string{"fired failed run_now session_deleted"}, s.outcomes(task.ID))
}

// The session of a persistent task has other chats too: what is stopped is named by its chat.
func TestStopRun_namesTheChat(t *testing.T) {
	t.Parallel()

	for overlap, code := range map[schedule.Overlap]string{
		schedule.OverlapCancelOther: domain.ReasonCancelled, schedule.OverlapSkip: "cancelled",
	} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			s := newTimetable(t)
			task := s.task(func(spec *schedule.TaskSpec) { spec.Cron, spec.Persistent, spec.Overlap = "@yearly", true, overlap })
			run := s.ask(task.ID)
			want := []domain.RunChat{s.chat(run.ID, "")}
			plan, err := s.db.StopRun(t.Context(), run.ID)
			require.NoError(t, err)
			require.Equal(t, want, plan.Stop)

			repeated, err := s.db.CancelledRuns(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, repeated)

			unsent := s.ask(task.ID)
			_, _, err = s.db.ClaimRun(t.Context(), start(unsent.ID))
			require.NoError(t, err)
			_, err = s.db.StopRun(t.Context(), unsent.ID)
			require.NoError(t, err)
			require.Equal(t, "fired failed run_now "+code, s.outcomes(task.ID)[1])
		})
	}
}

func TestClaimRun_persistent(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.Cron, spec.Persistent = "@yearly", true })
	session := func() domain.SessionID {
		run := s.ask(task.ID)
		s.chat(run.ID, domain.FinishCompleted)
		s.end(run.ID)
		runs, err := s.db.ScheduledRuns(t.Context(), s.owner, task.ID, 0, 1)
		require.NoError(t, err)

		return *runs[0].SessionID
	}
	first := session()
	require.Equal(t, first, session())
	require.NoError(t, postgres.NewStore(s.db, nil, nil).DeleteSession(t.Context(), first))
	require.NotEqual(t, first, session())
}

// While Temporal hangs, no other process writes a Schedule, and what was written without the claim is
// written again.
func TestClaimPush(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(nil)
	pending := func() []string {
		ids, err := s.db.PendingSchedules(t.Context(), "", 10)
		require.NoError(t, err)

		return ids
	}
	claim := func(want bool) schedule.Push {
		push, found, err := s.db.ClaimPush(t.Context(), task.ID)
		require.NoError(t, err)
		require.Equal(t, want, found)

		return push
	}
	require.Equal(t, []string{task.ID}, pending())

	push := claim(true)
	claim(false)
	require.Empty(t, pending())
	require.NoError(t, s.db.ReleasePush(t.Context(), push))

	push = claim(true)
	_, err := s.db.ChangeScheduledTask(t.Context(), s.owner, task.ID, func(task *schedule.Task) error { task.Title = "b"; return nil })
	require.NoError(t, err)
	require.NoError(t, s.db.Pushed(t.Context(), push, "due", nil))
	require.Equal(t, []string{task.ID}, pending(), "the change came while the Schedule was written")

	push = claim(true)
	require.Equal(t, "b", push.Task.Title)

	_, err = s.db.Pool.Exec(t.Context(), `UPDATE scheduled_tasks SET push_until = now() - interval '1 second'`)
	require.NoError(t, err)

	later := claim(true)
	require.NoError(t, s.db.Pushed(t.Context(), later, "due", nil))
	require.Empty(t, pending())
	require.NoError(t, s.db.Pushed(t.Context(), push, "due", nil))
	require.Equal(t, []string{task.ID}, pending(), "the claim of the one that wrote last had expired")

	require.NoError(t, s.db.DeleteScheduledTask(t.Context(), s.owner, task.ID))
	_, err = s.db.ScheduledTask(t.Context(), s.owner, task.ID)
	require.True(t, domain.HasCode(err, "scheduled_task_not_found"))
	require.True(t, claim(true).Deleted)
}

// An API change that the Schedule does not have yet wins; afterwards Temporal does.
func TestObserve_whoWins(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(nil)
	seen := s.synced(task, 0)
	seen.Paused, seen.Note, seen.Overlap = true, "freeze", schedule.OverlapAllowAll

	_, err := s.db.ChangeScheduledTask(t.Context(), s.owner, task.ID, func(task *schedule.Task) error { task.Title = "b"; return nil })
	require.NoError(t, err)
	s.observe(task, seen)
	kept, err := s.db.ScheduledTask(t.Context(), s.owner, task.ID)
	require.NoError(t, err)
	require.Equal(t, []any{true, schedule.OverlapSkip}, []any{kept.Enabled, kept.Overlap})

	s.synced(task, 0)
	require.False(t, s.observe(task, seen).Push)
	taken, err := s.db.ScheduledTask(t.Context(), s.owner, task.ID)
	require.NoError(t, err)
	require.Equal(
		t,
		[]any{false, schedule.OverlapAllowAll, "paused in Temporal: freeze"},
		[]any{taken.Enabled, taken.Overlap, *taken.PausedReason},
	)

	seen.Paused, seen.Due, seen.Expression = false, "other", "5 * * * *"
	require.True(t, s.observe(task, seen).Push, "the rule for clock changes is added")
	taken, err = s.db.ScheduledTask(t.Context(), s.owner, task.ID)
	require.NoError(t, err)
	require.Equal(t, []any{true, "5 * * * *"}, []any{taken.Enabled, taken.Cron})
}

// Each tick has one record, with its reason.
func TestObserve_recordsTicks(t *testing.T) {
	t.Parallel()

	hour := time.Now().UTC().Truncate(time.Hour)

	for name, c := range map[string]struct {
		spec func(*schedule.TaskSpec)
		seen func(schedule.Task, *schedule.Observed)
		want []string
	}{
		"missed": {
			want: []string{"missed failed catchup_window_over", "missed failed catchup_window_over"},
		},
		"paused": {
			spec: func(spec *schedule.TaskSpec) { spec.Enabled = false },
			want: []string{"skipped failed paused", "skipped failed paused"},
		},
		"within the catch-up window": {
			spec: func(spec *schedule.TaskSpec) { spec.CatchupWindowS = 86400 },
			want: []string{"skipped failed previous_run_active", "skipped failed previous_run_active"},
		},
		"buffered": {
			spec: func(spec *schedule.TaskSpec) { spec.Overlap = schedule.OverlapBufferAll },
			seen: func(_ schedule.Task, seen *schedule.Observed) { seen.Buffered = 2 },
			want: []string{"fired running", "fired running"},
		},
		"buffer of one": {
			spec: func(spec *schedule.TaskSpec) { spec.Overlap = schedule.OverlapBufferOne },
			seen: func(_ schedule.Task, seen *schedule.Observed) { seen.Buffered = 1 },
			want: []string{"fired running", "coalesced failed previous_run_waiting"},
		},
		"started": {
			seen: func(task schedule.Task, seen *schedule.Observed) {
				seen.Actions = []schedule.Action{{RunID: schedule.RunID(task.ID, hour), Due: hour}}
			},
			want: []string{"missed failed catchup_window_over", "fired running"},
		},
		"not gone by": {
			spec: func(spec *schedule.TaskSpec) { spec.CatchupWindowS = 86400 },
			seen: func(_ schedule.Task, seen *schedule.Observed) { seen.Next = []time.Time{hour} },
			want: []string{"skipped failed previous_run_active"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTimetable(t)
			task := s.task(func(spec *schedule.TaskSpec) {
				if spec.Cron, spec.CatchupWindowS = "0 * * * *", 0; c.spec != nil {
					c.spec(spec)
				}
			})
			seen := s.synced(task, 0)
			_, err := s.db.Pool.Exec(t.Context(), `UPDATE scheduled_tasks SET recorded_until = $1`, hour.Add(-90*time.Minute))
			require.NoError(t, err)

			if c.seen != nil {
				c.seen(task, &seen)
			}

			for range 2 {
				s.observe(task, seen)
				require.Equal(t, c.want, s.outcomes(task.ID))
			}
		})
	}
}

// A workflow that starts takes the record of its tick, or makes it.
func TestClaimRun_recordsItsTick(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		age, started time.Duration // of the nominal time, and of the start of the workflow
		recorded     bool
		want         string
	}{
		"in time":                   {want: "fired running"},
		"late":                      {age: 5 * time.Minute, want: "caught_up running service_was_late"},
		"no worker for hours":       {age: 5 * time.Hour, started: 5 * time.Hour, want: "missed failed catchup_window_over"},
		"backfilled":                {age: 5 * time.Hour, want: "fired running backfilled"},
		"backfilled after a record": {age: 5 * time.Hour, recorded: true, want: "fired running backfilled"},
		"by hand":                   {age: 59 * time.Second, want: "fired running run_now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTimetable(t)
			task := s.task(nil)
			_, err := s.db.Pool.Exec(t.Context(), `UPDATE scheduled_tasks SET created_at = now() - interval '1 day'`)
			require.NoError(t, err)

			now := time.Now().UTC()
			nominal := now.Truncate(time.Minute).Add(-c.age)

			if c.recorded {
				_, err := s.db.Pool.Exec(t.Context(), `
					INSERT INTO scheduled_runs (id, task_id, manual, state, status, outcome, scheduled_for)
					VALUES ($1, $2, false, 'ended', 'failed', 'missed', $3)`, schedule.RunID(task.ID, nominal), task.ID, nominal)
				require.NoError(t, err)
			}

			in := schedule.RunStart{RunID: schedule.RunID(task.ID, nominal), Execution: "a", StartedAt: now.Add(-c.started)}
			for range 2 {
				_, _, err = s.db.ClaimRun(t.Context(), in)
				require.NoError(t, err)
				require.Equal(t, []string{c.want}, s.outcomes(task.ID))
			}
		})
	}
}

func TestClaimRun_closedAccount(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(nil)
	_, err := s.db.Pool.Exec(t.Context(), `UPDATE users SET disabled_at = now() WHERE id = $1`, s.owner)
	require.NoError(t, err)
	claimed, _, err := s.db.ClaimRun(t.Context(), start(schedule.RunID(task.ID, time.Now().Truncate(time.Minute))))
	require.NoError(t, err)
	require.True(t, claimed.Ended)
	require.Equal(t, []string{"blocked failed account_closed"}, s.outcomes(task.ID))
}

// A run that was asked for runs once, however often the Schedule is triggered for it.
func TestClaimRun_askedRunsOnce(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.Cron = "@yearly" })
	run := s.ask(task.ID)
	s.chat(run.ID, domain.FinishCompleted)
	s.end(run.ID)
	again, _, err := s.db.ClaimRun(t.Context(), schedule.RunStart{RunID: run.ID, Execution: "second", StartedAt: time.Now()})
	require.NoError(t, err)
	require.True(t, again.Ended)
	require.Equal(t, []string{"fired completed run_now"}, s.outcomes(task.ID))
}

func TestScheduledTasks_ofOthers(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(nil)
	ben := pgtest.User(t, s.db, "ben", true).ID
	_, err := s.db.ScheduledTask(t.Context(), ben, task.ID)
	require.True(t, domain.HasCode(err, "scheduled_task_not_found"))
	_, err = s.db.AskRun(t.Context(), ben, task.ID)
	require.True(t, domain.HasCode(err, "scheduled_task_not_found"))
	_, err = s.db.ScheduledRuns(t.Context(), ben, task.ID, 0, 1)
	require.True(t, domain.HasCode(err, "scheduled_task_not_found"))
	require.True(t, domain.HasCode(s.db.DeleteScheduledTask(t.Context(), ben, task.ID), "scheduled_task_not_found"))

	require.NoError(t, accounts.New(s.db.DB).DeleteUser(t.Context(), s.owner))
	claimed, _, err := s.db.ClaimRun(t.Context(), start(schedule.RunID(task.ID, time.Now().Truncate(time.Minute))))
	require.NoError(t, err)
	require.True(t, claimed.Ended, "nothing works for a user who is gone")
}

// Before a change of when a task is due, its ticks up to now get their record.
func TestChangeScheduledTask_recordsWhatWasDue(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	task := s.task(func(spec *schedule.TaskSpec) { spec.Cron = "0 * * * *" })
	change := func(change func(*schedule.Task)) {
		_, err := s.db.ChangeScheduledTask(t.Context(), s.owner, task.ID, func(task *schedule.Task) error { change(task); return nil })
		require.NoError(t, err)
	}
	s.synced(task, 3)
	change(func(task *schedule.Task) { task.Title = "b" })
	require.Empty(t, s.outcomes(task.ID))
	change(func(task *schedule.Task) { task.Enabled = false })
	require.Len(t, s.outcomes(task.ID), 3)
	s.synced(task, 5)
	change(func(task *schedule.Task) { task.Enabled = true })
	require.Equal(t, "skipped failed paused", s.outcomes(task.ID)[0])
	require.Len(t, s.outcomes(task.ID), 5)
}
