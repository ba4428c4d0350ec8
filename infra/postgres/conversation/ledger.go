package conversation

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/chat"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// ClaimCall takes a tool call from reserved to running, committed before
// anything is executed. One that a living worker runs is left to it. One whose
// worker has died is taken over as abandoned: the caller decides by the tool
// whether it may run again.
//
// Claimant is a nonce of this claim, or empty. A running call that bears it was
// claimed by an earlier try whose answer was lost: it has not started.
func (s *Store) ClaimCall(ctx context.Context, toolCallID, claimant string) (domain.LedgerCall, domain.LedgerState, error) {
	call, claimed, err := s.claimReserved(ctx, toolCallID, claimant)
	if err != nil || claimed {
		return call, domain.CallClaimed, err
	}

	return s.claimBegun(ctx, toolCallID, claimant)
}

// claimReserved claims a reserved call, which is the ordinary case, in one statement. Its
// conditions are those under which chat.ClaimCall answers domain.CallClaimed.
func (db *Base) claimReserved(ctx context.Context, toolCallID, claimant string) (call domain.LedgerCall, claimed bool, err error) {
	call.ID = toolCallID

	err = db.Pool.QueryRow(ctx, `
		UPDATE tool_calls t
		SET    phase = 'running', attempt = t.attempt + 1, started_at = now(), lease_until = now() + $2::interval,
		    claimed_by = nullif($3, '')
		FROM   chats c, entries e LEFT JOIN loops l ON l.id = e.loop_id, sessions s
		WHERE  t.id = $1 AND t.phase = 'queued' AND t.status = 'pending'
		AND    c.id = t.chat_id AND `+Alive+` AND `+permitted+`
		AND    e.id = t.entry_id AND s.id = t.session_id AND s.deleted_at IS NULL
		RETURNING t.session_id, t.chat_id, t.entry_id, e.loop_id, t.tool_name, t.arguments, t.attempt, t.started_at, c.mode,
		          c.headless OR l.task_id IS NOT NULL, `+captureDueIn("t.session_id")+`, `+LoopColumns+`, `+sessions.WorkColumns,
		toolCallID, domain.CallLease, claimant).
		Scan(slices.Concat([]any{
			&call.SessionID, &call.ChatID, &call.EntryID, &call.LoopID, &call.ToolName, &call.Arguments, &call.Attempt, &call.StartedAt,
			&call.Mode, &call.Headless, &call.CaptureDue,
		}, LoopFields(&call.Loop), sessions.WorkFields(&call.Session))...)
	if errors.Is(err, pgx.ErrNoRows) {
		return call, false, nil
	}

	return call, err == nil, pg.Fault("claim tool call", err)
}

// claimBegun claims a call that claimReserved does not, as chat.ClaimCall decides.
func (s *Store) claimBegun(ctx context.Context, toolCallID, claimant string) (call domain.LedgerCall, state domain.LedgerState, err error) {
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		var found chat.Call

		call = domain.LedgerCall{ID: toolCallID, CaptureDue: true} // at most for nothing

		err := tx.QueryRow(ctx, `
			SELECT t.session_id, t.chat_id, t.entry_id, e.loop_id, t.tool_name, t.arguments, t.attempt, t.phase,
			       coalesce(t.lease_until > now(), false), coalesce(t.claimed_by = nullif($2, ''), false), t.takeover_announced,
			       `+Alive+`, `+permitted+`,
			       c.mode, c.headless OR l.task_id IS NOT NULL, `+LoopColumns+`
			FROM   tool_calls t JOIN chats c ON c.id = t.chat_id JOIN entries e ON e.id = t.entry_id LEFT JOIN loops l ON l.id = e.loop_id
			WHERE  t.id = $1 FOR UPDATE OF t`, toolCallID, claimant).
			Scan(append([]any{
				&call.SessionID, &call.ChatID, &call.EntryID, &call.LoopID, &call.ToolName, &call.Arguments, &call.Attempt,
				&found.Phase, &found.Held, &found.Own, &found.Announced, &found.Alive, &found.Permitted, &call.Mode, &call.Headless,
			}, LoopFields(&call.Loop)...)...)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.Newf(domain.NotFound, domain.CodeCallNotFound, "tool call %s does not exist", toolCallID)
		}

		if err != nil {
			return err
		}

		state = chat.ClaimCall(found)
		if state == domain.CallHeld && !found.Held {
			return announceTakeover(ctx, tx, toolCallID)
		}

		if state != domain.CallClaimed && state != domain.CallAbandoned {
			return nil
		}

		return tx.QueryRow(ctx, `
			UPDATE tool_calls SET phase = 'running', attempt = attempt + 1, started_at = coalesce(started_at, now()),
			       lease_until = now() + $2::interval, claimed_by = nullif($3, ''),
			       takeover_announced = false
			WHERE  id = $1 RETURNING attempt, started_at`, toolCallID, domain.CallLease, claimant).Scan(&call.Attempt, &call.StartedAt)
	})
	if err != nil || (state != domain.CallClaimed && state != domain.CallAbandoned) {
		return call, state, err
	}

	call.Session, err = sessions.ByID(ctx, s.Pool, call.SessionID)

	return call, state, err
}

