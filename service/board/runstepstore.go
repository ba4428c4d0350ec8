package board

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
)

// DispatchRuns gives the oldest runs of an agent their turn, as many as it may work on at
// once. A run that waits for an answer counts.
func (s *Store) DispatchRuns(ctx context.Context, agentID string) (started []string, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('issue-agent/' || $1, 0))`, agentID); err != nil {
			return err
		}
		// Runs whose issue is being changed are found the next time: nothing waits here
		// for a lock of an issue. An agent that is gone lets its runs fail.
		rows, _ := tx.Query(ctx, `
			UPDATE issue_runs SET status = 'dispatched', dispatched_at = now()
			WHERE  id IN (
				SELECT id FROM issue_runs WHERE agent_id = $1 AND status = 'queued' ORDER BY id
				LIMIT  greatest(0, coalesce((SELECT max_concurrent_tasks FROM agent_instances WHERE id = $1), 1)
				                   - (SELECT count(*) FROM issue_runs WHERE agent_id = $1 AND status IN ('dispatched', 'running')))
				FOR    UPDATE SKIP LOCKED)
			RETURNING id`, agentID)

		var err error

		started, err = pgx.CollectRows(rows, pgx.RowTo[string])

		return err
	})

	return started, pg.Fault("dispatch issue runs", err)
}

// openRun is a run that is not over, under the lock of its issue.
type openRun struct {
	issue     board.Issue
	agentID   string
	squadID   *string
	ownerID   string
	sessionID *domain.SessionID
	chatID    *domain.ChatID
	note      string
	parent    *string
	attempt   int
	most      int // attempts
	round     int
	continues bool
	seen      int64  // position of the last comment that the agent has read
	upto      *int64 // position of the last comment of the message that is being sent
	cancelled bool
	reason    *string
}

// lockRun takes the lock of the run's issue. Without a run that works, found is false.
func lockRun(ctx context.Context, tx pgx.Tx, runID string) (run openRun, found bool, err error) {
	var issueID, workspaceID string

	err = tx.QueryRow(ctx, `SELECT i.id, i.workspace_id FROM issue_runs r JOIN issues i ON i.id = r.issue_id WHERE r.id = $1`, runID).
		Scan(&issueID, &workspaceID)
	if err == nil {
		run.issue, err = lockIssue(ctx, tx, workspaceID, issueID)
	}

	if err == nil {
		err = tx.QueryRow(ctx, `
			SELECT agent_id, squad_id, owner_id, session_id, chat_id, handoff_note, parent_run_id, attempt, max_attempts, round, continues,
			       seen_position, upto_position, cancel_requested, reason_code
			FROM   issue_runs WHERE id = $1 AND status IN ('dispatched', 'running') FOR UPDATE`, runID).
			Scan(&run.agentID, &run.squadID, &run.ownerID, &run.sessionID, &run.chatID, &run.note, &run.parent, &run.attempt, &run.most,
				&run.round, &run.continues, &run.seen, &run.upto, &run.cancelled, &run.reason)
	}

	if errors.Is(err, pgx.ErrNoRows) || domain.HasCode(err, board.CodeIssueNotFound) {
		return run, false, nil
	}

	return run, err == nil, err
}

// IssueRunBegan records the chat of a run's message; with true the run was cancelled
// in the meantime. The first one moves the issue to in_progress.
func (s *Store) IssueRunBegan(ctx context.Context, runID string, chatID domain.ChatID) (cancelled bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found || run.chatID != nil {
			cancelled = err == nil && !found // it was ended in the meantime, and what it started is stopped
			return err
		}

		cancelled = run.cancelled

		if _, err := tx.Exec(ctx, `
			UPDATE issue_runs
			SET    chat_id = $2, status = 'running', started_at = coalesce(started_at, now()),
			    seen_position = coalesce(upto_position, seen_position),
			       upto_position = NULL
			WHERE  id = $1`, runID, chatID); err != nil {
			return err
		}

		if run.round > 1 {
			return nil
		}

		if err := notify.IssueRunEvent(ctx, tx, webhook.IssueRunStarted, runID); err != nil {
			return err
		}

		by := actor{board.ActorAgent, run.agentID}
		if err := record(ctx, tx, run.issue.ID, by, []board.Activity{{Action: board.ActionRunStarted, To: runID}}); err != nil {
			return err
		}

		if run.cancelled || run.issue.Status.Closed() {
			return nil
		}

		return moveIssue(ctx, tx, run.issue, board.IssueInProgress, by)
	})

	return cancelled, pg.Fault("begin an issue run", err)
}

// moveIssue gives an issue another status in the name of an agent.
func moveIssue(ctx context.Context, tx pgx.Tx, i board.Issue, to board.IssueStatus, by actor) error {
	if i.Status == to {
		return nil
	}

	after := i
	after.Status = to

	return store(ctx, tx, after, by, board.Differences(i, after))
}

// BlockIssueRun ends a run whose session could not be made or whose message was rejected.
func (s *Store) BlockIssueRun(ctx context.Context, runID, code, message string) (plan board.IssueRunPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = board.IssueRunPlan{}

		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found {
			return err
		}

		if err := stopChat(ctx, tx, runID, run, &plan); err != nil {
			return err
		}

		return endRun(ctx, tx, runID, run, end{status: board.IssueRunFailed, reason: code, message: message}, &plan)
	})

	return plan, pg.Fault("block an issue run", err)
}

// stopChat has the chat of a run stopped that ends before it. The mark is kept, so that the
// stop is repeated until it was taken.
func stopChat(ctx context.Context, tx pgx.Tx, runID string, run openRun, plan *board.IssueRunPlan) error {
	if run.sessionID == nil || run.chatID == nil {
		return nil
	}

	plan.Stop = append(plan.Stop, domain.RunChat{OwnerID: run.ownerID, SessionID: *run.sessionID, ChatID: *run.chatID})
	_, err := tx.Exec(ctx, `UPDATE issue_runs SET cancel_requested = true WHERE id = $1`, runID)

	return err
}

// say adds a comment of the agent. An issue that has too many gets none.
func say(ctx context.Context, tx pgx.Tx, runID string, run openRun, text string, questionID *string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO issue_comments (id, issue_id, author_type, author_id, content, source_run_id, question_id, created_at, updated_at)
		SELECT $1, $2, 'agent', $3, $4, $5, $6, clock_timestamp(), clock_timestamp()
		WHERE  (SELECT count(*) FROM issue_comments WHERE issue_id = $2) < $7
		ON     CONFLICT (question_id) DO NOTHING`,
		domain.NewID(), run.issue.ID, run.agentID, text, runID, questionID, board.MaxIssueComments)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE issues SET last_activity_at = now() WHERE id = $1`, run.issue.ID)
	}

	return err
}
