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
	"everloop/domain/target"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

var runColumns = `
	id, task_id, session_id, status, outcome, reason_code, error_code, error, scheduled_for, triggered_at, finished_at,
	(extract(epoch FROM coalesce(started_at, triggered_at) - coalesce(due_at, scheduled_for)) * 1000)::bigint, attempt, checks, started, ` +
	sessions.UsageColumns("scheduled_runs")

func scanRun(row pgx.CollectableRow) (schedule.Run, error) {
	var r schedule.Run

	err := row.Scan(append([]any{
		&r.ID, &r.TaskID, &r.SessionID, &r.Status, &r.Outcome, &r.ReasonCode, &r.ErrorCode, &r.Error, &r.ScheduledFor, &r.TriggeredAt,
		&r.FinishedAt, &r.DriftMS, &r.Attempt, &r.Checks, &r.Started,
	}, sessions.UsageFields(&r.Usage)...)...)

	return r, err
}

func oneRun(ctx context.Context, q pg.Queryer, sql string, args pgx.NamedArgs) (schedule.Run, error) {
	rows, _ := q.Query(ctx, sql, args)
	return pgx.CollectExactlyOneRow(rows, scanRun)
}

// openRun is a run that is not over, under the lock of its task.
type openRun struct {
	task      schedule.Task
	sessionID *domain.SessionID
	chatID    *domain.ChatID
	started   *target.Started
	cancelled bool
	ended     bool // cancelled by an administrator, who may have closed the account of its owner
}

// cancelledByAdministrator is the end of a run that an administrator has cancelled. Its
// code is written when that is asked for.
var cancelledByAdministrator = domain.RunEnd{Status: domain.RunFailed, Reason: "cancelled", Error: "an administrator cancelled the run"}

// stopped returns the end of a run that was cancelled: by an administrator, else for the next one.
func (r openRun) stopped() domain.RunEnd {
	if r.ended {
		return cancelledByAdministrator
	}

	return domain.EndOfRun("", "", "", true)
}

// lockRun takes the lock of the run's task. Without a run that works, found is false.
func lockRun(ctx context.Context, tx pgx.Tx, runID string) (run openRun, found bool, err error) {
	var taskID string

	err = tx.QueryRow(ctx, `SELECT task_id FROM scheduled_runs WHERE id = $1`, runID).Scan(&taskID)
	if errors.Is(err, pgx.ErrNoRows) {
		return run, false, nil
	}

	if err != nil {
		return run, false, err
	}
	// A task that was deleted lets its runs end.
	run.task, err = oneTask(ctx, tx, `SELECT `+taskColumns+` FROM scheduled_tasks WHERE id = @id FOR UPDATE`, pgx.NamedArgs{"id": taskID})
	if errors.Is(err, pgx.ErrNoRows) {
		return run, false, nil
	}

	if err != nil {
		return run, false, err
	}

	err = tx.QueryRow(ctx, `
		SELECT r.session_id, r.chat_id, r.started, r.cancel_requested OR u.closed,
		       u.closed OR r.cancel_requested AND coalesce(r.error_code = $2 OR r.reason_code = $2, false)
		FROM   scheduled_runs r, users u WHERE r.id = $1 AND r.state = 'running' AND u.id = $3`,
		runID, cancelledByAdministrator.Reason, run.task.OwnerID).
		Scan(&run.sessionID, &run.chatID, &run.started, &run.cancelled, &run.ended)
	if errors.Is(err, pgx.ErrNoRows) {
		return run, false, nil
	}

	return run, err == nil, err
}

