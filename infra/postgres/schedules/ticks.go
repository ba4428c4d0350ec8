package schedules

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/cron"
	"everloop/domain/schedule"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
)

const (
	// maxTicks is how many ticks one transaction records.
	maxTicks = 500
	// settled is how long ago a tick was due that is recorded as not run, unless Temporal
	// reports that it has gone by.
	settled = 2 * time.Second
	// overdue is how long after its catch-up window a tick has certainly not started.
	overdue = 30 * time.Second
)

// oldRuns are the records of a task beyond those that it keeps.
const oldRuns = `
	DELETE FROM scheduled_runs WHERE id IN (
		SELECT id FROM scheduled_runs WHERE task_id = $1 AND state = 'ended' ORDER BY scheduled_for DESC OFFSET $2 LIMIT $3)`

// clockState is what a task has of its Schedule in addition to its fields.
type clockState struct {
	pending       *string
	dueSeen       string
	custom        bool
	recordedUntil time.Time
}

func lockClock(ctx context.Context, tx pgx.Tx, taskID string) (state clockState, err error) {
	err = tx.QueryRow(ctx, `
		SELECT pending, due_seen, custom_due, recorded_until FROM scheduled_tasks WHERE id = $1 FOR UPDATE`, taskID).
		Scan(&state.pending, &state.dueSeen, &state.custom, &state.recordedUntil)

	return state, err
}

// RecordedUntil returns up to when each tick of a task has a record, and whether its times were
// edited in Temporal.
func (s *Store) RecordedUntil(ctx context.Context, taskID string) (task schedule.Task, until time.Time, custom bool, err error) {
	task, err = oneTask(ctx, s.db.Pool, `
		SELECT `+taskColumns+` FROM scheduled_tasks WHERE id = @id AND deleted_at IS NULL`, pgx.NamedArgs{"id": taskID})
	if err == nil {
		err = s.db.Pool.QueryRow(ctx, `SELECT recorded_until, custom_due FROM scheduled_tasks WHERE id = $1`, taskID).Scan(&until, &custom)
	}

	if errors.Is(err, pgx.ErrNoRows) {
		err = taskNotFound(taskID)
	}

	return task, until, custom, pg.Fault("read the ticks of a scheduled task", err)
}

// Observe takes over what Temporal says of a task's Schedule: it records the ticks that did
// not run, and changes of the Schedule that were made in Temporal. A change of the API that the
// Schedule does not have yet comes before those.
func (s *Store) Observe(ctx context.Context, taskID string, seen schedule.Observed, at time.Time, ticks []time.Time) (
	plan schedule.TickPlan, err error,
) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = schedule.TickPlan{TaskID: taskID}

		task, err := lockTask(ctx, tx, taskID, "")
		if domain.HasCode(err, "scheduled_task_not_found") {
			return nil // deleted in the meantime
		}

		if err != nil {
			return err
		}

		o := observing{ctx: ctx, tx: tx, task: task, seen: seen, at: at}
		if o.state, err = lockClock(ctx, tx, taskID); err != nil {
			return err
		}

		if o.now, err = clock(ctx, tx); err != nil {
			return err
		}

		if err := o.record(ticks); err != nil {
			return err
		}

		if err := o.settle(); err != nil {
			return err
		}

		if o.state.pending == nil {
			if plan.Push, err = o.take(); err != nil {
				return err
			}
		}

		return o.notifyMissed()
	})

	return plan, pg.Fault("observe the schedule of a task", err)
}

// observing is the state of a task whose lock is held, while its Schedule is compared.
type observing struct {
	ctx    context.Context
	tx     pgx.Tx
	task   schedule.Task
	state  clockState
	seen   schedule.Observed
	at     time.Time // before which Temporal has described it
	now    time.Time
	notRun []schedule.Run
}

// horizon returns the time before which the Schedule has gone by all ticks.
func (o *observing) horizon() time.Time {
	gone := o.now.Add(-settled)
	if o.seen.Paused && !o.task.Enabled || len(o.seen.Next) == 0 || gone.Before(o.seen.Next[0]) {
		return gone
	}

	first, late := o.seen.Next[0], o.now.Add(-o.task.Catchup()-overdue)
	if first.Before(late) {
		return late
	}

	return first
}

