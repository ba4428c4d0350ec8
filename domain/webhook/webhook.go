// Package webhook contains webhooks, the bodies that they receive, and the rules of their
// deliveries: when a delivery is retried, and when an endpoint is paused. It sends no requests.
package webhook

import (
	"encoding/json"
	"slices"
	"time"

	"everloop/domain"
	"everloop/domain/schedule"
)

// Event is an event that a webhook can subscribe to.
type Event string

// The events of webhooks.
const (
	ChatWaiting       Event = "chat.waiting"
	ChatCompleted     Event = "chat.completed"
	ChatInterrupted   Event = "chat.interrupted"
	ChatFailed        Event = "chat.failed"
	BudgetExhausted   Event = "chat.budget_exhausted"
	QuestionEscalated Event = "question.escalated"
	RunCompleted      Event = "schedule.run_completed"
	RunFailed         Event = "schedule.run_failed"
	RunMissed         Event = "schedule.run_missed"
	SchedulePaused    Event = "schedule.paused"
	DAGRunStarted     Event = "dag_run.started"
	DAGRunWaiting     Event = "dag_run.waiting"
	DAGRunCompleted   Event = "dag_run.completed"
	DAGRunFailed      Event = "dag_run.failed"
	DAGRunCancelled   Event = "dag_run.cancelled"
	IssueRunStarted   Event = "issue_run.started"
	IssueRunWaiting   Event = "issue_run.waiting"
	IssueRunCompleted Event = "issue_run.completed"
	IssueRunFailed    Event = "issue_run.failed"
	IssueRunCancelled Event = "issue_run.cancelled"
	Disabled          Event = "webhook.disabled"

	All Event = "*" // every event
)

// ChatEvent returns the event of a chat that ended with the reason.
func ChatEvent(reason domain.FinishReason) Event {
	switch reason {
	case domain.FinishAwaitingAnswer:
		return ChatWaiting
	case domain.FinishCompleted:
		return ChatCompleted
	case domain.FinishInterrupted:
		return ChatInterrupted
	case domain.FinishBudgetExhausted:
		return BudgetExhausted
	case domain.FinishFailed, domain.FinishMaxSteps, domain.FinishSchemaMismatch, domain.FinishStuckDetected, domain.FinishContextOverflow,
		domain.FinishOutputLimit, domain.FinishContentFiltered, domain.FinishEmptyAnswer:
		return ChatFailed
	}

	return ChatFailed
}

// NotifiesTask reports whether a webhook that a scheduled task names in notify receives the
// event, regardless of its subscriptions. The end of a run replaces the end of its chat.
func (e Event) NotifiesTask() bool {
	return slices.Contains([]Event{
		ChatWaiting, QuestionEscalated, RunCompleted, RunFailed, RunMissed, SchedulePaused,
	}, e)
}

// Bounds of webhooks.
const (
	MaxWebhooks   = 20   // of a user
	MaxPending    = 1000 // waiting deliveries of a webhook
	MaxDeliveries = 2000 // stored finished deliveries of a webhook
	MaxAttempts   = 20   // stored attempts of a delivery
	MaxAnswer     = 4096 // stored bytes of a response
	MaxNotify     = 10   // webhooks that a scheduled task names
	MaxRuns       = 20   // runs in one event
	MaxOverlapS   = 7 * 24 * 3600
)

// Spec is the specification of a webhook.
type Spec struct {
	URL         string            `json:"url" doc:"Where events are sent." example:"https://hooks.example.org/everloop"`
	Description string            `json:"description" doc:"What it is for." example:"The channel of the team"`
	Events      []Event           `json:"events" nullable:"false" doc:"The events that it is sent; * stands for all of them."`
	SessionID   *domain.SessionID `json:"session_id" nullable:"true" doc:"Only events of this session are sent; null: of all."`
	TaskID      *string           `json:"task_id" nullable:"true" doc:"Only events of this scheduled task are sent; null: of all."`
	Enabled     bool              `json:"enabled" doc:"Whether events are sent."`
}