// ClaimRun gives a run to its workflow, with the session that it uses: the task's own
// one if that is still there, else a new one, which is the same each time. It makes the record
// of a tick that its Schedule has started.
func (s *Store) ClaimRun(ctx context.Context, in schedule.RunStart) (claimed schedule.ClaimedRun, plan schedule.TickPlan, err error) {
	taskID, nominal, valid := schedule.SplitRunID(in.RunID)
	if !valid {
		return schedule.ClaimedRun{Ended: true}, plan, nil
	}

	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		claimed, plan = schedule.ClaimedRun{RunID: in.RunID, Ended: true}, schedule.TickPlan{}

		execution, err := beginRun(ctx, tx, in, taskID, nominal)
		if err != nil || execution == "" {
			return err
		}

		run, found, err := lockRun(ctx, tx, in.RunID)
		if err != nil || !found {
			return err
		}

		claimed.Execution, claimed.TaskID = execution, taskID
		claimed.OwnerID, claimed.Task, claimed.Tick.Time = run.task.OwnerID, run.task.TaskSpec, nominal

		if run.cancelled && !run.begun() {
			claimed.Cancelled = true

			if err := takeSent(ctx, tx, in.RunID, execution, &run, &plan); err != nil {
				return err
			}

			if run.chatID == nil {
				return endRun(ctx, tx, in.RunID, run, run.stopped(), &plan)
			}
		}

		claimed.Ended, claimed.Begun = false, run.begun()
		if claimed.Tick.Previous, err = previous(run.task, nominal); err != nil {
			return err
		}

		if run.sessionID != nil {
			claimed.SessionID = *run.sessionID
		}

		if run.sessionID != nil || !run.task.Target.Kind.Chats() {
			return nil
		}

		if claimed.SessionID, err = sessionOf(ctx, tx, run.task); err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `UPDATE scheduled_runs SET session_id = $2 WHERE id = $1`, in.RunID, claimed.SessionID)

		return err
	})

	return claimed, plan, pg.Fault("claim a scheduled run", err)
}

// beginRun makes the record of a run, or takes the one that is there, and returns the execution that
// began it. Empty: there is nothing to run.
func beginRun(ctx context.Context, tx pgx.Tx, in schedule.RunStart, taskID string, nominal time.Time) (execution string, err error) {
	task, err := oneTask(ctx, tx, `SELECT `+taskColumns+` FROM scheduled_tasks WHERE id = @id FOR UPDATE`, pgx.NamedArgs{"id": taskID})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}

	if err != nil {
		return "", err
	}

	var (
		state string
		by    *string
		// A run that was cancelled while it waited does not start, and one that was asked for runs once.
		cancelled, manual bool
	)

	err = tx.QueryRow(ctx, `
		SELECT state, execution, coalesce(error_code = 'cancelled', false), manual FROM scheduled_runs WHERE id = $1`, in.RunID).
		Scan(&state, &by, &cancelled, &manual)
	known := !errors.Is(err, pgx.ErrNoRows)

	switch {
	case err != nil && known:
		return "", err
	case !known && in.Resumed:
		return "", nil
	case known && state == "running" && by != nil, known && in.Resumed && by != nil:
		return *by, nil
	case known && state == "ended" && (cancelled && by == nil || by != nil && (manual || *by == in.Execution)):
		return "", nil
	case known && state != "ended":
		_, err = tx.Exec(ctx, `
			UPDATE scheduled_runs SET state = 'running', asked = false, execution = $2, triggered_at = clock_timestamp() WHERE id = $1`,
			in.RunID, in.Execution)

		return in.Execution, err
	}

	var stopped bool // the task was deleted before its tick
	if err := tx.QueryRow(ctx, `SELECT deleted_at IS NOT NULL FROM scheduled_tasks WHERE id = $1`, taskID).
		Scan(&stopped); err != nil ||
		stopped {
		return "", err
	}

	return takeTick(ctx, tx, in, task, nominal, known)
}