// record records the ticks that started no workflow.
func (o *observing) record(ticks []time.Time) error {
	horizon, until := o.horizon(), o.state.recordedUntil
	jitter := time.Duration(o.task.JitterS) * time.Second

	for _, tick := range ticks {
		if !tick.After(o.state.recordedUntil) || !tick.Add(jitter).Before(horizon) {
			continue
		}

		if err := o.recordTick(tick, tick.Add(jitter)); err != nil {
			return err
		}

		until = tick
	}

	if until.Equal(o.state.recordedUntil) {
		return nil
	}

	o.state.recordedUntil = until

	_, err := o.tx.Exec(o.ctx, `UPDATE scheduled_tasks SET recorded_until = $2 WHERE id = $1`, o.task.ID, until)
	if err == nil {
		_, err = o.tx.Exec(o.ctx, oldRuns, o.task.ID, schedule.MaxRuns, maxTicks)
	}

	return err
}

func (o *observing) recordTick(tick, last time.Time) error {
	id := schedule.RunID(o.task.ID, tick)
	if due, started := o.seen.Started(id); started {
		_, err := insertRun(o.ctx, o.tx, o.task, tick, due, "running", o.now, schedule.Decision{Outcome: schedule.TickFired})
		return ignoreNone(err)
	}

	unstarted := schedule.Unstarted{Paused: !o.task.Enabled, Buffered: o.seen.Buffered > 0, Age: o.now.Sub(last)}

	err := o.tx.QueryRow(o.ctx, `
		SELECT EXISTS (SELECT 1 FROM scheduled_runs
		               WHERE task_id = $1 AND execution IS NOT NULL AND triggered_at <= $2 AND coalesce(finished_at >= $2, true))`,
		o.task.ID, last.Add(settled)).Scan(&unstarted.Active)
	if err != nil {
		return err
	}

	decision, state := o.task.NotStarted(unstarted), "ended"
	if decision.Waits {
		state = "waiting"
	}

	run, err := insertRun(o.ctx, o.tx, o.task, tick, tick, state, o.now, decision)
	if err == nil && state == "ended" && !unstarted.Paused {
		o.notRun = append(o.notRun, run)
	}

	return ignoreNone(err)
}

func ignoreNone(err error) error {
	if errors.Is(err, pgx.ErrNoRows) { // the tick has a record
		return nil
	}

	return err
}

// insertRun records a tick; pgx.ErrNoRows: it has a record.
func insertRun(
	ctx context.Context, tx pgx.Tx, task schedule.Task, tick, due time.Time, state string, now time.Time, decision schedule.Decision,
) (schedule.Run, error) {
	status := domain.RunRunning
	if state == "ended" {
		status = domain.RunFailed
	}

	return oneRun(ctx, tx, `
		INSERT INTO scheduled_runs (id, task_id, manual, state, status, outcome, reason_code, scheduled_for, due_at, triggered_at,
		                            finished_at)
		VALUES (@id, @task, @manual, @state, @status, @outcome, nullif(@reason, ''), @tick, @due, @now,
		        CASE WHEN @state = 'ended' THEN @now::timestamptz END)
		ON CONFLICT DO NOTHING
		RETURNING `+runColumns,
		pgx.NamedArgs{
			"id": schedule.RunID(task.ID, tick), "task": task.ID, "manual": decision.Manual, "state": state, "status": status,
			"outcome": decision.Outcome, "reason": decision.Reason, "tick": tick, "due": due, "now": now,
		})
}

// settle decides about the records that wait for their start. Those that were triggered after
// Temporal has described the Schedule are left out.
func (o *observing) settle() error {
	rows, _ := o.tx.Query(o.ctx, `
		SELECT id FROM scheduled_runs WHERE task_id = $1 AND state = 'waiting' AND NOT asked AND triggered_at < $2 ORDER BY scheduled_for`,
		o.task.ID, o.at)

	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}

	waiting := make([]string, 0, len(ids))

	for _, id := range ids {
		due, started := o.seen.Started(id)
		if !started {
			waiting = append(waiting, id)
			continue
		}

		if _, err := o.tx.Exec(o.ctx, `UPDATE scheduled_runs SET state = 'running', due_at = $2 WHERE id = $1`, id, due); err != nil {
			return err
		}
	}

	for i, decision := range o.task.Overlap.Waiting(len(waiting), o.seen.Buffered) {
		if decision.Waits {
			continue
		}

		if err := o.drop(waiting[i], decision); err != nil {
			return err
		}
	}

	return nil
}

