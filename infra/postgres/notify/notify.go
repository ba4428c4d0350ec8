// Package notify writes the deliveries of webhooks in the transaction of the change that they
// report: the stores of chats and runs call it. service/webhooks sends the deliveries.
package notify

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/schedule"
	"everloop/domain/trigger"
	"everloop/domain/webhook"
)

// shownIntent and shownQuestions bound what an event shows of texts: characters of an
// intent, bytes of the questions of one call.
const (
	shownIntent    = 500
	shownQuestions = 64 << 10
)

// ChatEnded writes the deliveries of a chat's end in the transaction that ends it. Chats
// of replays have none.
func ChatEnded(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID, chatID domain.ChatID, end domain.ChatEnded) error {
	event := webhook.ChatEvent(end.FinishReason)
	if event == webhook.ChatWaiting {
		if err := runWaits(ctx, tx, sessionID, chatID); err != nil {
			return err
		}
	}

	to, err := chatTargets(ctx, tx, sessionID, chatID, event)
	if err != nil || len(to.webhooks) == 0 {
		return err
	}

	data := webhook.Chat{
		SessionID: sessionID, Intent: to.intent, ChatID: chatID, Trigger: to.trigger, TaskID: to.taskID, RunID: to.runID, ChatEnded: end,
	}

	data.Result = nil // it has any size; clients read it from the session
	if event == webhook.ChatWaiting {
		if data.Questions, err = openQuestions(ctx, tx, chatID); err != nil {
			return err
		}
	}

	return Deliver(ctx, tx, to.webhooks, &sessionID, event, data)
}

// QuestionEscalated writes the deliveries of a question that no user has answered.
func QuestionEscalated(ctx context.Context, tx pgx.Tx, sessionID domain.SessionID, chatID domain.ChatID, questionID string) error {
	to, err := chatTargets(ctx, tx, sessionID, chatID, webhook.QuestionEscalated)
	if err != nil || len(to.webhooks) == 0 {
		return err
	}

	open, err := openQuestions(ctx, tx, chatID)
	if err != nil {
		return err
	}

	i := slices.IndexFunc(open, func(q webhook.Question) bool { return q.QuestionID == questionID })
	if i < 0 {
		return nil // resolved in the meantime
	}

	return Deliver(ctx, tx, to.webhooks, &sessionID, webhook.QuestionEscalated, webhook.Escalation{
		SessionID: sessionID, Intent: to.intent, ChatID: chatID, TaskID: to.taskID, RunID: to.runID, Question: open[i],
	})
}

// TaskEvent writes the deliveries of an event of a scheduled task. The runs are those that
// it is about, the oldest first.
func TaskEvent(ctx context.Context, tx pgx.Tx, event webhook.Event, task schedule.Task, runs []schedule.Run) error {
	if err := taskRunsEnded(ctx, tx, event, task, runs); err != nil {
		return err
	}

	var session domain.SessionID
	if len(runs) == 1 && runs[0].SessionID != nil {
		session = *runs[0].SessionID
	}

	rows, _ := tx.Query(ctx, `
		SELECT w.id FROM webhooks w
		WHERE  w.owner_id = @owner AND w.enabled AND (
		       w.events && ARRAY[@event, '*'] AND (w.only_session IS NULL OR w.only_session = @session)
		       AND (w.only_task IS NULL OR w.only_task = @task)
		       OR w.id = ANY (@notify::text[]))
		ORDER  BY w.id FOR SHARE`,
		pgx.NamedArgs{"owner": task.OwnerID, "event": string(event), "session": session, "task": task.ID, "notify": task.Notify})

	to, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(to) == 0 {
		return err
	}

	shown := runs[max(0, len(runs)-webhook.MaxRuns):]

	var of *domain.SessionID
	if session != "" {
		of = &session
	}

	return Deliver(ctx, tx, to, of, event, webhook.Task{
		TaskID:       task.ID,
		Title:        task.Title,
		Runs:         slices.Concat([]schedule.Run{}, shown),
		Total:        len(runs),
		PausedReason: task.PausedReason,
	})
}

// taskRunsEnded writes the deliveries of triggers that follow the runs of a scheduled task.
func taskRunsEnded(ctx context.Context, tx pgx.Tx, event webhook.Event, task schedule.Task, runs []schedule.Run) error {
	end, ends := runEnds[event]
	if !ends {
		return nil
	}

	for _, run := range runs {
		if err := runEnded(ctx, tx, endedRun{
			source: trigger.Source{
				Kind: trigger.SourceTask,
				ID:   task.ID,
			},
			owner: task.OwnerID,
			run:   "task/" + run.ID,
			event: end,
			data:  run,
		}); err != nil {
			return err
		}
	}

	return nil
}