// takeTick records a tick whose workflow starts; with known there is a record that did not run, or
// that is run again by a backfill.
func takeTick(ctx context.Context, tx pgx.Tx, in schedule.RunStart, task schedule.Task, nominal time.Time, known bool) (string, error) {
	now, err := clock(ctx, tx)
	if err != nil {
		return "", err
	}

	decision, due, err := begin(ctx, tx, in, task, nominal, now, known)
	if err != nil {
		return "", err
	}

	if known {
		if _, err := tx.Exec(ctx, `DELETE FROM scheduled_runs WHERE id = $1`, in.RunID); err != nil {
			return "", err
		}
	}

	state := "running"
	if !decision.Runs {
		state = "ended"
	}

	run, err := insertRun(ctx, tx, task, nominal, due, state, now, decision)
	if err != nil {
		return "", err
	}

	if !decision.Runs {
		return "", notify.TaskEvent(ctx, tx, webhook.RunMissed, task, []schedule.Run{run})
	}

	_, err = tx.Exec(ctx, `UPDATE scheduled_runs SET execution = $2 WHERE id = $1`, in.RunID, in.Execution)

	return in.Execution, err
}

// begin decides about a tick whose workflow starts.
func begin(ctx context.Context, tx pgx.Tx, in schedule.RunStart, task schedule.Task, nominal, now time.Time, known bool) (
	decision schedule.Decision, due time.Time, err error,
) {
	if due = nominal; in.Due != nil {
		due = *in.Due
	}

	var (
		closed, custom bool
		running        int
	)

	err = tx.QueryRow(ctx, `
		SELECT u.closed, t.custom_due, (SELECT count(*) FROM scheduled_runs WHERE task_id = t.id AND state = 'running')
		FROM   scheduled_tasks t JOIN users u ON u.id = t.owner_id WHERE t.id = $1`, task.ID).Scan(&closed, &custom, &running)
	if err != nil {
		return decision, due, err
	}

	switch {
	case closed:
		return schedule.Decision{Outcome: schedule.TickBlocked, Reason: domain.CodeAccountClosed}, due, nil
	case running >= schedule.MaxOpenRuns:
		return schedule.Decision{Outcome: schedule.TickSkipped, Reason: schedule.ReasonTooManyRuns}, due, nil
	}

	parsed, err := cron.Parse(task.Cron)
	if err != nil {
		return decision, due, err
	}

	zone, err := time.LoadLocation(task.Timezone)
	if err != nil {
		return decision, due, err
	}

	return task.Begin(schedule.Beginning{
		Matches: custom || parsed.Matches(nominal, zone), Late: in.StartedAt.Sub(due), Age: now.Sub(due), Before: known,
		Early: nominal.Before(task.CreatedAt.Truncate(time.Minute)),
	}), due, nil
}

// takeSent gives a cancelled run the chat that an earlier attempt has started without recording
// it, and has it stopped. A message that was not sent is refused from now on.
func takeSent(ctx context.Context, tx pgx.Tx, runID, execution string, run *openRun, plan *schedule.TickPlan) error {
	if run.sessionID == nil {
		return nil
	}

	chatID, sent, err := pg.CancelSend(ctx, tx, *run.sessionID, schedule.MessageID(runID, execution))
	if err != nil || !sent {
		return err
	}

	run.chatID = &chatID
	plan.TaskID, plan.Stop = run.task.ID, append(plan.Stop,
		domain.RunChat{OwnerID: run.task.OwnerID, SessionID: *run.sessionID, ChatID: chatID})

	return setBegun(ctx, tx, runID, run.task.ID, target.Started{Kind: run.task.Target.Kind, SessionID: *run.sessionID, ChatID: chatID})
}

func setBegun(ctx context.Context, tx pgx.Tx, runID, taskID string, started target.Started) error {
	var batch pgx.Batch
	batch.Queue(`
		UPDATE scheduled_runs
		SET    chat_id = nullif($2, ''), started = $3, started_at = coalesce(started_at, clock_timestamp()) WHERE id = $1`,
		runID, started.ChatID, started)
	batch.Queue(`UPDATE scheduled_tasks SET last_run_at = now(), last_status = 'running' WHERE id = $1`, taskID)

	return tx.SendBatch(ctx, &batch).Close()
}

