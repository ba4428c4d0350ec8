// Package schedules stores scheduled tasks and the records of their runs. Temporal Schedules say
// when tasks are due. A row holds what the API lists and has last asked for: a change is pending
// until the Schedule has it, and until then wins over what Temporal says.
package schedules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/cron"
	"everloop/domain/schedule"
	"everloop/infra/postgres/pg"
)

// Store reads and writes scheduled tasks.
type Store struct{ db *pg.DB }

// New returns the store on a database.
func New(db *pg.DB) *Store { return &Store{db} }

const taskColumns = `
	id, owner_id, title, prompt, cron, timezone, enabled, expires_at, skip_confirmations, model, persistent, overlap, catchup_window_s,
	pause_on_failure_after, jitter_s, budget, output_schema, files, commands, session_id, next_run_at, last_run_at, last_status,
	consecutive_failures, paused_reason, created_at, updated_at, notify, question_policy, workspace_id, custom_due, setup`

func taskNotFound(id string) error {
	return domain.Newf(domain.NotFound, "scheduled_task_not_found", "scheduled task %s does not exist", id)
}

// CreateScheduledTask creates a task that was checked. A user who has MaxScheduledTasks
// gets scheduled_task_limit.
func (s *Store) CreateScheduledTask(ctx context.Context, ownerID string, spec schedule.TaskSpec) (made schedule.Task, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		// The row of the user serialises creations, so that they count each other.
		if _, err := tx.Exec(ctx, `SELECT 1 FROM users WHERE id = $1 FOR NO KEY UPDATE`, ownerID); err != nil {
			return err
		}

		var count int
		if err := tx.QueryRow(ctx, `
			SELECT count(*) FROM scheduled_tasks WHERE owner_id = $1 AND deleted_at IS NULL`, ownerID).Scan(&count); err != nil {
			return err
		}

		if count >= schedule.MaxTasks {
			return domain.Newf(
				domain.Conflict,
				"scheduled_task_limit",
				"a user may have %d scheduled tasks at most",
				schedule.MaxTasks,
			)
		}

		if err := checkNewWorkspace(ctx, tx, ownerID, nil, spec.WorkspaceID); err != nil {
			return err
		}

		made = schedule.Task{ID: domain.NewID(), OwnerID: ownerID, TaskSpec: spec}

		now, err := clock(ctx, tx)
		if err != nil {
			return err
		}

		if err := planNext(&made, now); err != nil {
			return err
		}

		args := specArgs(made)
		args["owner"] = ownerID
		made, err = oneTask(ctx, tx, `
			INSERT INTO scheduled_tasks (id, owner_id, title, prompt, cron, timezone, enabled, expires_at, skip_confirmations, model,
			    persistent,
			                             overlap, catchup_window_s, pause_on_failure_after, jitter_s, budget, output_schema,
			                             files, commands, next_run_at, notify, question_policy, workspace_id, setup)
			VALUES (@id, @owner, @title, @prompt, @cron, @zone, @enabled, @expires, @skip, @model, @persistent,
			        @overlap, @catchup, @pause, @jitter, @budget, @schema, @files, @commands, @next, @notify, @policy, @workspace, @setup)
			RETURNING `+taskColumns, args)

		return err
	})

	return made, pg.Fault("create scheduled task", err)
}

// ScheduledTasks lists the tasks of a user, the newest first.
func (s *Store) ScheduledTasks(ctx context.Context, ownerID string) ([]schedule.Task, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+taskColumns+` FROM scheduled_tasks WHERE owner_id = $1 AND deleted_at IS NULL ORDER BY id DESC`, ownerID)
	tasks, err := pgx.CollectRows(rows, scanTask)

	return tasks, pg.Fault("list scheduled tasks", err)
}

// ScheduledTask reads one task that a user may see: their own, or one of a production
// workspace of which they and its owner are members.
func (s *Store) ScheduledTask(ctx context.Context, userID, id string) (schedule.Task, error) {
	task, err := oneTask(ctx, s.db.Pool, `
		SELECT `+taskColumns+` FROM scheduled_tasks WHERE id = @id AND `+visible+` AND deleted_at IS NULL`,
		pgx.NamedArgs{"id": id, "user": userID})
	if errors.Is(err, pgx.ErrNoRows) {
		err = taskNotFound(id)
	}

	return task, pg.Fault("read scheduled task", err)
}

