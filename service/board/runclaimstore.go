package board

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/infra/postgres/pg"
)

// ClaimIssueRun gives a run to its workflow, with its session and the message to send,
// which are the same each time.
func (s *Store) ClaimIssueRun(ctx context.Context, runID string) (claimed board.ClaimedIssueRun, plan board.IssueRunPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		claimed, plan = board.ClaimedIssueRun{RunID: runID, Ended: true}, board.IssueRunPlan{}

		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found {
			return err
		}

		if run.cancelled && run.chatID == nil {
			if err := takeSent(ctx, tx, runID, &run, &plan); err != nil {
				return err
			}

			if run.chatID == nil {
				return endRun(ctx, tx, runID, run, end{status: board.IssueRunCancelled}, &plan)
			}
		}

		if run.chatID != nil {
			claimed.Ended, claimed.Begun, claimed.SessionID = false, true, *run.sessionID
			return nil
		}

		there, err := takeSession(ctx, tx, runID, &run)
		if err != nil {
			return err
		}

		if !there {
			return endRun(ctx, tx, runID, run, end{
				status: board.IssueRunFailed, reason: board.ReasonAgentGone,
				message: "the agent was archived or deleted, is not shared with the workspace, or its owner is not at least a member of it",
			}, &plan)
		}

		brief, err := briefOf(ctx, tx, runID, &run)
		claimed = board.ClaimedIssueRun{
			RunID:       runID,
			IssueID:     run.issue.ID,
			AgentID:     run.agentID,
			OwnerID:     run.ownerID,
			SessionID:   *run.sessionID,
			WorkspaceID: run.issue.WorkspaceID,
			Title:       run.issue.Identifier + " " + run.issue.Title,
			Message:     brief.Message(),
			Round:       run.round,
		}

		return err
	})

	return claimed, plan, pg.Fault("claim an issue run", err)
}

// takeSent gives a cancelled run the chat that an earlier attempt has started without recording
// it, and has it stopped. A message that was not sent is refused from now on.
func takeSent(ctx context.Context, tx pgx.Tx, runID string, run *openRun, plan *board.IssueRunPlan) error {
	if run.sessionID == nil {
		return nil
	}

	chatID, sent, err := pg.CancelSend(ctx, tx, *run.sessionID, board.MessageID(runID, run.round))
	if err != nil || !sent {
		return err
	}

	run.chatID = &chatID
	if _, err := tx.Exec(ctx, `
		UPDATE issue_runs SET chat_id = $2, status = 'running', started_at = coalesce(started_at, now()) WHERE id = $1`,
		runID, chatID); err != nil {
		return err
	}

	return stopChat(ctx, tx, runID, *run, plan)
}