func sessionOf(ctx context.Context, tx pgx.Tx, task schedule.Task) (domain.SessionID, error) {
	if !task.Persistent {
		return domain.SessionID(domain.NewID()), nil
	}

	var kept domain.SessionID

	err := tx.QueryRow(ctx, `
		SELECT s.id FROM sessions s WHERE s.id = $1 AND s.owner_id = $2 AND s.deleted_at IS NULL`, task.SessionID, task.OwnerID).Scan(&kept)
	if !errors.Is(err, pgx.ErrNoRows) {
		return kept, err
	}

	kept = domain.SessionID(domain.NewID())
	_, err = tx.Exec(ctx, `UPDATE scheduled_tasks SET session_id = $2 WHERE id = $1`, task.ID, kept)

	return kept, err
}

// RunBegan records what a run has started; with true it was cancelled in the meantime.
func (s *Store) RunBegan(ctx context.Context, runID string, started target.Started) (cancelled bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		run, found, err := lockRun(ctx, tx, runID) // the task before the run, as everywhere
		if cancelled = run.cancelled || !found; err != nil || !found {
			return err // it has ended, and what it started is stopped
		}

		return setBegun(ctx, tx, runID, run.task.ID, started)
	})

	return cancelled, pg.Fault("begin a scheduled run", err)
}

// BlockRun ends a run whose message was rejected.
func (s *Store) BlockRun(ctx context.Context, runID, code, message string) (plan schedule.TickPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = schedule.TickPlan{}

		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found {
			return err
		}

		if _, err := tx.Exec(ctx, `
			UPDATE scheduled_runs SET outcome = $2, reason_code = $3, session_id = NULL WHERE id = $1
			    AND chat_id IS NULL`, runID, schedule.TickBlocked, code); err != nil {
			return err
		}

		if run.begun() { // kept, so that the stop is repeated until it was taken
			run.stop(&plan)

			if _, err := tx.Exec(ctx, `UPDATE scheduled_runs SET cancel_requested = true WHERE id = $1`, runID); err != nil {
				return err
			}
		}

		return endRun(ctx, tx, runID, run, domain.RunEnd{Status: domain.RunFailed, Reason: code, Error: message, Counts: true}, &plan)
	})

	return plan, pg.Fault("block a scheduled run", err)
}

// CancelRun asks for the end of a run: one that waits for its turn is over at once, the
// chat of another must be stopped. With false it has ended.
func (s *Store) CancelRun(ctx context.Context, runID string) (open bool, plan schedule.TickPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		open, plan = false, schedule.TickPlan{}
		end := cancelledByAdministrator

		tag, err := tx.Exec(ctx, `
			UPDATE scheduled_runs
			SET    state = 'ended', asked = false, status = $2, reason_code = coalesce(reason_code, $3), error_code = $3, error = $4,
			       finished_at = now()
			WHERE  id = $1 AND state = 'waiting'`, runID, end.Status, end.Reason, end.Error)
		if err != nil || tag.RowsAffected() == 1 {
			open = err == nil
			return err
		}

		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found {
			return err
		}

		open = true
		run.stop(&plan)

		_, err = tx.Exec(ctx, `UPDATE scheduled_runs SET cancel_requested = true, error_code = $2 WHERE id = $1`, runID, end.Reason)

		return err
	})

	return open, plan, pg.Fault("cancel a scheduled run", err)
}

// StopRun is asked for by a workflow that is cancelled: by the overlap policy of its Schedule, or by
// an operator. A run that has not started has ended.
func (s *Store) StopRun(ctx context.Context, runID string) (plan schedule.TickPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = schedule.TickPlan{}

		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found {
			return err
		}

		var execution string

		err = tx.QueryRow(ctx, `
			UPDATE scheduled_runs SET cancel_requested = true, error_code = CASE WHEN cancel_requested OR $2 THEN error_code ELSE $3 END
			WHERE  id = $1 RETURNING coalesce(execution, '')`,
			runID, run.task.Overlap == schedule.OverlapCancelOther, cancelledByAdministrator.Reason).Scan(&execution)
		if err != nil {
			return err
		}

		if run, _, err = lockRun(ctx, tx, runID); err != nil {
			return err
		}

		if !run.begun() {
			if err := takeSent(ctx, tx, runID, execution, &run, &plan); err != nil {
				return err
			}
		}

		if !run.begun() {
			return endRun(ctx, tx, runID, run, run.stopped(), &plan)
		}

		plan.Stop = nil
		run.stop(&plan)

		return nil
	})

	return plan, pg.Fault("stop a scheduled run", err)
}

