package board

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/infra/postgres/pg"
)

// AskedInRuns lists the open questions of runs, of one run or of all, after the
// given question, each with the comment that puts it and the first comment of a member after that.
// Other chats of the session are private to its owner: only the run's chat counts, with its sub-agents.
func (s *Store) AskedInRuns(ctx context.Context, runID, after string, limit int) ([]board.AskedInRun, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT r.id, r.owner_id, r.session_id, q.id, q.tool_call_id, q.questions, q.guards IS NOT NULL, p.id IS NOT NULL,
		       coalesce(m.id, ''), coalesce(m.content, '')
		FROM   issue_runs r JOIN questions q ON q.session_id = r.session_id AND q.chat_id = r.chat_id AND q.state = 'open'
		LEFT   JOIN issue_comments p ON p.question_id = q.id
		LEFT   JOIN LATERAL (
			SELECT c.id, c.content FROM issue_comments c
			WHERE  c.issue_id = r.issue_id AND c.author_type = 'member' AND c.position > p.position AND c.id <> ALL (r.told_comments)
			ORDER  BY c.position LIMIT 1) m ON true
		WHERE  r.status = 'running' AND NOT r.cancel_requested AND ($1 = '' OR r.id = $1) AND q.id > $2
		ORDER  BY q.id LIMIT $3`, runID, after, limit)
	asked, err := pgx.CollectRows(rows, pgx.RowToStructByPos[board.AskedInRun])

	return asked, pg.Fault("list questions of issue runs", err)
}

// PostQuestion makes the question of a run a comment, once.
func (s *Store) PostQuestion(ctx context.Context, runID, questionID, text string) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found {
			return err
		}

		return say(ctx, tx, runID, run, text, &questionID)
	})

	return pg.Fault("ask in a comment", err)
}

// AnswerTaken records that a comment was taken as the answer to a question of a run.
func (s *Store) AnswerTaken(ctx context.Context, runID, questionID, commentID string) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			UPDATE issue_runs SET told_comments = told_comments || $2::text WHERE id = $1
			    AND $2 <> ALL (told_comments)`, runID, commentID); err != nil {
			return err
		}

		_, err := tx.Exec(ctx, `UPDATE issue_comments SET resolved_at = now() WHERE question_id = $1 AND resolved_at IS NULL`, questionID)

		return err
	})

	return pg.Fault("record an answer", err)
}

// StalledIssueRuns lists runs that should have moved some seconds ago: those that no
// workflow has started, and those whose chat has ended or is gone.
func (s *Store) StalledIssueRuns(ctx context.Context, after string, limit int) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT r.id FROM issue_runs r LEFT JOIN chats c ON c.id = r.chat_id
		WHERE  r.status IN ('dispatched', 'running') AND r.dispatched_at < now() - interval '10 seconds' AND r.id > $1
		AND    (c.id IS NULL OR c.state = 'ended' AND c.ended_at < now() - interval '10 seconds') ORDER BY r.id LIMIT $2`, after, limit)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return ids, pg.Fault("list stalled issue runs", err)
}

// CancelledIssueRuns lists the chats of runs that were to be stopped and continue.
func (s *Store) CancelledIssueRuns(ctx context.Context) ([]domain.RunChat, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT r.owner_id, r.session_id, r.chat_id FROM issue_runs r JOIN chats c ON c.id = r.chat_id
		WHERE  r.cancel_requested AND (r.status = 'running' OR r.finished_at > now() - interval '1 day')
		AND    c.state <> 'ended' AND NOT c.stop_requested LIMIT 200`)
	runs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[domain.RunChat])

	return runs, pg.Fault("list cancelled issue runs", err)
}

// WaitingAgents lists agents of which a run could have its turn.
func (s *Store) WaitingAgents(ctx context.Context, after string, limit int) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT r.agent_id FROM issue_runs r LEFT JOIN agent_instances a ON a.id = r.agent_id
		WHERE  r.status IN ('queued', 'dispatched', 'running') AND r.agent_id > $1
		GROUP  BY r.agent_id, a.max_concurrent_tasks
		HAVING bool_or(r.status = 'queued') AND count(*) FILTER (WHERE r.status <> 'queued') < coalesce(a.max_concurrent_tasks, 1)
		ORDER  BY r.agent_id LIMIT $2`, after, limit)
	agents, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return agents, pg.Fault("list agents with queued runs", err)
}