// ChangeScheduledTask lets change set the fields of a task. Before a change of when it is due, the
// ticks up to now are recorded. Change is called under the lock of the task and checks what it sets.
func (s *Store) ChangeScheduledTask(ctx context.Context, ownerID, id string, change func(*schedule.Task) error) (
	changed schedule.Task, err error,
) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		task, err := lockTask(ctx, tx, id, ownerID)
		if err != nil {
			return err
		}

		before := task
		if err := change(&task); err != nil {
			return err
		}

		if err := checkNewWorkspace(ctx, tx, ownerID, before.WorkspaceID, task.WorkspaceID); err != nil {
			return err
		}

		now, err := clock(ctx, tx)
		if err != nil {
			return err
		}

		replanned := replanned(before, task)
		if replanned {
			if err := recordBefore(ctx, tx, before, now); err != nil {
				return err
			}
		}

		if err := planNext(&task, now); err != nil {
			return err
		}

		args := specArgs(task)
		args["due"], args["pending"] = before.Cron != task.Cron || before.Timezone != task.Timezone, domain.NewID()
		args["failures"], args["paused"], args["session"] = task.ConsecutiveFailures, task.PausedReason, task.SessionID
		changed, err = oneTask(ctx, tx, `
			UPDATE scheduled_tasks
			SET    title = @title, prompt = @prompt, cron = @cron, timezone = @zone, enabled = @enabled, expires_at = @expires,
			       skip_confirmations = @skip, model = @model, persistent = @persistent, overlap = @overlap, catchup_window_s = @catchup,
			       pause_on_failure_after = @pause, jitter_s = @jitter, budget = @budget, output_schema = @schema,
			       files = @files, commands = @commands,
			       next_run_at = CASE WHEN custom_due AND NOT @due THEN next_run_at ELSE @next END, custom_due = custom_due AND NOT @due,
			       consecutive_failures = @failures, paused_reason = @paused,
			       session_id = @session, notify = @notify, question_policy = @policy, workspace_id = @workspace, setup = @setup,
			       pending = @pending, updated_at = now()
			WHERE  id = @id RETURNING `+taskColumns, args)

		return err
	})

	return changed, pg.Fault("change scheduled task", err)
}

// DeleteScheduledTask takes a task from its owner at once. Its rows go when the
// engine's schedule is gone; runs that work continue in their sessions.
func (s *Store) DeleteScheduledTask(ctx context.Context, ownerID, id string) error {
	tag, err := s.db.Pool.Exec(ctx, `
		UPDATE scheduled_tasks SET deleted_at = now(), enabled = false, pending = 'deleted'
		WHERE  id = $1 AND owner_id = $2 AND deleted_at IS NULL`, id, ownerID)
	if err == nil && tag.RowsAffected() == 0 {
		err = notOwn(ctx, s.db.Pool, ownerID, id)
	}

	return pg.Fault("delete scheduled task", err)
}

// ScheduledRuns gives a page of the records of a task that the user may see, the newest first.
func (s *Store) ScheduledRuns(ctx context.Context, userID, taskID string, offset, limit int) ([]schedule.Run, error) {
	if _, err := s.ScheduledTask(ctx, userID, taskID); err != nil {
		return nil, err
	}

	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+runColumns+` FROM scheduled_runs WHERE task_id = $1 ORDER BY scheduled_for DESC OFFSET $2 LIMIT $3`, taskID, offset, limit)
	runs, err := pgx.CollectRows(rows, scanRun)

	return runs, pg.Fault("list scheduled runs", err)
}

// Next returns the next tick of a task after a time, without its jitter; false: there is none.
func Next(task schedule.Task, after time.Time) (tick time.Time, ok bool, err error) {
	parsed, err := cron.Parse(task.Cron)
	if err != nil {
		return tick, false, fmt.Errorf("scheduled task %s has the cron expression %q: %w", task.ID, task.Cron, err)
	}

	zone, err := time.LoadLocation(task.Timezone)
	if err != nil {
		return tick, false, err
	}

	tick, ok = parsed.Next(after, zone)

	tick = tick.UTC()
	if !ok || task.ExpiresAt != nil && !tick.Before(*task.ExpiresAt) {
		return tick, false, nil
	}

	return tick, true, nil
}

