package board

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/schedule"
	"everloop/domain/webhook"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/webhooks"
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
	sessionID *string
	chatID    *string
	note      string
	parent    *string
	attempt   int
	most      int // attempts
	round     int
	continues bool
	seen      string
	upto      *string
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
			       seen_comment, upto_comment, cancel_requested, reason_code
			FROM   issue_runs WHERE id = $1 AND status IN ('dispatched', 'running') FOR UPDATE`, runID).
			Scan(&run.agentID, &run.squadID, &run.ownerID, &run.sessionID, &run.chatID, &run.note, &run.parent, &run.attempt, &run.most,
				&run.round, &run.continues, &run.seen, &run.upto, &run.cancelled, &run.reason)
	}

	if errors.Is(err, pgx.ErrNoRows) || domain.HasCode(err, board.CodeIssueNotFound) {
		return run, false, nil
	}

	return run, err == nil, err
}

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
			return endRun(ctx, tx, runID, run, end{status: board.IssueRunCancelled}, &plan)
		}

		if run.chatID != nil {
			claimed.Ended, claimed.Begun = false, true
			return nil
		}

		there, err := takeSession(ctx, tx, runID, &run)
		if err != nil {
			return err
		}

		if !there {
			return endRun(ctx, tx, runID, run, end{
				status: board.IssueRunFailed, reason: board.ReasonAgentGone,
				message: "the agent was archived or deleted, or its owner is no member of the workspace",
			}, &plan)
		}

		brief, err := briefOf(ctx, tx, runID, &run)
		claimed = board.ClaimedIssueRun{
			RunID: runID, AgentID: run.agentID, OwnerID: run.ownerID, SessionID: *run.sessionID, WorkspaceID: run.issue.WorkspaceID,
			Title: run.issue.Identifier + " " + run.issue.Title, Message: brief.Message(), Round: run.round,
		}

		return err
	})

	return claimed, plan, pg.Fault("claim an issue run", err)
}

// takeSession chooses the session of a run: the one in which the agent worked on the
// issue before, if it is still there, else a new one. False: the agent cannot work.
func takeSession(ctx context.Context, tx pgx.Tx, runID string, run *openRun) (there bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT a.owner_id FROM agent_instances a
		JOIN   prod_workspace_members m ON m.user_id = a.owner_id AND m.workspace_id = $2
		JOIN   users u ON u.id = a.owner_id AND u.deleted_at IS NULL
		WHERE  a.id = $1 AND a.archived_at IS NULL`, run.agentID, run.issue.WorkspaceID).Scan(&run.ownerID)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}

	if err != nil || run.sessionID != nil {
		return true, err
	}

	err = tx.QueryRow(ctx, `
		SELECT s.id, r.seen_comment FROM issue_runs r JOIN sessions s ON s.id = r.session_id AND s.owner_id = $4 AND s.deleted_at IS NULL
		WHERE  r.issue_id = $1 AND r.agent_id = $2 AND r.id < $3 AND r.started_at IS NOT NULL ORDER BY r.id DESC LIMIT 1`,
		run.issue.ID, run.agentID, runID, run.ownerID).Scan(&run.sessionID, &run.seen)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		id := domain.NewID()
		run.sessionID = &id
	case err != nil:
		return true, err
	default:
		run.continues = true
	}

	_, err = tx.Exec(ctx, `UPDATE issue_runs SET session_id = $2, owner_id = $3, continues = $4, seen_comment = $5 WHERE id = $1`,
		runID, run.sessionID, run.ownerID, run.continues, run.seen)

	return true, err
}

