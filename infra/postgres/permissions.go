package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// permitted is a condition on the tool call t: no question for permission holds
// it back.
const permitted = `NOT EXISTS (SELECT 1 FROM questions g WHERE g.guards = t.id AND g.state <> 'answered')`

// decideGuarded frees the call that an answered question has held back, or
// refuses it.
func decideGuarded(ctx context.Context, c *Change, q domain.Question, answer string) error {
	if q.Guards == nil {
		return nil
	}
	decision, always, reason := domain.PermissionVerdict(answer)
	if decision != domain.PermissionAllow {
		refused := "Not carried out: the user did not allow this call."
		if reason = strings.TrimSpace(reason); reason != "" {
			refused += " The user says: " + reason
		}
		return settleGuarded(ctx, c, q, domain.CallError, refused)
	}
	if !always || len(q.Allows) == 0 {
		return nil
	}
	// A session that has all the rules it may have is asked again instead.
	_, err := c.Exec(ctx, `
		UPDATE sessions SET setup = jsonb_set(setup, '{permissions}', $2::jsonb || coalesce(setup->'permissions', '[]'))
		WHERE  id = $1 AND jsonb_array_length(coalesce(setup->'permissions', '[]')) + jsonb_array_length($2::jsonb) <= $3`,
		q.SessionID, q.Allows, domain.MaxPermissionRules)
	return err
}

// settleGuarded ends the call that a question has held back, which was never
// begun, and tells of it.
func settleGuarded(ctx context.Context, c *Change, q domain.Question, status domain.ToolCallStatus, result string) error {
	if q.Guards == nil {
		return nil
	}
	var entry string
	err := c.QueryRow(ctx, `
		WITH ended AS (UPDATE loops SET state = 'ended', ended_at = now() WHERE id = $1 AND state <> 'ended')
		UPDATE tool_calls SET status = $2, phase = 'finished', result = $3
		WHERE  id = $1 AND status = 'pending' AND phase = 'queued' RETURNING entry_id`, *q.Guards, status, result).Scan(&entry)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.Emit(q.SessionID, q.ChatID, domain.EventTurnPatch, domain.ToolResultPatch{
		TurnID: entry, PatchType: domain.PatchToolResult, ToolCallID: *q.Guards, Result: result, Status: status,
	})
}
