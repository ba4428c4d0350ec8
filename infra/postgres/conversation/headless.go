package conversation

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/schema"
)

// headlessEnd returns the end of a headless chat that would complete. An answer that
// was to be JSON and cannot be read as such ends it as a mismatch, with the text
// as it is: a step that fails for it would fail on each try.
func headlessEnd(ctx context.Context, tx pgx.Tx, chat lockedChat) (ending, error) {
	text, err := lastAnswer(ctx, tx, chat.ID)
	if err != nil {
		return ending{}, err
	}

	end := ending{reason: domain.FinishCompleted}

	result := &domain.ChatResult{Output: text}
	if chat.OutputSchema != nil {
		result.Schema = chat.OutputSchema
		if value, err := schema.JSONAnswer(text); err == nil {
			result.Output = value
		} else {
			end = ending{
				reason:  domain.FinishSchemaMismatch,
				code:    string(domain.FinishSchemaMismatch),
				message: "the answer is not one JSON value",
			}
		}
	}

	end.result = result

	return end, nil
}

// lastAnswer returns the text of the last completed turn of a chat's main loop.
func lastAnswer(ctx context.Context, tx pgx.Tx, chatID domain.ChatID) (string, error) {
	var blocks []domain.Block

	err := tx.QueryRow(ctx, `
		SELECT blocks FROM entries
		WHERE  chat_id = $1 AND role = 'assistant' AND loop_id = 'root' AND status = 'completed'
		ORDER BY sequence DESC LIMIT 1`, chatID).Scan(&blocks)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", err
	}

	text := ""

	for _, b := range blocks {
		if b.Type == domain.BlockText {
			text += b.Content
		}
	}

	return text, nil
}
