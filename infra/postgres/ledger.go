package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// CallLease is how long a worker holds a running call without renewing it. A
// call whose lease has run out was lost with its worker.
const CallLease = 10 * time.Second

// ClaimCall takes a tool call from reserved to running, committed before
// anything is executed. One that a living worker runs is left to it. One whose
// worker has died is taken over as abandoned: the caller decides by the tool
// whether it may run again.
func (j *Journal) ClaimCall(ctx context.Context, toolCallID string) (domain.LedgerCall, domain.LedgerState, error) {
	call, claimed, err := j.claimReserved(ctx, toolCallID)
	if err != nil || claimed {
		return call, domain.CallClaimed, err
	}
	return j.claimBegun(ctx, toolCallID)
}

// claimReserved takes a call that nobody has begun, which is the ordinary case,
// in one statement.
func (db *DB) claimReserved(ctx context.Context, toolCallID string) (call domain.LedgerCall, claimed bool, err error) {
	call.ID = toolCallID
	err = db.Pool.QueryRow(ctx, `
		UPDATE tool_calls t
		SET    phase = 'running', attempt = t.attempt + 1, started_at = now(), lease_until = now() + $2::interval
		FROM   chats c, entries e LEFT JOIN loops l ON l.id = e.loop_id, sessions s
		WHERE  t.id = $1 AND t.phase = 'queued' AND t.status = 'pending'
		AND    c.id = t.chat_id AND `+alive+` AND `+permitted+`
		AND    e.id = t.entry_id AND s.id = t.session_id AND s.deleted_at IS NULL
		RETURNING t.session_id, t.chat_id, t.entry_id, e.loop_id, t.tool_name, t.arguments, t.attempt, t.started_at, c.mode,
		          c.headless OR l.task_id IS NOT NULL, `+captureDueIn("t.session_id")+`, `+loopColumns+`, `+workColumns, toolCallID, CallLease).
		Scan(slices.Concat([]any{
			&call.SessionID, &call.ChatID, &call.EntryID, &call.LoopID, &call.ToolName, &call.Arguments, &call.Attempt, &call.StartedAt,
			&call.Mode, &call.Headless, &call.CaptureDue,
		}, loopFields(&call.Loop), workFields(&call.Session))...)
	if errors.Is(err, pgx.ErrNoRows) {
		return call, false, nil
	}
	return call, err == nil, fault("claim tool call", err)
}

// claimBegun decides about a call that is not simply waiting to be run.
func (j *Journal) claimBegun(ctx context.Context, toolCallID string) (call domain.LedgerCall, state domain.LedgerState, err error) {
	err = j.InTx(ctx, func(tx pgx.Tx) error {
		var phase string
		var goesOn, allowed, held bool
		call = domain.LedgerCall{ID: toolCallID, CaptureDue: true} // at most for nothing
		err := tx.QueryRow(ctx, `
			SELECT t.session_id, t.chat_id, t.entry_id, e.loop_id, t.tool_name, t.arguments, t.attempt, t.phase,
			       coalesce(t.lease_until > now(), false), `+alive+`, `+permitted+`, c.mode, c.headless OR l.task_id IS NOT NULL, `+loopColumns+`
			FROM   tool_calls t JOIN chats c ON c.id = t.chat_id JOIN entries e ON e.id = t.entry_id LEFT JOIN loops l ON l.id = e.loop_id
			WHERE  t.id = $1 FOR UPDATE OF t`, toolCallID).
			Scan(append([]any{
				&call.SessionID, &call.ChatID, &call.EntryID, &call.LoopID, &call.ToolName, &call.Arguments, &call.Attempt,
				&phase, &held, &goesOn, &allowed, &call.Mode, &call.Headless,
			}, loopFields(&call.Loop)...)...)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.Newf(domain.NotFound, "tool_call_not_found", "tool call %s does not exist", toolCallID)
		}
		if err != nil {
			return err
		}
		switch {
		case phase == domain.PhaseFinished || phase == domain.PhaseUnknownOutcome:
			state = domain.CallRecorded
			return nil
		case phase == domain.PhaseRunning && held:
			state = domain.CallHeld
			return nil
		case !goesOn || !allowed:
			state = domain.CallStopped
			return nil
		case phase == domain.PhaseRunning:
			state = domain.CallAbandoned
		default:
			state = domain.CallClaimed
		}
		return tx.QueryRow(ctx, `
			UPDATE tool_calls SET phase = 'running', attempt = attempt + 1, started_at = coalesce(started_at, now()),
			       lease_until = now() + $2::interval
			WHERE  id = $1 RETURNING attempt, started_at`, toolCallID, CallLease).Scan(&call.Attempt, &call.StartedAt)
	})
	if err != nil || (state != domain.CallClaimed && state != domain.CallAbandoned) {
		return call, state, err
	}
	call.Session, err = j.sessionByID(ctx, call.SessionID)
	return call, state, err
}

// RenewCall says that the worker which runs the call is alive.
func (db *DB) RenewCall(ctx context.Context, toolCallID string, attempt int) error {
	tag, err := db.Pool.Exec(ctx, `
		UPDATE tool_calls SET lease_until = now() + $3::interval
		WHERE  id = $1 AND attempt = $2 AND phase = 'running'`, toolCallID, attempt, CallLease)
	if err == nil && tag.RowsAffected() == 0 {
		return domain.ErrFenced
	}
	return err
}

// RecordCall writes the outcome of a call that this attempt still holds, and
// tells of it.
func (j *Journal) RecordCall(ctx context.Context, call domain.LedgerCall, done domain.FinishedCall) error {
	var told Change
	if err := told.Emit(call.SessionID, call.ChatID, domain.EventTurnPatch, domain.ToolResultPatch{
		TurnID: call.EntryID, PatchType: domain.PatchToolResult, ToolCallID: call.ID,
		Result: done.Result, Status: done.Status, DurationMS: done.Duration.Milliseconds(),
	}); err != nil {
		return err
	}
	for _, change := range done.Changes {
		if err := told.Emit(call.SessionID, call.ChatID, domain.EventFileChanged, change); err != nil {
			return err
		}
	}
	return j.commitOne(ctx, told.events, `
		UPDATE tool_calls SET status = $8, phase = $9, result = $10, duration_ms = $11
		WHERE  id = $12 AND attempt = $13 AND phase = 'running' RETURNING 1`,
		done.Status, done.Phase, done.Result, done.Duration.Milliseconds(), call.ID, call.Attempt)
}

// CallStatus gives the recorded status of a call.
func (db *DB) CallStatus(ctx context.Context, toolCallID string) (status domain.ToolCallStatus, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT status FROM tool_calls WHERE id = $1`, toolCallID).Scan(&status)
	return status, err
}