// runEnds are the ends of runs that triggers follow.
var runEnds = map[webhook.Event]trigger.RunEvent{
	webhook.RunCompleted: trigger.RunCompleted, webhook.RunFailed: trigger.RunFailed,
	webhook.DAGRunCompleted: trigger.RunCompleted, webhook.DAGRunFailed: trigger.RunFailed,
	webhook.IssueRunCompleted: trigger.RunCompleted, webhook.IssueRunFailed: trigger.RunFailed,
}

// targets are the webhooks that are sent an event of a chat, and what the event says of it.
type targets struct {
	webhooks []string
	intent   string
	trigger  domain.Trigger
	taskID   *string
	runID    *string
}

// chatTargets finds out who is sent an event of a chat. The rows of the webhooks do not change
// until the transaction has ended: who disables one then fails the deliveries written here, too.
func chatTargets(
	ctx context.Context,
	tx pgx.Tx,
	sessionID domain.SessionID,
	chatID domain.ChatID,
	event webhook.Event,
) (to targets, err error) {
	rows, _ := tx.Query(ctx, `
		SELECT w.id, left(s.intent, @shown), c.trigger, t.id, r.id
		FROM   sessions s
		JOIN   webhooks w ON w.owner_id = s.owner_id AND w.enabled
		JOIN   chats c ON c.id = @chat AND c.trigger <> 'replay'
		LEFT   JOIN scheduled_runs r ON c.trigger = 'schedule' AND r.id = substr(c.waiter, length('schedule-run/') + 1)
		LEFT   JOIN scheduled_tasks t ON t.id = r.task_id
		WHERE  s.id = @session AND (
		       w.events && ARRAY[@event, '*'] AND (w.only_session IS NULL OR w.only_session = s.id)
		       AND (w.only_task IS NULL OR w.only_task = t.id)
		       OR @notifies AND w.id = ANY (t.notify) OR @escalates AND s.setup #> '{escalation,webhooks}' ? w.id)
		ORDER  BY w.id FOR SHARE OF w`,
		pgx.NamedArgs{
			"session": sessionID, "chat": chatID, "event": string(event), "notifies": event.NotifiesTask(), "shown": shownIntent,
			"escalates": event == webhook.QuestionEscalated,
		})

	var id string

	_, err = pgx.ForEachRow(rows, []any{&id, &to.intent, &to.trigger, &to.taskID, &to.runID}, func() error {
		to.webhooks = append(to.webhooks, id)
		return nil
	})

	return to, err
}

// openQuestions returns the questions that a chat waits for.
func openQuestions(ctx context.Context, tx pgx.Tx, chatID domain.ChatID) ([]webhook.Question, error) {
	rows, _ := tx.Query(ctx, `
		SELECT id, tool_call_id, CASE WHEN guards IS NULL THEN 'question' ELSE 'permission' END,
		       CASE WHEN octet_length(questions::text) <= $2 THEN questions END, asked_at, expires_at, default_policy
		FROM   questions WHERE chat_id = $1 AND state = 'open' ORDER BY id LIMIT 20`, chatID, shownQuestions)

	return pgx.CollectRows(rows, pgx.RowToStructByPos[webhook.Question])
}

// tooManyPending is the error of a delivery that was not queued.
const tooManyPending = "too many deliveries of this webhook wait already; it was not sent"

// Deliver writes one delivery for each of the webhooks. The delivery of a webhook that has
// webhook.MaxPending pending deliveries is written as failed.
func Deliver(ctx context.Context, tx pgx.Tx, to []string, sessionID *domain.SessionID, event webhook.Event, data any) error {
	body, err := json.Marshal(webhook.Body{Type: event, Timestamp: time.Now().UTC().Truncate(time.Millisecond), Data: data})
	if err != nil {
		return err
	}

	ids := make([]string, len(to))
	for i := range ids {
		ids[i] = domain.NewID()
	}

	_, err = tx.Exec(ctx, `
		INSERT INTO webhook_deliveries (id, webhook_id, session_id, event, body, status, error, finished_at)
		SELECT n.id, n.webhook, @session::text, @event, @body, CASE WHEN f.crowded THEN 'failed' ELSE 'pending' END,
		       CASE WHEN f.crowded THEN @reason END, CASE WHEN f.crowded THEN now() END
		FROM   unnest(@ids::text[], @webhooks::text[]) AS n (id, webhook)
		CROSS  JOIN LATERAL (
			SELECT count(*) >= @most AS crowded FROM (
				SELECT 1 FROM webhook_deliveries d WHERE d.webhook_id = n.webhook AND d.status = 'pending' LIMIT @most) p) f`,
		pgx.NamedArgs{
			"ids": ids, "webhooks": to, "session": sessionID, "event": string(event), "body": string(body), "reason": tooManyPending,
			"most": webhook.MaxPending,
		})

	return err
}
