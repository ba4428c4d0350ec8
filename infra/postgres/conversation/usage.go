package conversation

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/domain"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// ChatModel gives the model that a chat names; empty when it names none.
func (db *Base) ChatModel(ctx context.Context, sessionID domain.SessionID, chatID domain.ChatID) (string, error) {
	var model string

	err := db.Pool.QueryRow(ctx, `
		SELECT coalesce(model, '') FROM chats WHERE id = @chat AND session_id = @session`,
		pgx.NamedArgs{"chat": chatID, "session": sessionID}).Scan(&model)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", domain.SessionNotFound(sessionID)
	}

	return model, pg.Fault("read model of chat", err)
}

// CountUsage adds what a model call that is no turn has used to its chat, whose
// end adds the sum, to what its session has used of its budget, and to the usage of its
// day.
func (db *Base) CountUsage(ctx context.Context, sessionID domain.SessionID, chatID domain.ChatID, model string, usage domain.Usage) error {
	return pg.Fault("count usage", countUsage(ctx, db.Pool, sessionID, chatID, model, usage))
}

// executor is a pool or a transaction.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func countUsage(
	ctx context.Context,
	db executor,
	sessionID domain.SessionID,
	chatID domain.ChatID,
	model string,
	usage domain.Usage,
) error {
	args := sessions.UsageArgs(model, usage)
	args["chat"], args["session"] = chatID, sessionID
	_, err := db.Exec(ctx, `
		WITH locked AS MATERIALIZED (
			SELECT s.id, s.owner_id FROM sessions s JOIN chats c ON c.session_id = s.id
			WHERE  s.id = @session AND c.id = @chat FOR UPDATE OF s),
		chat AS (
			UPDATE chats c SET `+sessions.AddToChat+` FROM locked WHERE c.id = @chat),
		spent AS (
			UPDATE sessions s SET `+sessions.AddToSession+` FROM locked WHERE s.id = locked.id)
		`+sessions.CountUsage(`SELECT id, owner_id FROM locked`), args)

	return err
}
