package board

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
)

// active are the runs r that work or wait for their turn.
const active = `r.status IN ('queued', 'dispatched', 'running') AND NOT r.cancel_requested`

const codeRunActive = "issue_run_active"

// trigger is what starts a run.
type trigger struct {
	kind    string
	by      actor
	comment *string
	note    string
	parent  *string // the run of which it is another attempt
	attempt int     // 0: the first
	summary string  // empty: made of the others
}

// startRun adds a run of the agent that the issue, whose lock is held, is assigned to.
func startRun(ctx context.Context, tx pgx.Tx, i board.Issue, t trigger, plan *board.IssueRunPlan) error {
	if t.summary == "" {
		if err := tx.QueryRow(ctx, `
			SELECT CASE $2 WHEN 'assign' THEN 'Assigned by ' WHEN 'comment' THEN 'Comment of ' ELSE 'Started by ' END
			       || coalesce(nullif(name, ''), username) FROM users WHERE id = $1`, t.by.id, t.kind).Scan(&t.summary); err != nil {
			return err
		}
	}

	var agentID string

	err := tx.QueryRow(ctx, `
		INSERT INTO issue_runs (id, issue_id, agent_id, squad_id, runtime_id, status, trigger_kind, trigger_comment_id, trigger_summary,
		                        handoff_note, attempt, max_attempts, parent_run_id)
		SELECT @id, @issue, t.agent, t.squad, coalesce((SELECT runtime_id FROM agent_instances WHERE id = t.agent), ''), 'queued', @kind,
		       @comment, @summary, @note, @attempt, (w.settings ->> 'max_attempts')::int, @parent
		FROM   prod_workspaces w, (
			SELECT @assignee AS agent, NULL AS squad WHERE @type = 'agent'
			UNION ALL
			SELECT leader_id, id FROM prod_squads WHERE id = @assignee AND @type = 'squad') t
		WHERE  w.id = @workspace AND (SELECT count(*) FROM issue_runs WHERE issue_id = @issue) < @most
		RETURNING agent_id`,
		pgx.NamedArgs{
			"id": domain.NewID(), "issue": i.ID, "workspace": i.WorkspaceID, "assignee": *i.AssigneeID, "type": string(*i.AssigneeType),
			"kind": t.kind, "comment": t.comment, "summary": t.summary, "note": t.note, "attempt": max(1, t.attempt), "parent": t.parent,
			"most": board.MaxIssueRuns,
		}).Scan(&agentID)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && t.kind == board.TriggerManual:
		return domain.Newf(domain.Conflict, "issue_run_limit", "the squad no longer exists, or the issue had %d runs", board.MaxIssueRuns)
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}

	plan.Agents = append(plan.Agents, agentID)
	_, err = tx.Exec(ctx, `UPDATE issues SET last_activity_at = now() WHERE id = $1`, i.ID)

	return err
}

// cancelRun ends the active run of an issue whose lock is held: at once if it waits for
// its turn, else its chat is stopped.
func cancelRun(ctx context.Context, tx pgx.Tx, issueID, reason string, plan *board.IssueRunPlan) error {
	rows, _ := tx.Query(ctx, `
		UPDATE issue_runs r
		SET    cancel_requested = true, reason_code = $2,
		       status = CASE WHEN status = 'queued' THEN 'cancelled' ELSE status END,
		       finished_at = CASE WHEN status = 'queued' THEN now() END
		WHERE  issue_id = $1 AND `+active+` RETURNING owner_id, session_id, chat_id, id, status`, issueID, reason)

	var (
		owner, id string
		session   *domain.SessionID
		chat      *domain.ChatID
		status    board.IssueRunStatus
		over      []string
	)

	_, err := pgx.ForEachRow(rows, []any{&owner, &session, &chat, &id, &status}, func() error {
		if status == board.IssueRunCancelled {
			over = append(over, id)
		}

		if session != nil && chat != nil {
			plan.Stop = append(plan.Stop, domain.RunChat{OwnerID: owner, SessionID: *session, ChatID: *chat})
		}

		return nil
	})
	for _, run := range over {
		if err == nil {
			err = notify.IssueRunEvent(ctx, tx, webhook.IssueRunCancelled, run)
		}

		if err == nil {
			err = notifyWaiter(ctx, tx, issueID, plan)
		}
	}

	return err
}