// drop ends a record whose tick the Schedule has dropped.
func (o *observing) drop(id string, decision schedule.Decision) error {
	end := domain.RunEnd{Status: domain.RunFailed}
	if decision.Reason == schedule.ReasonCancelledByNext {
		end = domain.EndOfRun("", "", "", true)
	}

	run, err := oneRun(o.ctx, o.tx, `
		UPDATE scheduled_runs
		SET    state = 'ended', status = 'failed', outcome = @outcome, error_code = nullif(@code, ''), error = nullif(@error, ''),
		       reason_code = CASE WHEN @outcome = 'fired' THEN coalesce(reason_code, @reason) ELSE @reason END,
		       finished_at = clock_timestamp()
		WHERE  id = @id RETURNING `+runColumns,
		pgx.NamedArgs{"id": id, "outcome": decision.Outcome, "reason": decision.Reason, "code": end.Reason, "error": end.Error})
	if err == nil {
		o.notRun = append(o.notRun, run)
	}

	return err
}

// notifyMissed reports to webhooks the ticks that did not run.
func (o *observing) notifyMissed() error {
	if len(o.notRun) == 0 {
		return nil
	}

	return notify.TaskEvent(o.ctx, o.tx, webhook.RunMissed, o.task, o.notRun)
}

// take takes over changes of the Schedule that were made in Temporal. With true the Schedule
// must be written again: its times are those of an expression, with the rule for clock changes.
func (o *observing) take() (push bool, err error) {
	was, task, seen := o.task, o.task, o.seen

	task.Overlap, task.Timezone, task.JitterS, task.ExpiresAt = seen.Overlap, seen.Timezone, seen.JitterS, seen.ExpiresAt
	if task.Catchup() != time.Duration(seen.CatchupWindowS)*time.Second {
		task.CatchupWindowS = seen.CatchupWindowS
	}

	custom := o.state.custom
	if edited := seen.Due != o.state.dueSeen; edited {
		if custom = seen.Expression == ""; !custom {
			task.Cron, push = seen.Expression, true
		}
	}

	if task.Enabled = !seen.Paused; task.Enabled != was.Enabled {
		task.PausedReason = nil
		if seen.Paused {
			reason := "paused in Temporal"
			if seen.Note != "" {
				reason += ": " + domain.CleanText(seen.Note)
			}

			task.PausedReason = &reason
		} else {
			task.ConsecutiveFailures = 0
		}
	}

	if err := o.planNext(&task, custom); err != nil {
		return false, err
	}

	changed := push || custom != o.state.custom || seen.Due != o.state.dueSeen || !sameShown(was, task)
	if !changed && sameTimes(was.NextRunAt, task.NextRunAt) {
		return false, nil
	}

	args := specArgs(task)
	args["failures"], args["paused"], args["session"] = task.ConsecutiveFailures, task.PausedReason, task.SessionID
	args["seen"], args["custom"], args["changed"], args["replanned"] = seen.Due, custom, changed, replanned(was, task) ||
		custom != o.state.custom

	if push {
		args["pending"] = domain.NewID()
	} else {
		args["pending"] = nil
	}

	_, err = o.tx.Exec(o.ctx, `
		UPDATE scheduled_tasks
		SET    cron = @cron, timezone = @zone, enabled = @enabled, expires_at = @expires, overlap = @overlap, catchup_window_s = @catchup,
		       jitter_s = @jitter, next_run_at = @next, consecutive_failures = @failures, paused_reason = @paused, due_seen = @seen,
		       custom_due = @custom, pending = @pending, updated_at = CASE WHEN @changed THEN now() ELSE updated_at END,
		       recorded_until = CASE WHEN @replanned THEN greatest(recorded_until, clock_timestamp()) ELSE recorded_until END
		WHERE  id = @id`, args)

	return push, err
}

// planNext sets the next tick of a task.
func (o *observing) planNext(task *schedule.Task, custom bool) error {
	if !custom {
		return planNext(task, o.now)
	}

	task.NextRunAt = nil
	if task.Enabled && len(o.seen.Next) > 0 {
		task.NextRunAt = &o.seen.Next[0]
	}

	return nil
}

// sameShown reports whether two tasks have the same of what a Schedule shows.
func sameShown(a, b schedule.Task) bool {
	return a.Enabled == b.Enabled && a.Cron == b.Cron && a.Timezone == b.Timezone && a.Overlap == b.Overlap && a.JitterS == b.JitterS &&
		a.CatchupWindowS == b.CatchupWindowS && sameTimes(a.ExpiresAt, b.ExpiresAt)
}

