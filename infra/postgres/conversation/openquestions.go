package conversation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// OpenQuestions lists the open questions of a user's sessions, and those that were escalated
// to them, the oldest first, and counts them.
func (db *Base) OpenQuestions(ctx context.Context, userID string, offset, limit int) (page []domain.InboxItem, total int, err error) {
	const waiting = `
		FROM   (
			SELECT q.*, s.intent, false AS escalated FROM sessions s CROSS JOIN LATERAL (
				SELECT * FROM questions WHERE session_id = s.id AND state = 'open' OFFSET 0) q
			WHERE  s.owner_id = $1 AND s.deleted_at IS NULL AND s.status IN ('running', 'waiting_for_input')
			UNION  ALL
			SELECT q.*, s.intent, true FROM questions q JOIN sessions s ON s.id = q.session_id
			WHERE  q.escalated_to = $1 AND q.state = 'open' AND s.owner_id <> $1 AND s.deleted_at IS NULL
			AND    s.status IN ('running', 'waiting_for_input') AND ` + mayStandIn + `) q`

	rows, _ := db.Pool.Query(ctx, `
		SELECT CASE WHEN q.guards IS NULL THEN 'question' ELSE 'permission' END, q.session_id, q.intent, q.chat_id, q.id, q.tool_call_id,
		       q.questions, q.source_loop, q.asked_at, q.expires_at, q.default_policy, c.trigger, r.task_id,
		       coalesce(r.id, n.run_id, w.id), n.solution_id, n.node_id, i.workspace_id, i.id, q.escalated, q.total
		FROM   (SELECT q.*, count(*) OVER () AS total`+waiting+`
		        ORDER BY q.asked_at, q.id LIMIT $2 OFFSET $3) q
		JOIN   chats c ON c.id = q.chat_id
		LEFT   JOIN scheduled_runs r ON c.trigger = 'schedule' AND r.id = substr(c.waiter, length('schedule-run/') + 1)
		LEFT   JOIN dag_run_nodes n ON c.trigger = 'dag' AND n.chat_id = c.id AND n.status = 'running'
		LEFT   JOIN issue_runs w ON c.trigger = 'issue' AND w.id = substr(c.waiter, length('issue-run/') + 1)
		LEFT   JOIN issues i ON i.id = w.issue_id
		ORDER  BY q.asked_at, q.id`, userID, limit, offset)

	page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (item domain.InboxItem, err error) {
		return item, row.Scan(&item.Kind, &item.SessionID, &item.Intent, &item.ChatID, &item.QuestionID, &item.ToolCallID,
			&item.Questions, &item.SourceLoop, &item.AskedAt, &item.ExpiresAt, &item.DefaultPolicy, &item.Trigger,
			&item.TaskID, &item.RunID, &item.ProdSolutionID, &item.NodeID, &item.WorkspaceID, &item.IssueID, &item.Escalated, &total)
	})
	if err == nil && len(page) == 0 && offset > 0 {
		err = db.Pool.QueryRow(ctx, `SELECT count(*)`+waiting, userID).Scan(&total)
	}

	return page, total, pg.Fault("list what waits", err)
}