// begun reports whether the target of the run was started.
func (r openRun) begun() bool { return r.chatID != nil || r.started != nil }

// stop adds the end of what the run has started to a plan.
func (r openRun) stop(plan *schedule.TickPlan) {
	plan.TaskID = r.task.ID

	switch {
	case r.sessionID != nil && r.chatID != nil:
		plan.Stop = append(plan.Stop, domain.RunChat{OwnerID: r.task.OwnerID, SessionID: *r.sessionID, ChatID: *r.chatID})
	case r.started != nil:
		plan.Cancel = append(plan.Cancel, *r.started)
	}
}

// StartedBy returns what a run that works has started; nil: nothing, or the run has ended.
func (s *Store) StartedBy(ctx context.Context, runID string) (started *target.Started, err error) {
	err = s.db.Pool.QueryRow(ctx, `SELECT started FROM scheduled_runs WHERE id = $1 AND state = 'running'`, runID).Scan(&started)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}

	return started, pg.Fault("read what a scheduled run has started", err)
}

// EndStarted ends a run whose DAG run or issue run has ended.
func (s *Store) EndStarted(ctx context.Context, runID string, end domain.RunEnd, used domain.Usage) (plan schedule.TickPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = schedule.TickPlan{}

		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found {
			return err
		}

		if _, err := tx.Exec(ctx, `
			UPDATE scheduled_runs
			SET    input_tokens = $2, output_tokens = $3, cache_read_tokens = $4, cache_write_tokens = $5, cost_nano = $6,
			       uncosted_tokens = $7
			WHERE  id = $1`, runID, used.InputTokens, used.OutputTokens, used.CacheReadTokens, used.CacheWriteTokens, used.Cost,
			used.UncostedTokens); err != nil {
			return err
		}

		if run.cancelled {
			end = run.stopped()
		}

		return endRun(ctx, tx, runID, run, end, &plan)
	})

	return plan, pg.Fault("end a scheduled run", err)
}

// EndRun ends a run whose chat has ended. A run whose outcome must be checked continues until EndChecks.
func (s *Store) EndRun(ctx context.Context, runID string) (next schedule.RunNext, plan schedule.TickPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		next, plan = schedule.RunOver, schedule.TickPlan{}

		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found {
			return err
		}

		if run.chatID == nil {
			next = schedule.RunWaits
			return nil
		}

		var chat chatEnd

		err = tx.QueryRow(ctx, `
			SELECT state, coalesce(finish_reason, ''), coalesce(error_code, ''), coalesce(error_message, '')
			FROM   chats WHERE id = $1`, *run.chatID).
			Scan(&chat.state, &chat.reason, &chat.code, &chat.message)
		if errors.Is(err, pgx.ErrNoRows) {
			return endRun(ctx, tx, runID, run, sessionDeleted, &plan)
		}

		if err != nil {
			return err
		}

		if chat.state != domain.ChatStateEnded {
			next = schedule.RunWaits
			return nil
		}

		if _, err := tx.Exec(ctx, `
			UPDATE scheduled_runs r
			SET    input_tokens = c.input_tokens, output_tokens = c.output_tokens, cache_read_tokens = c.cache_read_tokens,
			       cache_write_tokens = c.cache_write_tokens, cost_nano = c.cost_nano, uncosted_tokens = c.uncosted_tokens,
			       attempt = c.restarts + 1
			FROM   chats c WHERE r.id = $1 AND c.id = $2`, runID, *run.chatID); err != nil {
			return err
		}

		end := domain.EndOfRun(chat.reason, chat.code, chat.message, false)
		if run.cancelled {
			end = run.stopped()
		}

		if end.Status == domain.RunCompleted && run.task.HasOutcome() {
			next = schedule.RunChecks
			return nil
		}

		return endRun(ctx, tx, runID, run, end, &plan)
	})

	return next, plan, pg.Fault("end a scheduled run", err)
}

