package schedules

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
)

const (
	// maxTicks is how many ticks one transaction takes.
	maxTicks = 200
	// early is by how much the engine's clock may be ahead of the database's.
	early = 2 * time.Second
	// ahead is how many coming ticks the engine's schedule has after an update, and
	// fewest how few it may have before the next one.
	ahead, fewest = 32, 12
)

// TakeTicks records the ticks of a task that are due, and decides which of them run.
// Each has one record, however often and by whom it is called.
func (s *Store) TakeTicks(ctx context.Context, taskID string) (plan schedule.TickPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = schedule.TickPlan{}

		task, err := lockTask(ctx, tx, taskID, "")
		if domain.HasCode(err, "scheduled_task_not_found") {
			return nil // deleted meanwhile
		}

		if err != nil || !task.Enabled || task.NextRunAt == nil {
			return err
		}

		now, err := clock(ctx, tx)
		if err != nil {
			return err
		}

		t, err := newTaking(ctx, tx, task, now, &plan)
		if err != nil {
			return err
		}

		tick, more := *task.NextRunAt, true

		fire := schedule.FireAt(task.ID, tick, task.JitterS)
		for taken := 0; more && !fire.After(now.Add(early)); taken++ {
			if taken == maxTicks {
				plan.More = true
				break
			}

			if err := t.take(tick); err != nil {
				return err
			}

			if tick, fire, more, err = Next(task, tick); err != nil {
				return err
			}
		}

		if err := t.notifyMissed(); err != nil {
			return err
		}

		if !more {
			_, err = tx.Exec(ctx, `UPDATE scheduled_tasks SET next_run_at = NULL, next_fire_at = NULL WHERE id = $1`, task.ID)
			return err
		}

		return t.advance(tick, fire)
	})

	return plan, pg.Fault("take the ticks of a scheduled task", err)
}

// RunNow records a run that its owner has asked for. The overlap policy holds for it.
func (s *Store) RunNow(ctx context.Context, ownerID, taskID string) (plan schedule.TickPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = schedule.TickPlan{}

		task, err := lockTask(ctx, tx, taskID, ownerID)
		if err != nil {
			return err
		}

		now, err := clock(ctx, tx)
		if err != nil {
			return err
		}

		t, err := newTaking(ctx, tx, task, now, &plan)
		if err != nil {
			return err
		}

		run, _, err := t.decide(now, schedule.TickFired, schedule.ReasonRunNow, true)
		plan.Run = &run

		if err != nil {
			return err
		}

		return t.notifyMissed()
	})

	return plan, pg.Fault("run a scheduled task", err)
}

// taking is the state of a task whose lock is held, while ticks of it are taken.
type taking struct {
	ctx              context.Context
	tx               pgx.Tx
	task             schedule.Task
	now              time.Time
	plan             *schedule.TickPlan
	running, waiting int
	closed           bool // the account of the task's owner: its ticks do not run
	notRun           []schedule.Run
}

