package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// permitted is a condition on the tool call t: no question for permission holds
// it back.
const permitted = `NOT EXISTS (SELECT 1 FROM questions g WHERE g.guards = t.id AND g.state <> 'answered')`

// freed is a condition on the chat $1: the user has allowed a call of it that has not
// started. A sub-agent is reserved before it starts.
const freed = `EXISTS (
	SELECT 1 FROM questions g JOIN tool_calls t ON t.id = g.guards LEFT JOIN loops k ON k.id = t.id
	WHERE  g.chat_id = $1 AND g.state = 'answered' AND t.status = 'pending' AND t.phase = 'queued'
	AND    coalesce(k.state, 'reserved') = 'reserved'
	AND    ` + permitted + `)`

// ReadsOutside reports whether a call of the chat has a result from outside.
func (db *Base) ReadsOutside(ctx context.Context, chatID domain.ChatID) (reads bool, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM tool_calls t WHERE t.chat_id = $1 AND `+pg.ReadsOutside+`)`, chatID).
		Scan(&reads)

	return reads, pg.Fault("read calls of a chat", err)
}

// Permission returns whether the user has allowed the call, and the files that it named
// when they were asked. An answer that refused it has ended the call.
func (db *Base) Permission(ctx context.Context, toolCallID string) (allowed bool, files map[string]string, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT coalesce(files, '{}') FROM questions WHERE guards = $1 AND state = 'answered' LIMIT 1`, toolCallID).Scan(&files)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil, nil
	}

	return err == nil, files, pg.Fault("read permission", err)
}

// decideGuarded frees the call that an answered question has held back, or
// refuses it.
func decideGuarded(ctx context.Context, tx *pg.Tx, q domain.Question, by, answer string) error {
	if q.Guards == nil {
		return nil
	}

	decision, extent, reason := domain.PermissionVerdict(answer)
	if decision != domain.PermissionAllow {
		refused := "Not carried out: the user did not allow this call."
		if by == domain.AnsweredByPolicy {
			refused = "Not carried out: no user said in time whether it is allowed."
		}

		if reason = strings.TrimSpace(reason); reason != "" {
			refused += " The user says: " + reason
		}

		return settleGuarded(ctx, tx, q, domain.CallError, refused)
	}

	if extent == domain.PermittedOnce || len(q.Allows) == 0 {
		return nil
	}

	if extent == domain.PermittedAlways {
		if kept, err := allowAlways(ctx, tx, q); kept || err != nil {
			return err
		}
	}
	// A session that has all the rules it may have is asked again instead.
	_, err := tx.Exec(ctx, `
		UPDATE sessions SET setup = jsonb_set(setup, '{permissions}', $2::jsonb || coalesce(setup->'permissions', '[]'))
		WHERE  id = $1 AND jsonb_array_length(coalesce(setup->'permissions', '[]')) + jsonb_array_length($2::jsonb) <= $3`,
		q.SessionID, q.Allows, domain.MaxPermissionRules)
	if err != nil {
		return err
	}

	return settleEqual(ctx, tx, q, by, answer)
}

// settleEqual answers the other open questions of the chat about equal calls: a yes for
// the session covers them.
func settleEqual(ctx context.Context, tx *pg.Tx, q domain.Question, by, answer string) error {
	rows, _ := tx.Query(ctx, `
		UPDATE questions SET state = 'answered', answer = $4, resolved_by = $5, resolved_at = now()
		WHERE  session_id = $1 AND chat_id = $2 AND state = 'open' AND guards IS NOT NULL AND allows = $3::jsonb
		RETURNING `+questionColumns, q.SessionID, q.ChatID, q.Allows, json.RawMessage(answer), by)

	equal, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.Question])
	if err != nil {
		return err
	}

	for _, other := range equal {
		if err := settleQuestion(ctx, tx, other, domain.CallDone, answer, "answered", by); err != nil {
			return err
		}
	}

	return nil
}

// allowAlways gives the owner of the session the rules of domains that an answer
// allows. Not kept: they have as many as they may, and the session gets them instead.
func allowAlways(ctx context.Context, tx *pg.Tx, q domain.Question) (kept bool, err error) {
	var owner string
	if err := tx.QueryRow(ctx, `SELECT owner_id FROM sessions WHERE id = $1`, q.SessionID).Scan(&owner); err != nil {
		return false, err
	}

	for _, allowed := range q.Allows {
		rule, err := domain.ParseNetworkRule(allowed.Pattern)
		if err != nil || allowed.Tool != domain.NetworkTool {
			return false, nil
		}

		err = AllowNetworkRule(ctx, tx, owner, rule, map[string]string{"question_id": q.ID, "session_id": string(q.SessionID)})
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}

		if err != nil {
			return false, err
		}
	}

	return true, nil
}

// settleGuarded ends the call that a question has held back, which was never
// started, and emits it.
func settleGuarded(ctx context.Context, tx *pg.Tx, q domain.Question, status domain.ToolCallStatus, result string) error {
	if q.Guards == nil {
		return nil
	}

	var entry string

	err := tx.QueryRow(ctx, `
		WITH ended AS (UPDATE loops SET state = 'ended', ended_at = now() WHERE id = $1 AND state <> 'ended')
		UPDATE tool_calls SET status = $2, phase = 'finished', result = $3
		WHERE  id = $1 AND status = 'pending' AND phase = 'queued' RETURNING entry_id`, *q.Guards, status, result).Scan(&entry)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}

	if err != nil {
		return err
	}

	return tx.Emit(q.SessionID, q.ChatID, domain.EventTurnPatch, domain.ToolResultPatch{
		TurnID: domain.TurnID(entry), PatchType: domain.PatchToolResult, ToolCallID: *q.Guards, Result: result, Status: status,
	})
}