type chatEnd struct {
	state         domain.ChatState
	reason        domain.FinishReason
	code, message string
}

var sessionDeleted = domain.RunEnd{Status: domain.RunFailed, Reason: schedule.ReasonSessionDeleted, Error: "its session was deleted"}

// RunToCheck returns a run whose outcome must be checked; false: it has ended. The run of a
// session that is gone is cancelled.
func (s *Store) RunToCheck(ctx context.Context, runID string) (run schedule.OutcomeRun, found bool, err error) {
	run.RunID = runID

	var session *string

	err = s.db.Pool.QueryRow(ctx, `
		SELECT r.session_id, r.cancel_requested, t.files, t.commands
		FROM   scheduled_runs r JOIN scheduled_tasks t ON t.id = r.task_id
		WHERE  r.id = $1 AND r.state = 'running' AND r.chat_id IS NOT NULL`, runID).
		Scan(&session, &run.Cancelled, &run.Files, &run.Commands)
	if errors.Is(err, pgx.ErrNoRows) {
		return run, false, nil
	}

	if err == nil && !run.Cancelled {
		err = s.db.Pool.QueryRow(ctx, `SELECT `+sessions.WorkColumns+` FROM sessions s WHERE s.id = $1 AND s.deleted_at IS NULL`, session).
			Scan(sessions.WorkFields(&run.Session)...)
		if errors.Is(err, pgx.ErrNoRows) {
			run.Cancelled, err = true, nil
		}
	}

	return run, err == nil, pg.Fault("read a run to check", err)
}

// EndChecks ends a run whose outcome was checked. What was cancelled in the meantime, or lost
// its session, ends as that.
func (s *Store) EndChecks(ctx context.Context, runID string, checks []schedule.RunCheck) (plan schedule.TickPlan, err error) {
	if checks == nil {
		checks = []schedule.RunCheck{}
	}

	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = schedule.TickPlan{}

		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found {
			return err
		}

		var there bool

		err = tx.QueryRow(ctx, `
			WITH kept AS (UPDATE scheduled_runs SET checks = $2 WHERE id = $1)
			SELECT EXISTS (SELECT 1 FROM sessions WHERE id = $3 AND deleted_at IS NULL)`, runID, checks, run.sessionID).Scan(&there)
		if err != nil {
			return err
		}

		end := schedule.EndOfChecks(checks)

		switch {
		case run.cancelled:
			end = run.stopped()
		case !there:
			end = sessionDeleted
		}

		return endRun(ctx, tx, runID, run, end, &plan)
	})

	return plan, pg.Fault("end the checks of a scheduled run", err)
}

