package conversation

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
)

// ExpiredQuestions lists open questions whose time has ended, of sessions that are not busy
// with an operation on their history, in the order of their ids and after the given one.
func (db *Base) ExpiredQuestions(ctx context.Context, after string, limit int) ([]domain.ExpiredQuestion, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT q.id, q.session_id, q.chat_id, q.entry_id, q.tool_call_id, q.loop_id, q.questions, q.source_loop, q.asked_at, q.guards,
		       q.allows, q.expires_at, q.default_policy, s.owner_id,
		       coalesce(s.setup #>> '{escalation,default_answer}', '') AS default_answer
		FROM   questions q JOIN sessions s ON s.id = q.session_id
		WHERE  q.state = 'open' AND q.expires_at <= now() AND q.id > $1 AND s.deleted_at IS NULL AND s.operation_id IS NULL
		ORDER  BY q.id LIMIT $2`, after, limit)
	expired, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.ExpiredQuestion])

	return expired, pg.Fault("look for questions whose time is over", err)
}

// EscalateQuestions reports to webhooks the open questions that have waited for as long as their
// policy allows, once, at most limit of them, and returns how many it was.
func (db *Base) EscalateQuestions(ctx context.Context, limit int) (escalated int64, err error) {
	err = db.InTx(ctx, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `
			UPDATE questions q SET escalate_at = NULL, escalated_to = nullif(s.setup #>> '{escalation,user_id}', '')
			FROM   sessions s
			WHERE  s.id = q.session_id AND q.id IN (
				SELECT id FROM questions WHERE state = 'open' AND escalate_at <= now() ORDER BY escalate_at LIMIT $1 FOR UPDATE SKIP LOCKED)
			RETURNING q.id, q.session_id, q.chat_id`, limit)

		type waiting struct {
			ID        string
			SessionID domain.SessionID
			ChatID    domain.ChatID
		}

		due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[waiting])
		if err != nil {
			return err
		}

		escalated = int64(len(due))
		for _, q := range due {
			if err := notify.QuestionEscalated(ctx, tx, q.SessionID, q.ChatID, q.ID); err != nil {
				return err
			}
		}

		return nil
	})

	return escalated, pg.Fault("escalate questions", err)
}

// mayStandIn holds when the user $1 may answer a question that was escalated to them: they
// share a workspace with the owner of the session s, and may act in it.
const mayStandIn = `EXISTS (
	SELECT 1 FROM prod_workspace_members o JOIN prod_workspace_members m ON m.workspace_id = o.workspace_id
	WHERE  o.user_id = s.owner_id AND m.user_id = $1 AND m.role <> 'viewer')`

// InboxQuestion finds a question, open or not, of the user's sessions, or one that was
// escalated to them.
func (db *Base) InboxQuestion(ctx context.Context, userID, questionID string) (found domain.InboxQuestion, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT q.session_id, s.owner_id, q.tool_call_id FROM questions q JOIN sessions s ON s.id = q.session_id
		WHERE  q.id = $2 AND s.deleted_at IS NULL AND (s.owner_id = $1 OR q.escalated_to = $1 AND `+mayStandIn+`)`, userID, questionID).
		Scan(&found.SessionID, &found.OwnerID, &found.ToolCallID)
	if errors.Is(err, pgx.ErrNoRows) {
		err = domain.Newf(domain.NotFound, "question_not_found", "question %s does not exist", questionID)
	}

	return found, pg.Fault("read question", err)
}
