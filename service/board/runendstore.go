package board

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/schedule"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
)

// end is how a run ended.
type end struct {
	status  board.IssueRunStatus
	reason  string
	message string
	retried bool // it is worth another attempt
}

// endEvents are the events of runs that have ended.
var endEvents = map[board.IssueRunStatus]webhook.Event{
	board.IssueRunCompleted: webhook.IssueRunCompleted,
	board.IssueRunFailed:    webhook.IssueRunFailed,
	board.IssueRunCancelled: webhook.IssueRunCancelled,
}

// endRun ends a run: its issue moves on, and where it is worth it another attempt starts.
func endRun(ctx context.Context, tx pgx.Tx, runID string, run openRun, e end, plan *board.IssueRunPlan) error {
	if _, err := tx.Exec(ctx, `
		UPDATE issue_runs
		SET    status = $2, reason_code = coalesce(nullif($3, ''), reason_code), error = nullif($4, ''), finished_at = now()
		WHERE  id = $1`, runID, e.status, e.reason, e.message); err != nil {
		return err
	}

	if err := notify.IssueRunEvent(ctx, tx, endEvents[e.status], runID); err != nil {
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

	if err := notifyWaiter(ctx, tx, run.issue.ID, plan); err != nil {
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

// notifyWaiter has the workflow signalled that waits for the runs of an issue, one of which has ended.
func notifyWaiter(ctx context.Context, tx pgx.Tx, issueID string, plan *board.IssueRunPlan) error {
	var waiter *string

	err := tx.QueryRow(ctx, `UPDATE issues SET last_activity_at = now() WHERE id = $1 RETURNING waiter`, issueID).Scan(&waiter)
	if err == nil && waiter != nil {
		plan.Notify = append(plan.Notify, *waiter)
	}

	return err
}

// EndOfIssue returns how the last run of an issue ended, and what all have used; false: one works
// or waits. An issue without runs has ended as completed, a deleted one as failed.
func (s *Store) EndOfIssue(ctx context.Context, issueID string) (end domain.RunEnd, used domain.Usage, ended bool, err error) {
	var (
		status        board.IssueRunStatus
		code, message string
	)

	err = s.db.Pool.QueryRow(ctx, `
		SELECT coalesce(r.status, 'completed'), coalesce(r.reason_code, ''), coalesce(r.error, ''),
		       u.input, u.output, u.cache_read, u.cache_write, u.cost
		FROM   issues i
		LEFT   JOIN LATERAL (
			SELECT status, reason_code, error FROM issue_runs WHERE issue_id = i.id ORDER BY id DESC LIMIT 1) r ON true,
		LATERAL (
			SELECT coalesce(sum(input_tokens), 0)::bigint AS input, coalesce(sum(output_tokens), 0)::bigint AS output,
			       coalesce(sum(cache_read_tokens), 0)::bigint AS cache_read,
			       coalesce(sum(cache_write_tokens), 0)::bigint AS cache_write, coalesce(sum(cost_nano), 0)::bigint AS cost
			FROM   issue_runs WHERE issue_id = i.id) u
		WHERE  i.id = $1`, issueID).
		Scan(&status, &code, &message, &used.InputTokens, &used.OutputTokens, &used.CacheReadTokens, &used.CacheWriteTokens, &used.Cost)

	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return domain.RunEnd{Status: domain.RunFailed, Reason: board.CodeIssueNotFound, Error: "the issue was deleted"}, used, true, nil
	case err != nil:
		return end, used, false, pg.Fault("read the end of an issue's run", err)
	case status == board.IssueRunCompleted:
		end = domain.RunEnd{Status: domain.RunCompleted}
	case status == board.IssueRunCancelled:
		end = domain.RunEnd{
			Status: domain.RunFailed,
			Reason: cmp.Or(code, board.ReasonStopped),
			Error:  "the run on the issue was cancelled",
		}
	case status == board.IssueRunFailed:
		end = domain.RunEnd{Status: domain.RunFailed, Reason: code, Error: message, Counts: true}
	default:
		return end, used, false, nil
	}

	return end, used, true, nil
}

// EndIssueRun ends a run whose chat has ended, with the agent's last text as a comment.
// With ended unset the chat continues, or, with again, comments came while it worked and
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

func chatOf(ctx context.Context, tx pgx.Tx, id domain.ChatID) (c chatEnd, err error) {
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
		SELECT c.id, c.position FROM issue_comments c JOIN issue_runs r ON r.id = $1
		WHERE  c.issue_id = r.issue_id AND c.author_type = 'member' AND c.position > r.seen_position AND c.id <> ALL (r.told_comments)
		ORDER  BY c.position`, runID)

	var (
		id      string
		upto    int64
		pending []string
	)

	_, err = pgx.ForEachRow(rows, []any{&id, &upto}, func() error {
		pending = append(pending, id)
		return nil
	})
	if err != nil || len(pending) == 0 {
		return false, err
	}

	_, err = tx.Exec(ctx, `
		UPDATE issue_runs SET round = round + 1, chat_id = NULL, upto_position = $2, coalesced = coalesced || $3 WHERE id = $1`,
		runID, upto, pending)

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
