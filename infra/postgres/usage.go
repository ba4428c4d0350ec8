package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// ChatModel gives the model that a chat names; empty when it names none.
func (db *DB) ChatModel(ctx context.Context, sessionID, chatID string) (string, error) {
	var model string
	err := db.Pool.QueryRow(ctx, `
		SELECT coalesce(model, '') FROM chats WHERE id = @chat AND session_id = @session`,
		pgx.NamedArgs{"chat": chatID, "session": sessionID}).Scan(&model)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", domain.SessionNotFound(sessionID)
	}
	return model, fault("read model of chat", err)
}

// CountUsage adds what a model call that is no turn has used to its chat, whose
// end tells the sum, and to what its session has used of its budget.
func (db *DB) CountUsage(ctx context.Context, sessionID, chatID string, usage domain.Usage, cost float64) error {
	_, err := db.Pool.Exec(ctx, `
		WITH counted AS (
			UPDATE chats SET input_tokens = input_tokens + @input, output_tokens = output_tokens + @output
			WHERE  id = @chat AND session_id = @session RETURNING session_id)
		UPDATE sessions SET used_tokens = used_tokens + @input + @output, used_cost = used_cost + @cost
		WHERE  id = (SELECT session_id FROM counted)`,
		pgx.NamedArgs{"chat": chatID, "session": sessionID, "input": usage.InputTokens, "output": usage.OutputTokens, "cost": cost})
	return fault("count usage", err)
}
