package notify

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/trigger"
	"everloop/domain/webhook"
)

// DAGRunEvent writes the deliveries of a state that a DAG run has reached, in the
// transaction in which it does. Runs of subflows have none: they are steps of the run
// that they are part of.
func DAGRunEvent(ctx context.Context, tx pgx.Tx, event webhook.Event, runID string) error {
	return dagRunEvent(ctx, tx, event, runID, nil, nil)
}

// dagRunEvent is DAGRunEvent, with the session that the event is about.
func dagRunEvent(ctx context.Context, tx pgx.Tx, event webhook.Event, runID string, session *domain.SessionID,
	questions []webhook.Question,
) error {
	data := webhook.DAGRun{RunID: runID, SessionID: session, Questions: questions}

	var (
		owner         string
		code, message *string
	)

	err := tx.QueryRow(ctx, `
		SELECT r.owner_id, r.solution_id, left(p.name, $2), r.version, r.status, r.retries, r.error_code, r.error_message,
		    r.started_at, r.finished_at
		FROM   dag_runs r JOIN prod_solutions p ON p.id = r.solution_id WHERE r.id = $1 AND r.parent_run IS NULL`, runID, shownIntent).
		Scan(&owner, &data.ProdSolutionID, &data.Name, &data.Version, &data.Status, &data.Retries,
			&code, &message, &data.StartedAt, &data.FinishedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}

	if err != nil {
		return err
	}

	if session != nil {
		data.Status = "waiting"
	}

	data.Error = runError(code, message)

	if end, ends := runEnds[event]; ends {
		if err := runEnded(ctx, tx, endedRun{
			source: trigger.Source{Kind: trigger.SourceDAG, ID: data.ProdSolutionID}, owner: owner,
			run: "dag/" + data.ProdSolutionID + "/" + runID, event: end, data: data,
		}); err != nil {
			return err
		}
	}

	return runEvent(ctx, tx, event, owner, session, data)
}

// IssueRunEvent is DAGRunEvent for the run of an agent that works on an issue. The
// webhooks of the agent's owner are sent it.
func IssueRunEvent(ctx context.Context, tx pgx.Tx, event webhook.Event, runID string) error {
	return issueRunEvent(ctx, tx, event, runID, nil)
}

func issueRunEvent(ctx context.Context, tx pgx.Tx, event webhook.Event, runID string, questions []webhook.Question) error {
	data := webhook.IssueRun{RunID: runID, Questions: questions}

	var (
		owner         string
		code, message *string
	)

	err := tx.QueryRow(ctx, `
		SELECT coalesce(nullif(r.owner_id, ''), (SELECT owner_id FROM agent_instances a WHERE a.id = r.agent_id), ''), r.issue_id,
		       w.issue_prefix || '-' || i.number, left(i.title, $2), i.workspace_id, r.agent_id, r.session_id, r.status, r.attempt,
		       r.reason_code, r.error, r.started_at, r.finished_at
		FROM   issue_runs r JOIN issues i ON i.id = r.issue_id JOIN prod_workspaces w ON w.id = i.workspace_id
		WHERE  r.id = $1`, runID, shownIntent).
		Scan(&owner, &data.IssueID, &data.Identifier, &data.Title, &data.WorkspaceID, &data.AgentID, &data.SessionID, &data.Status,
			&data.Attempt, &code, &message, &data.StartedAt, &data.FinishedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}

	if err != nil {
		return err
	}

	if event == webhook.IssueRunWaiting {
		data.Status = "waiting"
	}

	data.Error = runError(code, message)

	if end, ends := runEnds[event]; ends {
		if err := runEnded(ctx, tx, endedRun{
			source: trigger.Source{Kind: trigger.SourceIssue, ID: data.IssueID}, owner: owner, run: "issue/" + data.IssueID, event: end,
			data: data,
		}); err != nil {
			return err
		}
	}

	return runEvent(ctx, tx, event, owner, data.SessionID, data)
}

func runError(code, message *string) *webhook.RunError {
	if code == nil {
		return nil
	}

	e := &webhook.RunError{Code: *code}
	if message != nil {
		e.Message = *message
	}

	return e
}

// runEvent writes the deliveries for the webhooks of a user. Those that want events of one
// session get what is about it; those of one scheduled task get none.
func runEvent(ctx context.Context, tx pgx.Tx, event webhook.Event, owner string, session *domain.SessionID, data any) error {
	rows, _ := tx.Query(ctx, `
		SELECT id FROM webhooks
		WHERE  owner_id = $1 AND enabled AND events && ARRAY[$2, '*'] AND (only_session IS NULL OR only_session = $3) AND only_task IS NULL
		ORDER  BY id FOR SHARE`, owner, string(event), session)

	to, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(to) == 0 {
		return err
	}

	return Deliver(ctx, tx, to, session, event, data)
}

// runWaits writes the deliveries of a run whose chat waits for an answer: of the DAG run
// that the chat works for, by way of its subflows, or of the issue run.
func runWaits(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID, chatID domain.ChatID) error {
	var (
		trigger domain.Trigger
		runID   string
	)

	err := tx.QueryRow(ctx, `
		WITH RECURSIVE chat AS (
			SELECT trigger, CASE trigger WHEN 'dag' THEN split_part(waiter, '/', 3) ELSE split_part(waiter, '/', 2) END AS run
			FROM   chats WHERE id = $1 AND trigger IN ('dag', 'issue') AND waiter IS NOT NULL),
		up AS (
			SELECT r.id, r.parent_run FROM dag_runs r JOIN chat ON chat.trigger = 'dag' AND r.id = chat.run
			UNION ALL
			SELECT r.id, r.parent_run FROM dag_runs r JOIN up ON r.id = up.parent_run)
		SELECT trigger, coalesce((SELECT id FROM up WHERE parent_run IS NULL), run) FROM chat`, chatID).Scan(&trigger, &runID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}

	if err != nil {
		return err
	}

	questions, err := openQuestions(ctx, tx, chatID)
	if err != nil {
		return err
	}

	if trigger == domain.TriggerIssue {
		return issueRunEvent(ctx, tx, webhook.IssueRunWaiting, runID, questions)
	}

	return dagRunEvent(ctx, tx, webhook.DAGRunWaiting, runID, &sessionID, questions)
}