// briefOf is what the run sends the agent now. Which comments it holds is stored before
// it is sent.
func briefOf(ctx context.Context, tx pgx.Tx, runID string, run *openRun) (brief board.IssueBrief, err error) {
	if run.upto == nil {
		err = tx.QueryRow(ctx, `
			UPDATE issue_runs SET upto_comment = coalesce((SELECT max(id) FROM issue_comments WHERE issue_id = $2), '')
			WHERE  id = $1 RETURNING upto_comment`, runID, run.issue.ID).Scan(&run.upto)
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
		WHERE  r.id = $1 AND c.issue_id = r.issue_id AND c.id > r.seen_comment AND c.id <= r.upto_comment AND c.id <> ALL (r.told_comments)
		AND    NOT (c.author_type = 'agent' AND c.author_id = r.agent_id)
		ORDER  BY c.id`, runID)
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

// mates are who is in a squad besides its leader. Those that are gone are left out.
func mates(ctx context.Context, tx pgx.Tx, squadID string) ([]board.SquadMate, error) {
	rows, _ := tx.Query(ctx, `
		SELECT coalesce(nullif(u.name, ''), u.username, a.name), m.value ->> 'member_type', coalesce(m.value ->> 'role', '')
		FROM   prod_squads q CROSS JOIN jsonb_array_elements(q.members) WITH ORDINALITY m
		LEFT   JOIN users u ON m.value ->> 'member_type' = 'member' AND u.id = m.value ->> 'member_id' AND u.deleted_at IS NULL
		LEFT   JOIN agent_instances a ON m.value ->> 'member_type' = 'agent' AND a.id = m.value ->> 'member_id'
		WHERE  q.id = $1 AND m.value ->> 'member_id' <> q.leader_id AND coalesce(u.id, a.id) IS NOT NULL ORDER BY m.ordinality`, squadID)

	return pgx.CollectRows(rows, pgx.RowToStructByPos[board.SquadMate])
}

// IssueRunBegan records the chat of a run's message; with true the run was cancelled
// meanwhile. The first one moves the issue to in_progress.
func (s *Store) IssueRunBegan(ctx context.Context, runID, chatID string) (cancelled bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found || run.chatID != nil {
			cancelled = err == nil && !found // it was ended meanwhile, and what it began is stopped
			return err
		}

		cancelled = run.cancelled

		if _, err := tx.Exec(ctx, `
			UPDATE issue_runs
			SET    chat_id = $2, status = 'running', started_at = coalesce(started_at, now()),
			    seen_comment = coalesce(upto_comment, seen_comment),
			       upto_comment = NULL
			WHERE  id = $1`, runID, chatID); err != nil {
			return err
		}

		if run.round > 1 {
			return nil
		}

		if err := webhooks.IssueRunEvent(ctx, tx, webhook.IssueRunStarted, runID); err != nil {
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

	plan.Stop = append(plan.Stop, domain.RunSession{OwnerID: run.ownerID, SessionID: *run.sessionID})
	_, err := tx.Exec(ctx, `UPDATE issue_runs SET cancel_requested = true WHERE id = $1`, runID)

	return err
}

// end is how a run ended.
type end struct {
	status  board.IssueRunStatus
	reason  string
	message string
	retried bool // it is worth another attempt
}

// endEvents are the events of runs that are over.
var endEvents = map[board.IssueRunStatus]webhook.Event{
	board.IssueRunCompleted: webhook.IssueRunCompleted,
	board.IssueRunFailed:    webhook.IssueRunFailed,
	board.IssueRunCancelled: webhook.IssueRunCancelled,
}

// endRun ends a run: its issue moves on, and where it is worth it another attempt begins.
func endRun(ctx context.Context, tx pgx.Tx, runID string, run openRun, e end, plan *board.IssueRunPlan) error {
	if _, err := tx.Exec(ctx, `
		UPDATE issue_runs
		SET    status = $2, reason_code = coalesce(nullif($3, ''), reason_code), error = nullif($4, ''), finished_at = now()
		WHERE  id = $1`, runID, e.status, e.reason, e.message); err != nil {
		return err
	}

	if err := webhooks.IssueRunEvent(ctx, tx, endEvents[e.status], runID); err != nil {
		return err
	}

	if _, err := tx.Exec(ctx, `
		UPDATE issue_comments SET resolved_at = now() WHERE source_run_id = $1 AND question_id IS NOT NULL
		    AND resolved_at IS NULL`, runID); err != nil {
		return err
	}

	plan.Agents = append(plan.Agents, run.agentID)

	by := actor{board.ActorAgent, run.agentID}
	if err := record(
		ctx,
		tx,
		run.issue.ID,
		by,
		[]board.Activity{{Action: board.ActionRunFinished, From: runID, To: e.status}},
	); err != nil {
		return err
	}

	if _, err := tx.Exec(ctx, `UPDATE issues SET last_activity_at = now() WHERE id = $1`, run.issue.ID); err != nil {
		return err
	}

	i := run.issue
	switch {
	case run.cancelled || i.Status.Closed() || e.status == board.IssueRunCancelled:
		return nil
	case e.status == board.IssueRunCompleted && i.Status == board.IssueInProgress:
		return moveIssue(ctx, tx, i, board.IssueInReview, by)
	case e.status == board.IssueRunCompleted:
		return nil
	case e.retried && run.attempt < run.most && i.AssigneeID != nil && *i.AssigneeType != board.ActorMember:
		return startRun(ctx, tx, i, trigger{
			kind: board.TriggerRetry, by: by, parent: &runID, attempt: run.attempt + 1, note: run.note,
			summary: "Another attempt after: " + domain.FirstRunes(e.message, 200),
		}, plan)
	case i.Status == board.IssueInProgress || i.Status == board.IssueTodo || i.Status == board.IssueBacklog:
		return moveIssue(ctx, tx, i, board.IssueBlocked, by)
	}

	return nil
}

// EndIssueRun ends a run whose chat has ended, with the agent's last text as a comment.
// With ended unset the chat goes on, or, with again, comments came while it worked and
// the run has to send them to the agent.
func (s *Store) EndIssueRun(ctx context.Context, runID string) (ended, again bool, plan board.IssueRunPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		ended, again, plan = true, false, board.IssueRunPlan{}

		run, found, err := lockRun(ctx, tx, runID)
		if err != nil || !found {
			return err
		}

		if run.chatID == nil {
			ended, again = false, true
			return nil
		}

		chat, err := chatOf(ctx, tx, *run.chatID)
		if errors.Is(err, pgx.ErrNoRows) {
			return endRun(ctx, tx, runID, run, end{
				status: board.IssueRunFailed, reason: schedule.ReasonSessionDeleted, message: "its session was deleted",
			}, &plan)
		}

		if err != nil {
			return err
		}

		if chat.state != domain.ChatStateEnded {
			ended = false
			return nil
		}

		if err := count(ctx, tx, runID, chat); err != nil {
			return err
		}

		e := endOf(run, chat)
		if e.status != board.IssueRunCompleted {
			return endRun(ctx, tx, runID, run, e, &plan)
		}

		if again, err = anotherRound(ctx, tx, runID, run); err != nil {
			return err
		}

		if err := report(ctx, tx, runID, run, chat.text); err != nil || again {
			ended = false
			return err
		}

		return endRun(ctx, tx, runID, run, e, &plan)
	})

	return ended, again, plan, pg.Fault("end an issue run", err)
}

type chatEnd struct {
	state         domain.ChatState
	reason        domain.FinishReason
	code, message string
	model         string
	usage         domain.Usage
	text          string // what the agent said last
}

func chatOf(ctx context.Context, tx pgx.Tx, id string) (c chatEnd, err error) {
	err = tx.QueryRow(ctx, `
		SELECT c.state, coalesce(c.finish_reason, ''), coalesce(c.error_code, ''), coalesce(c.error_message, ''), c.input_tokens,
		    c.output_tokens,
		       c.cache_read_tokens, c.cache_write_tokens, c.cost_nano, coalesce(e.model, c.model, ''),
		       coalesce((SELECT string_agg(b ->> 'content', E'\n\n' ORDER BY n)
		                 FROM jsonb_array_elements(e.blocks) WITH ORDINALITY AS t (b, n) WHERE b ->> 'type' = 'text'), '')
		FROM   chats c LEFT JOIN LATERAL (
			SELECT model, blocks FROM entries
			WHERE  session_id = c.session_id AND chat_id = c.id AND loop_id = 'root' AND kind = 'message' AND role = 'assistant'
			    AND status = 'completed'
			ORDER  BY id DESC LIMIT 1) e ON true
		WHERE  c.id = $1`, id).
		Scan(&c.state, &c.reason, &c.code, &c.message, &c.usage.InputTokens, &c.usage.OutputTokens,
			&c.usage.CacheReadTokens, &c.usage.CacheWriteTokens, &c.usage.Cost, &c.model, &c.text)

	return c, err
}

// count adds what a chat has used to its run.
func count(ctx context.Context, tx pgx.Tx, runID string, chat chatEnd) error {
	_, err := tx.Exec(ctx, `
		UPDATE issue_runs
		SET    input_tokens = input_tokens + $2, output_tokens = output_tokens + $3, cache_read_tokens = cache_read_tokens + $4,
		       cache_write_tokens = cache_write_tokens + $5, cost_nano = cost_nano + $6, model = coalesce(nullif($7, ''), model)
		WHERE  id = $1`, runID, chat.usage.InputTokens, chat.usage.OutputTokens, chat.usage.CacheReadTokens, chat.usage.CacheWriteTokens,
		chat.usage.Cost, chat.model)

	return err
}

func endOf(run openRun, chat chatEnd) end {
	if run.cancelled || chat.reason == domain.FinishInterrupted {
		e := end{status: board.IssueRunCancelled}
		if !run.cancelled {
			e.reason = board.ReasonStopped
		}

		return e
	}

	of := domain.EndOfRun(chat.reason, chat.code, chat.message, false)
	if of.Status == domain.RunCompleted {
		return end{status: board.IssueRunCompleted}
	}

	return end{status: board.IssueRunFailed, reason: of.Reason, message: of.Error, retried: of.Retried()}
}

// anotherRound has a run send the agent the comments that came while it worked.
func anotherRound(ctx context.Context, tx pgx.Tx, runID string, run openRun) (again bool, err error) {
	if run.issue.Status.Closed() || run.round >= board.MaxRunRounds {
		return false, nil
	}

	rows, _ := tx.Query(ctx, `
		SELECT c.id FROM issue_comments c JOIN issue_runs r ON r.id = $1
		WHERE  c.issue_id = r.issue_id AND c.author_type = 'member' AND c.id > r.seen_comment AND c.id <> ALL (r.told_comments)
		    ORDER BY c.id`, runID)

	pending, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(pending) == 0 {
		return false, err
	}

	_, err = tx.Exec(ctx, `
		UPDATE issue_runs SET round = round + 1, chat_id = NULL, upto_comment = $2, coalesced = coalesced || $3 WHERE id = $1`,
		runID, pending[len(pending)-1], pending)

	return err == nil, err
}

// report makes the agent's last text a comment.
func report(ctx context.Context, tx pgx.Tx, runID string, run openRun, text string) error {
	text = domain.FirstRunes(text, board.MaxRunReport)
	if text == "" {
		return nil
	}

	if _, err := tx.Exec(ctx, `UPDATE issue_runs SET result = $2 WHERE id = $1`, runID, text); err != nil {
		return err
	}

	return say(ctx, tx, runID, run, text, nil)
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