// announceTakeover extends the lease of a call a last time. Its worker cancels the takeover by
// renewing the lease, if it is alive.
func announceTakeover(ctx context.Context, tx pgx.Tx, toolCallID string) error {
	_, err := tx.Exec(ctx, `
		UPDATE tool_calls SET takeover_announced = true, lease_until = now() + $2::interval WHERE id = $1`,
		toolCallID, domain.TakeoverNotice)

	return err
}

// RenewCall reports that the worker which runs the call is alive.
func (db *Base) RenewCall(ctx context.Context, toolCallID string, attempt int) error {
	tag, err := db.Pool.Leases().Exec(ctx, `
		UPDATE tool_calls SET lease_until = now() + $3::interval, takeover_announced = false
		WHERE  id = $1 AND attempt = $2 AND phase = 'running'`, toolCallID, attempt, domain.CallLease)
	if err == nil && tag.RowsAffected() == 0 {
		return domain.ErrFenced
	}

	return err
}

// RecordCall writes the outcome of a call that this attempt still holds, and
// emits it.
func (s *Store) RecordCall(ctx context.Context, call domain.LedgerCall, done domain.FinishedCall) error {
	var events pg.Events
	if err := events.Emit(call.SessionID, call.ChatID, domain.EventTurnPatch, domain.ToolResultPatch{
		TurnID: call.EntryID, PatchType: domain.PatchToolResult, ToolCallID: call.ID,
		Result: done.Result, Status: done.Status, DurationMS: done.Duration.Milliseconds(), Connections: done.Connections,
		Images: done.Images,
	}); err != nil {
		return err
	}

	for _, change := range done.Changes {
		if err := events.Emit(call.SessionID, call.ChatID, domain.EventFileChanged, change); err != nil {
			return err
		}
	}

	return s.UpdateOne(ctx, &events, pg.Statement{
		Parts: `
		changed AS (
			UPDATE tool_calls SET status = @status, phase = @phase, result = @result, duration_ms = @duration, connections = @connections,
			       images = @images
			WHERE  id = @call AND attempt = @attempt AND phase = 'running' RETURNING 1)`,
		Args: pgx.NamedArgs{
			"status": done.Status, "phase": done.Phase, "result": done.Result, "duration": done.Duration.Milliseconds(),
			"call": call.ID, "attempt": call.Attempt, "connections": pg.NullIfEmpty(done.Connections),
			"images": pg.NullIfEmpty(done.Images),
		},
	})
}

// CallStatus returns the recorded status of a call.
func (db *Base) CallStatus(ctx context.Context, toolCallID string) (status domain.ToolCallStatus, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT status FROM tool_calls WHERE id = $1`, toolCallID).Scan(&status)
	return status, err
}
