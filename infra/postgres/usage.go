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

// CountUsage adds the tokens of a model call that is no turn to its chat, whose
// end tells the sum.
func (db *DB) CountUsage(ctx context.Context, sessionID, chatID string, usage domain.Usage) error {
	_, err := db.Pool.Exec(ctx, `
		UPDATE chats SET input_tokens = input_tokens + @input, output_tokens = output_tokens + @output
		WHERE  id = @chat AND session_id = @session`,
		pgx.NamedArgs{"chat": chatID, "session": sessionID, "input": usage.InputTokens, "output": usage.OutputTokens})
	return fault("count usage", err)
}
