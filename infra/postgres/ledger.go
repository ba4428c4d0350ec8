package postgres

import (
	"context"
	"errors"
	"fmt"
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
func (j *Journal) ClaimCall(ctx context.Context, toolCallID string) (call domain.LedgerCall, state domain.LedgerState, err error) {
	err = j.InTx(ctx, func(tx pgx.Tx) error {
		var phase string
		var running, stop, held bool
		call = domain.LedgerCall{ID: toolCallID}
		err := tx.QueryRow(ctx, `
			SELECT t.session_id, t.chat_id, t.entry_id, e.loop_id, t.tool_name, t.arguments, t.attempt, t.phase,
			       coalesce(t.lease_until > now(), false),
			       c.state = 'running', c.stop_requested, c.mode, c.headless
			FROM   tool_calls t JOIN chats c ON c.id = t.chat_id JOIN entries e ON e.id = t.entry_id
			WHERE  t.id = $1 FOR UPDATE OF t`, toolCallID).
			Scan(&call.SessionID, &call.ChatID, &call.EntryID, &call.LoopID, &call.ToolName, &call.Arguments, &call.Attempt,
				&phase, &held, &running, &stop, &call.Mode, &call.Headless)
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
		case !running || stop:
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
	return j.Commit(ctx, func(c *Change) error {
		tag, err := c.Exec(ctx, `
			UPDATE tool_calls SET status = $3, phase = $4, result = $5, duration_ms = $6
			WHERE  id = $1 AND attempt = $2 AND phase = 'running'`,
			call.ID, call.Attempt, done.Status, done.Phase, done.Result, done.Duration.Milliseconds())
		if err != nil {
			return fmt.Errorf("record tool call: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return domain.ErrFenced
		}
		if err := c.Emit(call.SessionID, call.ChatID, domain.EventTurnPatch, toolResultPatch{
			TurnID: call.EntryID, PatchType: domain.PatchToolResult, ToolCallID: call.ID,
			Result: done.Result, Status: done.Status, DurationMS: done.Duration.Milliseconds(),
		}); err != nil {
			return err
		}
		for _, change := range done.Changes {
			if err := c.Emit(call.SessionID, call.ChatID, domain.EventFileChanged, change); err != nil {
				return err
			}
		}
		return nil
	})
}

// CallStatus gives the recorded status of a call.
func (db *DB) CallStatus(ctx context.Context, toolCallID string) (status domain.ToolCallStatus, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT status FROM tool_calls WHERE id = $1`, toolCallID).Scan(&status)
	return status, err
}