// previous returns the last tick of a task before a time; zero: there is none in the years that are searched.
func previous(task schedule.Task, before time.Time) (last time.Time, err error) {
	const searched = 10 * 366 * 24 * time.Hour

	for span := time.Hour; span < searched; span *= 4 {
		for at := before.Add(-span); ; {
			tick, ok, err := Next(task, at)
			if err != nil {
				return last, err
			}

			if !ok || !tick.Before(before) {
				break
			}

			at, last = tick, tick
		}

		if !last.IsZero() {
			return last, nil
		}
	}

	return last, nil
}

// planNext sets the next tick of a task.
func planNext(task *schedule.Task, after time.Time) error {
	task.NextRunAt = nil
	if !task.Enabled {
		return nil
	}

	tick, ok, err := Next(*task, after)
	if err != nil || !ok {
		return err
	}

	task.NextRunAt = &tick

	return nil
}

func specArgs(t schedule.Task) pgx.NamedArgs {
	var schema any
	if len(t.OutputSchema) > 0 {
		schema = t.OutputSchema
	}

	return pgx.NamedArgs{
		"id": t.ID, "title": t.Title, "prompt": t.Prompt, "cron": t.Cron, "zone": t.Timezone, "enabled": t.Enabled, "expires": t.ExpiresAt,
		"skip": t.SkipConfirmations, "model": t.Model, "persistent": t.Persistent, "overlap": t.Overlap, "catchup": t.CatchupWindowS,
		"pause": t.PauseAfter, "jitter": t.JitterS, "budget": t.Budget, "schema": schema,
		"files": orNone(t.Files), "commands": orNone(t.Commands), "next": t.NextRunAt,
		"notify": orNone(t.Notify), "policy": t.QuestionPolicy, "workspace": t.WorkspaceID, "setup": t.Setup,
	}
}

// orNone gives a list that a column takes which is never NULL.
func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}

	return list
}

// lockTask takes the row of a task, which orders its ticks, its runs and its changes.
// An empty owner means that the service itself asks for it.
func lockTask(ctx context.Context, tx pgx.Tx, id, ownerID string) (schedule.Task, error) {
	task, err := oneTask(ctx, tx, `
		SELECT `+taskColumns+` FROM scheduled_tasks
		WHERE  id = @id AND (@owner = '' OR owner_id = @owner) AND deleted_at IS NULL
		    FOR UPDATE`, pgx.NamedArgs{"id": id, "owner": ownerID})
	if errors.Is(err, pgx.ErrNoRows) {
		err = notOwn(ctx, tx, ownerID, id)
	}

	return task, err
}

func oneTask(ctx context.Context, q pg.Queryer, sql string, args pgx.NamedArgs) (schedule.Task, error) {
	rows, _ := q.Query(ctx, sql, args)
	return pgx.CollectExactlyOneRow(rows, scanTask)
}

func scanTask(row pgx.CollectableRow) (schedule.Task, error) {
	var (
		t      schedule.Task
		custom bool // it has no cron expression in words
	)

	err := row.Scan(
		&t.ID,
		&t.OwnerID,
		&t.Title,
		&t.Prompt,
		&t.Cron,
		&t.Timezone,
		&t.Enabled,
		&t.ExpiresAt,
		&t.SkipConfirmations,
		&t.Model,
		&t.Persistent,
		&t.Overlap,
		&t.CatchupWindowS,
		&t.PauseAfter,
		&t.JitterS,
		&t.Budget,
		&t.OutputSchema,
		&t.Files,
		&t.Commands,
		&t.SessionID,
		&t.NextRunAt,
		&t.LastRunAt,
		&t.LastStatus,
		&t.ConsecutiveFailures,
		&t.PausedReason,
		&t.CreatedAt,
		&t.UpdatedAt,
		&t.Notify,
		&t.QuestionPolicy,
		&t.WorkspaceID,
		&custom,
		&t.Setup,
	)
	t.Settle()

	if parsed, fault := cron.Parse(t.Cron); fault == nil && !custom {
		t.CronText = parsed.String()
	}

	return t, err
}

// clock returns the time of the database, by which ticks are taken.
func clock(ctx context.Context, tx pgx.Tx) (now time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
	return now, err
}