func newTaking(ctx context.Context, tx pgx.Tx, task schedule.Task, now time.Time, plan *schedule.TickPlan) (*taking, error) {
	t := &taking{ctx: ctx, tx: tx, task: task, now: now, plan: plan}
	err := tx.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE state = 'running'), count(*) FILTER (WHERE state = 'waiting'),
		       (SELECT closed FROM users WHERE id = $2)
		FROM   scheduled_runs WHERE task_id = $1 AND state <> 'ended'`, task.ID, task.OwnerID).Scan(&t.running, &t.waiting, &t.closed)

	return t, err
}

// take records one tick.
func (t *taking) take(tick time.Time) error {
	age := t.now.Sub(schedule.FireAt(t.task.ID, tick, t.task.JitterS))

	outcome, runs := t.task.Taken(age)
	switch {
	case t.closed:
		_, _, err := t.insert(tick, "ended", domain.RunFailed, schedule.TickBlocked, domain.CodeAccountClosed, false)
		return err
	case !runs:
		_, _, err := t.insert(tick, "ended", domain.RunFailed, outcome, schedule.ReasonWindowOver, false)
		return err
	case outcome == schedule.TickCaughtUp:
		_, _, err := t.decide(tick, outcome, schedule.ReasonLate, false)
		return err
	default:
		_, _, err := t.decide(tick, outcome, "", false)
		return err
	}
}

// decide records a tick that is to run, by the overlap policy. With false it has a record
// already, and nothing was done.
func (t *taking) decide(
	tick time.Time, outcome schedule.TickOutcome, reason string, manual bool,
) (run schedule.Run, recorded bool, err error) {
	decision := t.task.Overlap.Overlapping(t.running, t.waiting)
	if decision.Outcome != "" {
		return t.insert(tick, "ended", domain.RunFailed, decision.Outcome, decision.Reason, manual)
	}

	if decision.Waits {
		run, recorded, err = t.insert(tick, "waiting", domain.RunRunning, outcome, reason, manual)
		if recorded {
			t.waiting++
		}

		return run, recorded, err
	}

	run, recorded, err = t.insert(tick, "running", domain.RunRunning, outcome, reason, manual)
	if err != nil || !recorded {
		return run, recorded, err
	}

	if decision.CancelOthers {
		if err := t.cancelOthers(run.ID); err != nil {
			return run, recorded, err
		}
	}

	t.running++
	t.plan.Start = append(t.plan.Start, run.ID)

	return run, recorded, nil
}

// insert records a tick; with false it has a record already: one that was taken a little
// early, before a change of the task planned it again.
func (t *taking) insert(
	tick time.Time, state string, status domain.RunStatus, outcome schedule.TickOutcome, reason string, manual bool,
) (run schedule.Run, recorded bool, err error) {
	due := tick
	if !manual {
		due = schedule.FireAt(t.task.ID, tick, t.task.JitterS)
	}

	run, err = oneRun(t.ctx, t.tx, `
		INSERT INTO scheduled_runs (id, task_id, manual, state, status, outcome, reason_code, scheduled_for, due_at, triggered_at,
		                            finished_at)
		VALUES (@id, @task, @manual, @state, @status, @outcome, nullif(@reason, ''), @tick, @due, @now,
		        CASE WHEN @state = 'ended' THEN @now::timestamptz END)
		ON CONFLICT (task_id, scheduled_for) WHERE NOT manual DO NOTHING
		RETURNING `+runColumns,
		pgx.NamedArgs{
			"id": domain.NewID(), "task": t.task.ID, "manual": manual, "state": state, "status": status, "outcome": outcome,
			"reason": reason, "tick": tick, "due": due, "now": t.now,
		})
	if errors.Is(err, pgx.ErrNoRows) {
		return run, false, nil
	}

	if err == nil && state == "ended" {
		t.notRun = append(t.notRun, run)
	}

	return run, err == nil, err
}

// notifyMissed reports to webhooks the ticks that did not run, all those of one transaction
// at once.
func (t *taking) notifyMissed() error {
	if len(t.notRun) == 0 {
		return nil
	}

	return notify.TaskEvent(t.ctx, t.tx, webhook.RunMissed, t.task, t.notRun)
}

// cancelOthers ends the runs that wait, and has those stopped that run, but for one.
func (t *taking) cancelOthers(but string) error {
	end := domain.EndOfRun("", "", "", true)
	rows, _ := t.tx.Query(t.ctx, `
		UPDATE scheduled_runs
		SET    state = 'ended', status = $2, reason_code = coalesce(reason_code, $3), error_code = $3, error = $4, finished_at = now()
		WHERE  task_id = $1 AND state = 'waiting' RETURNING `+runColumns, t.task.ID, end.Status, end.Reason, end.Error)

	cancelled, err := pgx.CollectRows(rows, scanRun)
	if err != nil {
		return err
	}

	t.notRun = append(t.notRun, cancelled...)
	rows, _ = t.tx.Query(t.ctx, `
		UPDATE scheduled_runs SET cancel_requested = true
		WHERE  task_id = $1 AND state = 'running' AND id <> $2 AND NOT cancel_requested RETURNING session_id, chat_id`, t.task.ID, but)

	var (
		session *domain.SessionID
		chat    *domain.ChatID
	)

	_, err = pgx.ForEachRow(rows, []any{&session, &chat}, func() error {
		if session != nil && chat != nil {
			t.plan.Stop = append(t.plan.Stop, domain.RunChat{OwnerID: t.task.OwnerID, SessionID: *session, ChatID: *chat})
		}

		return nil
	})
	t.waiting = 0

	return err
}

// advance moves the task to its next tick, and says whether the engine's schedule has
// to be updated.
func (t *taking) advance(tick, fire time.Time) error {
	wanted, err := upcoming(t.task, tick, fewest)
	if err != nil {
		return err
	}

	last := wanted[len(wanted)-1]

	err = t.tx.QueryRow(t.ctx, `
		UPDATE scheduled_tasks
		SET    next_run_at = @tick, next_fire_at = @fire,
		       version = version + CASE WHEN coalesce(synced_until < @last, true) AND version = synced_version THEN 1 ELSE 0 END
		WHERE  id = @id RETURNING version <> synced_version`,
		pgx.NamedArgs{"id": t.task.ID, "tick": tick, "fire": fire, "last": last}).Scan(&t.plan.Sync)
	if err != nil {
		return err
	}

	_, err = t.tx.Exec(t.ctx, `
		DELETE FROM scheduled_runs WHERE id IN (
			SELECT id FROM scheduled_runs WHERE task_id = $1 AND state = 'ended' ORDER BY id DESC OFFSET $2 LIMIT $3)`,
		t.task.ID, schedule.MaxRuns, maxTicks)

	return err
}

// upcoming gives up to n ticks with their jitter, the given one first.
func upcoming(task schedule.Task, tick time.Time, n int) ([]time.Time, error) {
	times := []time.Time{schedule.FireAt(task.ID, tick, task.JitterS)}
	for len(times) < n {
		next, fire, ok, err := Next(task, tick)
		if err != nil || !ok {
			return times, err
		}

		tick, times = next, append(times, fire)
	}

	return times, nil
}

// syncClaim is how long one process has the update of a schedule; its calls of Temporal take
// less.
const (
	syncClaim   = 30 * time.Second
	syncTimeout = 20 * time.Second
)

// SyncSchedule passes what the engine's schedule of a task is to be to apply, and
// remembers that it was done. One process does so at a time; while another one does,
// nothing is done. No transaction is open during apply, which waits for Temporal. The rows of
// a deleted task go with its schedule.
func (s *Store) SyncSchedule(ctx context.Context, taskID string, apply func(context.Context, schedule.Sync) error) error {
	sync, claim, err := s.claimSync(ctx, taskID)
	if err != nil || claim == nil {
		return pg.Fault("claim the schedule of a task", err)
	}

	calling, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()

	if err := apply(calling, sync); err != nil {
		_, released := s.db.Pool.Exec(
			ctx,
			`UPDATE scheduled_tasks SET sync_until = NULL WHERE id = $1 AND sync_until = $2`,
			taskID,
			claim.until,
		)

		return pg.Fault("update the schedule of a task", errors.Join(err, released))
	}

	return pg.Fault("record the schedule of a task", s.recordSync(ctx, sync, *claim))
}

// claimed is the update of a schedule that a process has taken.
type claimed struct {
	until   time.Time
	version int64
}

// claimSync takes the update of a schedule; nil: another process has it, or there is no such
// task.
func (s *Store) claimSync(ctx context.Context, taskID string) (sync schedule.Sync, claim *claimed, err error) {
	sync.TaskID = taskID

	var c claimed

	err = s.db.Pool.QueryRow(ctx, `
		UPDATE scheduled_tasks SET sync_until = clock_timestamp() + $2::interval
		WHERE  id = $1 AND coalesce(sync_until < clock_timestamp(), true)
		RETURNING sync_until, version, deleted_at IS NOT NULL`, taskID, syncClaim).Scan(&c.until, &c.version, &sync.Deleted)
	if errors.Is(err, pgx.ErrNoRows) {
		return sync, nil, nil
	}

	if err != nil {
		return sync, nil, err
	}

	// It may be newer than the version; then it is passed on once more.
	task, err := oneTask(ctx, s.db.Pool, `SELECT `+taskColumns+` FROM scheduled_tasks WHERE id = @id`, pgx.NamedArgs{"id": taskID})
	if err != nil {
		return sync, nil, err
	}

	sync.OwnerID, sync.Enabled = task.OwnerID, task.Enabled
	if task.Enabled && task.NextRunAt != nil {
		sync.Times, err = upcoming(task, *task.NextRunAt, ahead)
	}

	return sync, &c, err
}

// recordSync stores which version the engine's schedule has. When the claim expired, another
// process may have passed on a newer one before: the schedule is updated again.
func (s *Store) recordSync(ctx context.Context, sync schedule.Sync, claim claimed) error {
	if sync.Deleted {
		_, err := s.db.Pool.Exec(ctx, `
			DELETE FROM scheduled_tasks WHERE id = $1 AND NOT EXISTS (
				SELECT 1 FROM scheduled_runs WHERE task_id = $1 AND state = 'running' AND chat_id IS NULL)`, sync.TaskID)

		return err
	}

	var until *time.Time
	if n := len(sync.Times); n > 0 {
		until = &sync.Times[n-1]
	}

	_, err := s.db.Pool.Exec(ctx, `
		UPDATE scheduled_tasks
		SET    synced_version = CASE WHEN sync_until = $4 THEN $2 ELSE -1 END, synced_until = $3, sync_until = nullif(sync_until, $4)
		WHERE  id = $1`, sync.TaskID, claim.version, until, claim.until)

	return err
}

// StaleSchedules lists tasks whose schedule in the engine is not what it should be.
func (s *Store) StaleSchedules(ctx context.Context, after string, limit int) ([]string, error) {
	return s.ids(ctx, `SELECT id FROM scheduled_tasks WHERE version <> synced_version AND id > $1 ORDER BY id LIMIT $2`, after, limit)
}

// OverdueTasks lists tasks of which a tick was due some seconds ago and was not taken.
func (s *Store) OverdueTasks(ctx context.Context, after string, limit int) ([]string, error) {
	return s.ids(ctx, `
		SELECT id FROM scheduled_tasks
		WHERE  enabled AND deleted_at IS NULL AND next_fire_at < now() - interval '5 seconds' AND id > $1 ORDER BY id
		    LIMIT $2`, after, limit)
}

func (s *Store) ids(ctx context.Context, sql, after string, limit int) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, sql, after, limit)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return ids, pg.Fault("list scheduled tasks", err)
}