// endRun ends a run and counts it for its task, which may be disabled by it. The reason of its
// outcome, such as run_now, stays.
func endRun(ctx context.Context, tx pgx.Tx, runID string, run openRun, end domain.RunEnd, plan *schedule.TickPlan) error {
	ended, err := oneRun(ctx, tx, `
		UPDATE scheduled_runs
		SET    state = 'ended', status = @status, reason_code = coalesce(reason_code, nullif(@reason, '')),
		       error_code = nullif(@reason, ''), error = nullif(@error, ''), finished_at = clock_timestamp()
		WHERE  id = @id RETURNING `+runColumns,
		pgx.NamedArgs{"id": runID, "status": end.Status, "reason": end.Reason, "error": end.Error})
	if err != nil {
		return err
	}

	task := run.task
	plan.TaskID = task.ID

	switch {
	case end.Status == domain.RunCompleted:
		task.ConsecutiveFailures = 0
	case end.Counts:
		task.ConsecutiveFailures++
	}

	if task.PauseAfter > 0 && task.ConsecutiveFailures >= task.PauseAfter && task.Enabled && end.Counts {
		reason := fmt.Sprintf("%d runs in a row failed, the last one: %s", task.ConsecutiveFailures, end.Error)
		task.Enabled, task.PausedReason, plan.Push = false, &reason, true
	}

	if _, err := tx.Exec(ctx, `
		UPDATE scheduled_tasks
		SET    last_status = $2, consecutive_failures = $3, enabled = $4, paused_reason = $5,
		       next_run_at = CASE WHEN $4 THEN next_run_at END, pending = CASE WHEN $4 <> enabled THEN $6 ELSE pending END
		WHERE  id = $1`, task.ID, end.Status, task.ConsecutiveFailures, task.Enabled, task.PausedReason, domain.NewID()); err != nil {
		return err
	}

	return notifyEnd(ctx, tx, run.task, task, ended)
}

// notifyEnd reports to webhooks the end of a run, and that its task was disabled by it.
func notifyEnd(ctx context.Context, tx pgx.Tx, was, task schedule.Task, run schedule.Run) error {
	event := webhook.RunFailed
	if run.Status == domain.RunCompleted {
		event = webhook.RunCompleted
	}

	runs := []schedule.Run{run}
	if err := notify.TaskEvent(ctx, tx, event, task, runs); err != nil {
		return err
	}

	if !was.Enabled || task.Enabled {
		return nil
	}

	return notify.TaskEvent(ctx, tx, webhook.SchedulePaused, task, runs)
}

// StalledRuns lists runs that should have moved some seconds ago: those that no
// workflow has started, and those whose chat, DAG run or issue run has ended or is gone.
func (s *Store) StalledRuns(ctx context.Context, after string, limit int) ([]string, error) {
	return s.ids(ctx, `
		SELECT r.id FROM scheduled_runs r LEFT JOIN chats c ON c.id = r.chat_id LEFT JOIN dag_runs d ON d.id = r.started ->> 'run_id'
		WHERE  r.state = 'running' AND r.triggered_at < now() - interval '10 seconds' AND r.id > $1
		AND    CASE r.started ->> 'kind'
		       WHEN 'dag' THEN d.id IS NULL OR d.finished_at < now() - interval '10 seconds'
		       WHEN 'issue' THEN NOT EXISTS (
		           SELECT 1 FROM issue_runs i
		           WHERE  i.issue_id = r.started ->> 'issue_id'
		           AND    (i.finished_at IS NULL OR i.finished_at > now() - interval '10 seconds'))
		       ELSE c.id IS NULL OR c.state = 'ended' AND c.ended_at < now() - interval '10 seconds' END
		ORDER  BY r.id LIMIT $2`, after, limit)
}

// CancelledRuns lists the chats of runs that were to be stopped and continue.
func (s *Store) CancelledRuns(ctx context.Context) ([]domain.RunChat, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT t.owner_id, r.session_id, r.chat_id
		FROM   scheduled_runs r JOIN scheduled_tasks t ON t.id = r.task_id JOIN chats c ON c.id = r.chat_id
		WHERE  r.cancel_requested AND (r.state = 'running' OR r.finished_at > now() - interval '1 day')
		AND    c.state <> 'ended' AND NOT c.stop_requested LIMIT 200`)
	runs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[domain.RunChat])

	return runs, pg.Fault("list cancelled runs", err)
}

// CancelledTargets lists the DAG runs, and the issues whose runs, were to be cancelled and continue.
func (s *Store) CancelledTargets(ctx context.Context) ([]target.Started, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT started FROM scheduled_runs
		WHERE  cancel_requested AND state = 'running' AND chat_id IS NULL AND started IS NOT NULL LIMIT 200`)
	started, err := pgx.CollectRows(rows, pgx.RowTo[target.Started])

	return started, pg.Fault("list cancelled targets", err)
}