// takeSession chooses the session of a run: the one in which the agent worked on the
// issue before, if it is still there, else a new one. False: the agent cannot work, because
// it is gone, or because its owner neither shares it with the workspace nor assigned the issue.
func takeSession(ctx context.Context, tx pgx.Tx, runID string, run *openRun) (there bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT a.owner_id FROM agent_instances a
		JOIN   prod_workspace_members m ON m.user_id = a.owner_id AND m.workspace_id = $2 AND m.role <> 'viewer'
		JOIN   users u ON u.id = a.owner_id AND NOT u.closed
		JOIN   issues i ON i.id = $3
		WHERE  a.id = $1 AND a.archived_at IS NULL AND (i.assigned_by = a.owner_id OR a.visibility = 'workspace' AND EXISTS (
			SELECT 1 FROM agent_instance_shares h WHERE h.instance_id = a.id AND h.workspace_id = m.workspace_id))`,
		run.agentID, run.issue.WorkspaceID, run.issue.ID).Scan(&run.ownerID)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}

	if err != nil || run.sessionID != nil {
		return true, err
	}

	err = tx.QueryRow(ctx, `
		SELECT s.id, r.seen_position FROM issue_runs r JOIN sessions s ON s.id = r.session_id AND s.owner_id = $4 AND s.deleted_at IS NULL
		WHERE  r.issue_id = $1 AND r.agent_id = $2 AND r.id < $3 AND r.started_at IS NOT NULL ORDER BY r.id DESC LIMIT 1`,
		run.issue.ID, run.agentID, runID, run.ownerID).Scan(&run.sessionID, &run.seen)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		id := domain.SessionID(domain.NewID())
		run.sessionID = &id
	case err != nil:
		return true, err
	default:
		run.continues = true
	}

	_, err = tx.Exec(ctx, `UPDATE issue_runs SET session_id = $2, owner_id = $3, continues = $4, seen_position = $5 WHERE id = $1`,
		runID, run.sessionID, run.ownerID, run.continues, run.seen)

	return true, err
}

// briefOf returns what the run sends the agent now. Which comments it holds is stored before
// it is sent.
func briefOf(ctx context.Context, tx pgx.Tx, runID string, run *openRun) (brief board.IssueBrief, err error) {
	if run.upto == nil {
		err = tx.QueryRow(ctx, `
			UPDATE issue_runs SET upto_position = coalesce((SELECT max(position) FROM issue_comments WHERE issue_id = $2), 0)
			WHERE  id = $1 RETURNING upto_position`, runID, run.issue.ID).Scan(&run.upto)
		if err != nil {
			return brief, err
		}
	}

	brief = board.IssueBrief{
		Identifier:  run.issue.Identifier,
		Title:       run.issue.Title,
		Description: run.issue.Description,
		Continues:   run.continues || run.round > 1,
	}
	if err = tx.QueryRow(ctx, `SELECT name FROM prod_workspaces WHERE id = $1`, run.issue.WorkspaceID).Scan(&brief.Workspace); err != nil {
		return brief, err
	}

	if run.round == 1 {
		brief.Note = run.note
		if err = earlier(ctx, tx, run, &brief); err != nil {
			return brief, err
		}
	}

	rows, _ := tx.Query(ctx, `
		SELECT coalesce((SELECT coalesce(nullif(name, ''), username) FROM users WHERE id = c.author_id AND c.author_type = 'member'),
		                (SELECT name FROM agent_instances WHERE id = c.author_id), c.author_type), c.content
		FROM   issue_comments c, issue_runs r
		WHERE  r.id = $1 AND c.issue_id = r.issue_id AND c.position > r.seen_position AND c.position <= r.upto_position
		AND    c.id <> ALL (r.told_comments)
		AND    NOT (c.author_type = 'agent' AND c.author_id = r.agent_id)
		ORDER  BY c.position`, runID)
	brief.Comments, err = pgx.CollectRows(rows, pgx.RowToStructByPos[board.BriefComment])

	return brief, err
}

// earlier adds the squad that the agent leads, and why the attempt before failed.
func earlier(ctx context.Context, tx pgx.Tx, run *openRun, brief *board.IssueBrief) error {
	if run.squadID != nil {
		rows, _ := tx.Query(ctx, `SELECT `+squadColumns+` FROM prod_squads WHERE id = $1`, *run.squadID)

		squads, err := pgx.CollectRows(rows, pgx.RowToStructByName[board.Squad])
		if err != nil {
			return err
		}

		if len(squads) == 1 {
			brief.Squad = &squads[0]
		}

		if brief.Mates, err = mates(ctx, tx, *run.squadID); err != nil {
			return err
		}
	}

	if run.parent == nil {
		return nil
	}

	err := tx.QueryRow(ctx, `SELECT coalesce(error, '') FROM issue_runs WHERE id = $1`, *run.parent).Scan(&brief.Failure)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}

	return err
}

// mates returns who is in a squad in addition to its leader. Those that are gone are left out.
func mates(ctx context.Context, tx pgx.Tx, squadID string) ([]board.SquadMate, error) {
	rows, _ := tx.Query(ctx, `
		SELECT coalesce(nullif(u.name, ''), u.username, a.name), m.value ->> 'member_type', coalesce(m.value ->> 'role', '')
		FROM   prod_squads q CROSS JOIN jsonb_array_elements(q.members) WITH ORDINALITY m
		LEFT   JOIN users u ON m.value ->> 'member_type' = 'member' AND u.id = m.value ->> 'member_id' AND u.deleted_at IS NULL
		LEFT   JOIN agent_instances a ON m.value ->> 'member_type' = 'agent' AND a.id = m.value ->> 'member_id'
		WHERE  q.id = $1 AND m.value ->> 'member_id' <> q.leader_id AND coalesce(u.id, a.id) IS NOT NULL ORDER BY m.ordinality`, squadID)

	return pgx.CollectRows(rows, pgx.RowToStructByPos[board.SquadMate])
}