// follow has an agent take notice of a member's comment: it may answer the question of a
// run, and starts a run where none is.
func follow(ctx context.Context, tx pgx.Tx, i board.Issue, comment board.Comment, plan *board.IssueRunPlan) error {
	if i.ActiveRun != nil {
		plan.Answer = append(plan.Answer, i.ActiveRun.ID)
		return nil
	}

	if i.AssigneeID == nil || *i.AssigneeType == board.ActorMember || i.Status.Closed() {
		return nil
	}

	var wanted bool

	err := tx.QueryRow(ctx, `SELECT (settings ->> 'run_on_comment')::boolean FROM prod_workspaces
		WHERE id = $1`, i.WorkspaceID).Scan(&wanted)
	if err != nil || !wanted {
		return err
	}

	return startRun(
		ctx,
		tx,
		i,
		trigger{kind: board.TriggerComment, by: actor{board.ActorMember, comment.AuthorID}, comment: &comment.ID},
		plan,
	)
}

// StartIssueRun starts a run that a member has asked for. After a run that failed or was
// stopped it is another attempt.
func (s *Store) StartIssueRun(
	ctx context.Context,
	userID, workspaceID, issueID, note string,
) (made board.IssueRun, plan board.IssueRunPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = board.IssueRunPlan{}

		if err := needs(ctx, tx, userID, workspaceID, board.WorkspaceMember); err != nil {
			return err
		}

		i, err := lockIssue(ctx, tx, workspaceID, issueID)
		switch {
		case err != nil:
			return err
		case i.Status.Closed():
			return domain.Newf(domain.Conflict, "issue_closed", "the issue is closed")
		case i.AssigneeID == nil || *i.AssigneeType == board.ActorMember:
			return domain.Newf(domain.Conflict, "issue_not_assigned", "the issue is assigned to no agent and no squad")
		case i.ActiveRun != nil:
			return domain.Newf(domain.Conflict, codeRunActive, "run %s works on the issue", i.ActiveRun.ID)
		}

		t := trigger{kind: board.TriggerManual, by: actor{board.ActorMember, userID}, note: note}

		err = tx.QueryRow(ctx, `
			SELECT id FROM (SELECT id, status FROM issue_runs WHERE issue_id = $1 ORDER BY id DESC LIMIT 1) r
			WHERE  status IN ('failed', 'cancelled')`, issueID).Scan(&t.parent)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}

		if t.parent != nil {
			t.kind = board.TriggerRetry
		}

		if err := startRun(ctx, tx, i, t, &plan); err != nil {
			return err
		}

		runs, err := issueRuns(ctx, tx, issueID, 1, 0)
		if err == nil {
			made = runs[0]
		}

		return err
	})

	return made, plan, pg.Fault("start issue run", err)
}