// Webhook is an address to which events are sent.
type Webhook struct {
	ID string `json:"id" doc:"The webhook." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Spec
	DisabledReason      *string    `json:"disabled_reason" nullable:"true" doc:"Why the service disabled it; null: it did not."`
	ConsecutiveFailures int        `json:"consecutive_failures" doc:"Failed attempts since the last that succeeded." example:"0"`
	FailingSince        *time.Time `json:"failing_since" nullable:"true" doc:"Time of the first of them; null: the last attempt succeeded."`
	LastDeliveryAt      *time.Time `json:"last_delivery_at" nullable:"true" doc:"Time of the last attempt that succeeded; null: none did."`
	PreviousSecretUntil *time.Time `json:"previous_secret_until" nullable:"true" doc:"Until when the secret before the last rotation signs too; null: it does not."`
	CreatedAt           time.Time  `json:"created_at" doc:"Time of its creation."`
	UpdatedAt           time.Time  `json:"updated_at" doc:"Time of its last change."`
}

// DeliveryStatus is the progress of a delivery.
type DeliveryStatus string

// The statuses of a delivery.
const (
	DeliveryPending   DeliveryStatus = "pending"
	DeliveryDelivered DeliveryStatus = "delivered"
	DeliveryFailed    DeliveryStatus = "failed"
)

// Attempt is one request of a delivery, with its answer.
type Attempt struct {
	Number     int       `json:"number" doc:"Its number, from 1." example:"1"`
	At         time.Time `json:"at" doc:"Time at which it began."`
	DurationMS int64     `json:"duration_ms" doc:"Milliseconds that it took." example:"84"`
	StatusCode int       `json:"status_code" doc:"Status of the answer; 0: there was none." example:"200"`
	Response   string    `json:"response" doc:"Beginning of the answer's body, at most 4 KiB."`
	Error      *string   `json:"error" nullable:"true" doc:"Why it failed; null: it succeeded."`
}

// Delivery is one event for one webhook.
type Delivery struct {
	ID            string          `json:"id" doc:"The delivery, and the webhook-id of each of its requests." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
	WebhookID     string          `json:"webhook_id" doc:"The webhook." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Event         Event           `json:"event" doc:"The event." example:"chat.completed"`
	Status        DeliveryStatus  `json:"status" enum:"pending,delivered,failed" doc:"Its status."`
	Request       json.RawMessage `json:"request" doc:"The body that is sent."`
	Error         *string         `json:"error" nullable:"true" doc:"Why it failed; null: it did not."`
	AttemptCount  int             `json:"attempt_count" doc:"How many attempts were made." example:"1"`
	Attempts      []Attempt       `json:"attempts" nullable:"false" doc:"The newest 20 attempts, the oldest first."`
	NextAttemptAt *time.Time      `json:"next_attempt_at" nullable:"true" doc:"Time of the next attempt; null: there is none."`
	CreatedAt     time.Time       `json:"created_at" doc:"Time of the event."`
	FinishedAt    *time.Time      `json:"finished_at" nullable:"true" doc:"Time of its end; null: it is not over."`
}

// SealedSecrets are the encrypted secrets of a webhook.
type SealedSecrets struct {
	Current       []byte
	Previous      []byte // nil: there is none
	PreviousUntil *time.Time
}

// DueDelivery is a delivery whose next attempt a process has claimed.
type DueDelivery struct {
	ID        string
	WebhookID string
	Claim     int64
	URL       string
	Body      string
	Number    int // of the attempt
	Secrets   SealedSecrets
}

// Answer is the outcome of an attempt. RetryAfter is the endpoint's Retry-After; 0: none.
type Answer struct {
	At         time.Time
	Duration   time.Duration
	StatusCode int
	Response   string
	Error      string // empty: it succeeded
	RetryAfter time.Duration
}

// StatusGone is the status by which an endpoint requests no more events.
const StatusGone = 410

// waits are the pauses after the failed attempts of a delivery, a little more than a day in
// total.
var waits = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour,
	2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 8*time.Hour + 30*time.Minute,
}

// maxRetryAfter bounds the pause that an endpoint can request.
const maxRetryAfter = 2 * time.Hour

// NextDelivery returns the pause before the next attempt of a delivery with the given number of
// failed attempts, at least as long as the endpoint requests; false: there is none.
func NextDelivery(tries int, asked time.Duration) (time.Duration, bool) {
	if tries < 1 || tries > len(waits) {
		return 0, false
	}

	return max(waits[tries-1], min(asked, maxRetryAfter)), true
}

// endpointPause bounds the pause of a webhook.
const endpointPause = 5 * time.Minute

// EndpointPause returns how long an endpoint is paused after the given number of consecutive
// failed attempts, for all deliveries.
func EndpointPause(failures int) time.Duration {
	pause := 2 * time.Second
	for range failures - 1 {
		if pause *= 2; pause >= endpointPause {
			return endpointPause
		}
	}

	return pause
}

// A webhook is disabled after failing for this long, and this often.
const (
	FailsFor   = 3 * 24 * time.Hour
	FailsOften = 10
)

// Body is the body of a delivery.
type Body struct {
	Type      Event     `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

// Chat is the data of an event of a chat.
type Chat struct {
	SessionID domain.SessionID `json:"session_id"`
	Intent    string           `json:"intent"`
	ChatID    domain.ChatID    `json:"chat_id"`
	Trigger   domain.Trigger   `json:"trigger"`
	TaskID    *string          `json:"task_id"` // the scheduled task
	RunID     *string          `json:"run_id"`  // the run of that task
	Questions []Question       `json:"questions,omitempty"`
	domain.ChatEnded
}

// Question is an open question, in an event.
type Question struct {
	QuestionID    string                `json:"question_id"`
	ToolCallID    string                `json:"tool_call_id"`
	Kind          string                `json:"kind"`
	Questions     json.RawMessage       `json:"questions"` // null: the questions are too long
	AskedAt       time.Time             `json:"asked_at"`
	ExpiresAt     *time.Time            `json:"expires_at"`
	DefaultPolicy *domain.DefaultPolicy `json:"default_policy"`
}

// Escalation is the data of question.escalated.
type Escalation struct {
	SessionID domain.SessionID `json:"session_id"`
	Intent    string           `json:"intent"`
	ChatID    domain.ChatID    `json:"chat_id"`
	TaskID    *string          `json:"task_id"`
	RunID     *string          `json:"run_id"`
	Question  Question         `json:"question"`
}

// Task is the data of an event of a scheduled task.
type Task struct {
	TaskID       string         `json:"task_id"`
	Title        string         `json:"title"`
	Runs         []schedule.Run `json:"runs"`  // newest first
	Total        int            `json:"total"` // of the runs
	PausedReason *string        `json:"paused_reason"`
}

// Stopped is the data of webhook.disabled.
type Stopped struct {
	WebhookID   string `json:"webhook_id"`
	Description string `json:"description"`
	Reason      string `json:"reason"`
}

// DAGRun is the data of an event of a DAG run.
type DAGRun struct {
	RunID          string            `json:"run_id"`
	ProdSolutionID string            `json:"prod_solution_id"`
	Name           string            `json:"name"` // of the solution
	Version        int               `json:"version"`
	Status         string            `json:"status"`
	Retries        int               `json:"retries"`
	Error          *RunError         `json:"error"`
	SessionID      *domain.SessionID `json:"session_id"` // that waits; null in other events
	Questions      []Question        `json:"questions,omitempty"`
	StartedAt      *time.Time        `json:"started_at"`
	FinishedAt     *time.Time        `json:"finished_at"`
}

// IssueRun is the data of an event of an issue run.
type IssueRun struct {
	RunID       string            `json:"run_id"`
	IssueID     string            `json:"issue_id"`
	Identifier  string            `json:"identifier"`
	Title       string            `json:"title"` // of the issue
	WorkspaceID string            `json:"workspace_id"`
	AgentID     string            `json:"agent_id"`
	SessionID   *domain.SessionID `json:"session_id"` // null: it has none yet
	Status      string            `json:"status"`
	Attempt     int               `json:"attempt"`
	Error       *RunError         `json:"error"`
	Questions   []Question        `json:"questions,omitempty"`
	StartedAt   *time.Time        `json:"started_at"`
	FinishedAt  *time.Time        `json:"finished_at"`
}

// RunError is why a run failed or was ended.
type RunError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}