// replanned reports whether two tasks are due at different times.
func replanned(a, b schedule.Task) bool {
	return a.Enabled != b.Enabled || a.Cron != b.Cron || a.Timezone != b.Timezone || !sameTimes(a.ExpiresAt, b.ExpiresAt)
}

func sameTimes(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// recordBefore records the ticks of a task up to now, before a change of when it is due. Those of
// the last seconds may be starting: they get their record by their run.
func recordBefore(ctx context.Context, tx pgx.Tx, task schedule.Task, now time.Time) error {
	state, err := lockClock(ctx, tx, task.ID)
	if err != nil || state.custom {
		return err
	}

	ticks, err := Ticks(task, state.recordedUntil, now)
	if err != nil {
		return err
	}

	o := observing{ctx: ctx, tx: tx, task: task, state: state, at: now, now: now}
	o.seen.Paused = !task.Enabled

	if err := o.record(ticks); err != nil {
		return err
	}

	if _, err := tx.Exec(ctx, `UPDATE scheduled_tasks SET recorded_until = $2 WHERE id = $1`, task.ID, now); err != nil {
		return err
	}

	return o.notifyMissed()
}

// Ticks returns the ticks of a task after one time and until another, the first 500.
func Ticks(task schedule.Task, after, until time.Time) (ticks []time.Time, err error) {
	for len(ticks) < maxTicks {
		tick, ok, err := Next(task, after)
		if err != nil || !ok || tick.After(until) {
			return ticks, err
		}

		after, ticks = tick, append(ticks, tick)
	}

	return ticks, nil
}

// AskRun records a run that its owner has asked for. The Schedule is triggered for it.
func (s *Store) AskRun(ctx context.Context, ownerID, taskID string) (run schedule.Run, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		task, err := lockTask(ctx, tx, taskID, ownerID)
		if err != nil {
			return err
		}

		now, err := clock(ctx, tx)
		if err != nil {
			return err
		}

		parsed, err := cron.Parse(task.Cron)
		if err != nil {
			return err
		}

		zone, err := time.LoadLocation(task.Timezone)
		if err != nil {
			return err
		}

		// A second has one run, and no run that is asked for has the name of a tick.
		for at := now.UTC().Truncate(time.Second); ; at = at.Add(time.Second) {
			if parsed.Matches(at, zone) {
				continue
			}

			decision := schedule.Decision{Outcome: schedule.TickFired, Reason: schedule.ReasonRunNow, Manual: true}
			if run, err = insertRun(ctx, tx, task, at, now, "waiting", now, decision); !errors.Is(err, pgx.ErrNoRows) {
				break
			}
		}

		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE scheduled_runs SET asked = true WHERE id = $1`, run.ID)
		}

		return err
	})

	return run, pg.Fault("ask for a run of a scheduled task", err)
}

// RunTriggered records that the Schedule was triggered for a run.
func (s *Store) RunTriggered(ctx context.Context, runID string) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE scheduled_runs SET asked = false, triggered_at = clock_timestamp() WHERE id = $1 AND asked`, runID)

	return pg.Fault("record the trigger of a scheduled run", err)
}

// ScheduledRun reads the record of a run.
func (s *Store) ScheduledRun(ctx context.Context, runID string) (schedule.Run, error) {
	run, err := oneRun(ctx, s.db.Pool, `SELECT `+runColumns+` FROM scheduled_runs WHERE id = @id`, pgx.NamedArgs{"id": runID})
	return run, pg.Fault("read a scheduled run", err)
}

// WaitsForStart reports whether a run waits for its Schedule.
func (s *Store) WaitsForStart(ctx context.Context, runID string) (waits bool, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM scheduled_runs WHERE id = $1 AND state = 'waiting')`, runID).Scan(&waits)

	return waits, pg.Fault("read a scheduled run", err)
}

// AskedRuns lists runs that were asked for some seconds ago, and for which no Schedule was triggered.
func (s *Store) AskedRuns(ctx context.Context, after string, limit int) ([]string, error) {
	return s.ids(ctx, `
		SELECT id FROM scheduled_runs
		WHERE  asked AND triggered_at < now() - interval '2 seconds' AND id > $1 ORDER BY id LIMIT $2`, after, limit)
}

// pushClaim is how long one process writes a Schedule; its calls of Temporal take less.
const pushClaim = 30 * time.Second

// ClaimPush takes the change of a task that its Schedule does not have; false: there is none, or
// another process writes it. No transaction is open while Temporal is called.
func (s *Store) ClaimPush(ctx context.Context, taskID string) (push schedule.Push, found bool, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		UPDATE scheduled_tasks SET push_until = clock_timestamp() + $2::interval
		WHERE  id = $1 AND pending IS NOT NULL AND coalesce(push_until < clock_timestamp(), true)
		RETURNING pending, push_until, deleted_at IS NOT NULL, custom_due`, taskID, pushClaim).
		Scan(&push.Token, &push.Until, &push.Deleted, &push.Custom)
	if errors.Is(err, pgx.ErrNoRows) {
		return push, false, nil
	}

	if err == nil {
		push.Task, err = oneTask(ctx, s.db.Pool, `
			SELECT `+taskColumns+` FROM scheduled_tasks WHERE id = @id`, pgx.NamedArgs{"id": taskID})
	}

	return push, err == nil, pg.Fault("claim the schedule of a task", err)
}