// CancelIssueRun stops a run that is not over.
func (s *Store) CancelIssueRun(ctx context.Context, userID, workspaceID, issueID, runID string) (plan board.IssueRunPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		plan = board.IssueRunPlan{}

		if err := needs(ctx, tx, userID, workspaceID, board.WorkspaceMember); err != nil {
			return err
		}

		i, err := lockIssue(ctx, tx, workspaceID, issueID)
		if err != nil {
			return err
		}

		var found bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM issue_runs WHERE id = $1
			AND issue_id = $2)`, runID, issueID).Scan(&found); err != nil {
			return err
		}

		switch {
		case !found:
			return domain.Newf(domain.NotFound, "issue_run_not_found", "run %s does not exist", runID)
		case i.ActiveRun == nil || i.ActiveRun.ID != runID:
			return domain.Newf(domain.Conflict, "issue_run_over", "the run is over, or being stopped")
		}

		return cancelRun(ctx, tx, issueID, board.ReasonStopped, &plan)
	})

	return plan, pg.Fault("cancel issue run", err)
}

// CancelAnyIssueRun stops a run for an administrator. With false it has ended, or is being
// stopped.
func (s *Store) CancelAnyIssueRun(ctx context.Context, runID string) (open bool, plan board.IssueRunPlan, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		open, plan = false, board.IssueRunPlan{}

		var workspaceID, issueID string

		err := tx.QueryRow(ctx, `SELECT i.workspace_id, i.id FROM issue_runs r JOIN issues i ON i.id = r.issue_id WHERE r.id = $1`, runID).
			Scan(&workspaceID, &issueID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}

		if err != nil {
			return err
		}

		i, err := lockIssue(ctx, tx, workspaceID, issueID)
		if err != nil || i.ActiveRun == nil || i.ActiveRun.ID != runID {
			return err
		}

		open = true

		return cancelRun(ctx, tx, issueID, board.ReasonStopped, &plan)
	})

	return open, plan, pg.Fault("cancel issue run", err)
}

// ActiveRun returns the run that works on an issue; empty: there is none.
func (s *Store) ActiveRun(ctx context.Context, issueID string) (runID string, err error) {
	err = s.db.Pool.QueryRow(ctx, `SELECT r.id FROM issue_runs r WHERE r.issue_id = $1 AND `+active, issueID).Scan(&runID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}

	return runID, pg.Fault("read the active run of an issue", err)
}

// IssueRuns lists the runs of an issue, newest first: a page, and how many there are.
func (s *Store) IssueRuns(
	ctx context.Context,
	userID, workspaceID, issueID string,
	limit, offset int,
) (page []board.IssueRun, total int, err error) {
	if _, err := s.Issue(ctx, userID, workspaceID, issueID); err != nil {
		return nil, 0, err
	}

	page, err = issueRuns(ctx, s.db.Pool, issueID, limit, offset)
	if err == nil {
		err = s.db.Pool.QueryRow(ctx, `SELECT count(*) FROM issue_runs WHERE issue_id = $1`, issueID).Scan(&total)
	}

	return page, total, pg.Fault("list issue runs", err)
}

// usedByRun returns the sums of the issue run r: of its chats that have ended, and of the
// one c that works.
func usedByRun() string {
	var sums []string
	for _, column := range []string{"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_nano"} {
		sums = append(sums, "r."+column+" + CASE WHEN r.status = 'running' THEN coalesce(c."+column+", 0) ELSE 0 END")
	}

	return strings.Join(sums, ", ")
}

func issueRuns(ctx context.Context, q pg.Queryer, issueID string, limit, offset int) ([]board.IssueRun, error) {
	rows, _ := q.Query(ctx, `
		SELECT r.id, r.issue_id, r.agent_id, r.runtime_id, r.session_id, `+runStatus+`, r.trigger_kind,
		    r.trigger_comment_id, r.trigger_summary,
		       r.attempt, r.max_attempts, r.parent_run_id, r.error, r.reason_code, r.result, r.created_at, r.dispatched_at, r.started_at,
		       r.finished_at, r.coalesced, r.model, `+usedByRun()+`, m.models
		FROM   issue_runs r LEFT JOIN sessions s ON s.id = r.session_id LEFT JOIN chats c ON c.id = r.chat_id
		LEFT   JOIN LATERAL (`+usedByModel+`) m ON true
		WHERE  r.issue_id = $1 ORDER BY r.id DESC LIMIT $2 OFFSET $3`, issueID, limit, offset)

	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r board.IssueRun, err error) {
		var (
			all    board.RunUsage
			models []modelUse
		)

		err = row.Scan(&r.ID, &r.IssueID, &r.AgentID, &r.RuntimeID, &r.SessionID, &r.Status, &r.Trigger.Kind, &r.Trigger.CommentID,
			&r.Trigger.Summary, &r.Attempt, &r.MaxAttempts, &r.ParentRunID, &r.FailureReason, &r.ReasonCode, &r.Result, &r.CreatedAt,
			&r.DispatchedAt, &r.StartedAt, &r.FinishedAt, &r.CoalescedCommentIDs, &all.Model,
			&all.InputTokens, &all.OutputTokens, &all.CacheReadTokens, &all.CacheWriteTokens, &all.Cost, &models)

		r.Error, r.Usage = r.FailureReason, byModel(all, models)

		return r, err
	})
}

// usedByModel is what the turns of the issue run r have used: an array of modelUse.
const usedByModel = `
	SELECT coalesce(jsonb_agg(jsonb_build_array(u.model, u.input, u.output, u.cache_read, u.cache_write, u.cost)
	       ORDER BY u.input + u.output DESC, u.model), '[]') AS models
	FROM   (
		SELECT e.model, sum(e.input_tokens) AS input, sum(e.output_tokens) AS output, sum(e.cache_read_tokens) AS cache_read,
		       sum(e.cache_write_tokens) AS cache_write, sum(e.cost_nano) AS cost
		FROM   chats w JOIN entries e ON e.chat_id = w.id
		WHERE  w.session_id = r.session_id AND w.trigger = 'issue' AND w.waiter = 'issue-run/' || r.id
		GROUP  BY e.model HAVING sum(e.input_tokens + e.output_tokens) > 0) u`

// modelUse is the name of a model, and what was used of it.
type modelUse board.RunUsage

// UnmarshalJSON reads the array that usedByModel makes.
func (u *modelUse) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{
		&u.Model, &u.InputTokens, &u.OutputTokens, &u.CacheReadTokens, &u.CacheWriteTokens, (*int64)(&u.Cost),
	})
}

// byModel gives what a run has used of each model. What is in all and in no turn, such as
// calls in addition to the loop and turns of a session that was deleted, counts for all.Model.
func byModel(all board.RunUsage, models []modelUse) []board.RunUsage {
	used := []board.RunUsage{}
	main := -1

	for _, m := range models {
		if m.Model == all.Model {
			main = len(used)
		}

		m.Provider = "gateway"
		used = append(used, board.RunUsage(m))
		all.InputTokens -= m.InputTokens
		all.OutputTokens -= m.OutputTokens
		all.CacheReadTokens -= m.CacheReadTokens
		all.CacheWriteTokens -= m.CacheWriteTokens
		all.Cost -= m.Cost
	}

	if all.InputTokens <= 0 && all.OutputTokens <= 0 {
		return used
	}

	if main < 0 {
		main, used = len(used), append(used, board.RunUsage{Provider: "gateway", Model: all.Model})
	}

	u := &used[main]
	u.InputTokens += max(0, all.InputTokens)
	u.OutputTokens += max(0, all.OutputTokens)
	u.CacheReadTokens += max(0, all.CacheReadTokens)
	u.CacheWriteTokens += max(0, all.CacheWriteTokens)
	u.Cost += max(0, all.Cost)

	return used
}

// IssueUsage sums what the sessions of an issue's runs have used. Those that were deleted
// are left out.
func (s *Store) IssueUsage(ctx context.Context, userID, workspaceID, issueID string) (sum board.IssueUsage, err error) {
	if _, err := s.Issue(ctx, userID, workspaceID, issueID); err != nil {
		return sum, err
	}

	const (
		sums = `sum(u.input_tokens)::bigint, sum(u.output_tokens)::bigint, sum(u.cache_read_tokens)::bigint,
		sum(u.cache_write_tokens)::bigint`
		usage = `
		FROM   session_usage u
		    JOIN (SELECT DISTINCT session_id, agent_id FROM issue_runs WHERE issue_id = $1) r ON r.session_id = u.session_id `
	)

	counts := func(c *board.TokenCounts, before ...any) []any {
		return append(before, &c.InputTokens, &c.OutputTokens, &c.CacheReadTokens, &c.CacheWriteTokens)
	}

	var batch pgx.Batch
	batch.Queue(`
		SELECT count(*), min(started_at), max(finished_at),
		       coalesce(sum(extract(epoch FROM coalesce(finished_at, now()) - started_at)), 0)::float8
		FROM   issue_runs WHERE issue_id = $1`, issueID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&sum.RunCount, &sum.FirstAt, &sum.LastAt, &sum.DurationS) })
	batch.Queue(`SELECT u.priced, sum(u.cost_nano)::bigint, `+sums+usage+`GROUP BY u.priced`, issueID).Query(func(rows pgx.Rows) error {
		var (
			priced bool
			cost   domain.Cost
			used   board.TokenCounts
		)

		_, err := pgx.ForEachRow(rows, counts(&used, &priced, &cost), func() error {
			sum.Cost += cost

			sum.TokenCounts = sum.TokenCounts.Add(used)
			if !priced {
				sum.Uncosted = used
			}

			return nil
		})

		return err
	})
	batch.Queue(`SELECT u.model, `+sums+usage+`GROUP BY u.model ORDER BY u.model`, issueID).Query(func(rows pgx.Rows) (err error) {
		sum.ByModel, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m board.ModelUsage, err error) {
			return m, row.Scan(counts(&m.TokenCounts, &m.Model)...)
		})

		return err
	})
	batch.Queue(`
		SELECT a.agent_id, a.runs, coalesce(t.input, 0), coalesce(t.output, 0), coalesce(t.cache_read, 0), coalesce(t.cache_write, 0)
		FROM   (SELECT agent_id, count(*) AS runs FROM issue_runs WHERE issue_id = $1 GROUP BY agent_id) a
		LEFT   JOIN (SELECT r.agent_id, sum(u.input_tokens)::bigint AS input, sum(u.output_tokens)::bigint AS output,
		                    sum(u.cache_read_tokens)::bigint AS cache_read, sum(u.cache_write_tokens)::bigint AS cache_write`+usage+`
		             GROUP BY r.agent_id) t ON t.agent_id = a.agent_id
		ORDER  BY a.agent_id`, issueID).Query(func(rows pgx.Rows) (err error) {
		sum.ByAgent, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a board.AgentUsage, err error) {
			return a, row.Scan(counts(&a.TokenCounts, &a.AgentID, &a.RunCount)...)
		})

		return err
	})
	err = s.db.Pool.SendBatch(ctx, &batch).Close()

	return sum, pg.Fault("sum the usage of an issue", err)
}