// ReleasePush gives up a claim.
func (s *Store) ReleasePush(ctx context.Context, push schedule.Push) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE scheduled_tasks SET push_until = NULL WHERE id = $1 AND push_until = $2`, push.Task.ID, push.Until)

	return pg.Fault("release the schedule of a task", err)
}

// Pushed records that a Schedule has a change. When the claim expired, another process may have
// written a newer one before: the Schedule is written again. The rows of a deleted task go.
func (s *Store) Pushed(ctx context.Context, push schedule.Push, due string, renewAt *time.Time) error {
	if push.Deleted {
		_, err := s.db.Pool.Exec(ctx, `
			DELETE FROM scheduled_tasks WHERE id = $1 AND NOT EXISTS (
				SELECT 1 FROM scheduled_runs WHERE task_id = $1 AND state = 'running' AND chat_id IS NULL)`, push.Task.ID)

		return pg.Fault("remove a deleted task", err)
	}

	_, err := s.db.Pool.Exec(ctx, `
		UPDATE scheduled_tasks
		SET    pending = CASE WHEN push_until = $3 THEN nullif(pending, $2) ELSE coalesce(pending, $2) END,
		       due_seen = $4, renew_at = $5, push_until = nullif(push_until, $3)
		WHERE  id = $1`, push.Task.ID, push.Token, push.Until, due, renewAt)

	return pg.Fault("record the schedule of a task", err)
}

// PendingSchedules lists tasks whose Schedule lacks a change.
func (s *Store) PendingSchedules(ctx context.Context, after string, limit int) ([]string, error) {
	return s.ids(ctx, `
		SELECT id FROM scheduled_tasks
		WHERE  pending IS NOT NULL AND coalesce(push_until < clock_timestamp(), true) AND id > $1 ORDER BY id LIMIT $2`, after, limit)
}

// RenewSchedules has the Schedules written again that need the times of the next clock changes.
func (s *Store) RenewSchedules(ctx context.Context) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE scheduled_tasks SET pending = 'clock changes', renew_at = NULL
		WHERE  renew_at < now() AND deleted_at IS NULL AND pending IS NULL`)

	return pg.Fault("renew the schedules of tasks", err)
}

// ForgetSchedule has the Schedule of a task made again, which Temporal has lost.
func (s *Store) ForgetSchedule(ctx context.Context, taskID string) error {
	_, err := s.db.Pool.Exec(ctx, `UPDATE scheduled_tasks SET pending = 'lost' WHERE id = $1 AND pending IS NULL`, taskID)
	return pg.Fault("renew the schedule of a task", err)
}

// DeletedInTemporal deletes a task whose Schedule was deleted in Temporal, unless the API has
// changed it in the meantime.
func (s *Store) DeletedInTemporal(ctx context.Context, taskID string) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE scheduled_tasks SET deleted_at = now(), enabled = false, pending = 'deleted'
		WHERE  id = $1 AND pending IS NULL AND deleted_at IS NULL`, taskID)

	return pg.Fault("delete a task whose schedule was deleted", err)
}

// SyncedSchedules lists tasks whose Schedule Temporal must have.
func (s *Store) SyncedSchedules(ctx context.Context, after string, limit int) ([]string, error) {
	return s.ids(ctx, `
		SELECT id FROM scheduled_tasks
		WHERE  pending IS NULL AND deleted_at IS NULL AND updated_at < now() - interval '10 seconds' AND id > $1 ORDER BY id LIMIT $2`,
		after, limit)
}

func (s *Store) ids(ctx context.Context, sql, after string, limit int) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, sql, after, limit)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return ids, pg.Fault("list scheduled tasks", err)
}
