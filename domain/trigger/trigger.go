// Package trigger contains triggers, which start work when an event arrives from outside or when
// a run ends, and the rules of their deliveries: signatures, ids, filters, templates, rates and
// chains. It receives no requests and starts no work.
package trigger

import (
	"strconv"
	"time"

	"everloop/domain"
	"everloop/domain/target"
)

// Kind is the source of the events of a trigger.
type Kind string

// The kinds of triggers.
const (
	Webhook  Kind = "webhook"   // requests to its address
	RunEnded Kind = "run_ended" // the end of runs
)

// Auth is the scheme by which requests to a trigger prove their sender.
type Auth string

// The schemes.
const (
	Bearer   Auth = "bearer"   // Authorization: Bearer SECRET
	Standard Auth = "standard" // Standard Webhooks
	GitHub   Auth = "github"   // X-Hub-Signature-256
	GitLab   Auth = "gitlab"   // X-Gitlab-Token, or its signing token
	Slack    Auth = "slack"    // X-Slack-Signature
)

// RunEvent is how a run ended.
type RunEvent string

// The ends of runs that start work.
const (
	RunCompleted RunEvent = "run_completed"
	RunFailed    RunEvent = "run_failed"
)

// SourceKind is the kind of a source of runs.
type SourceKind string

// The sources of runs.
const (
	SourceTask  SourceKind = "task"  // a scheduled task
	SourceDAG   SourceKind = "dag"   // the DAG of a production solution
	SourceIssue SourceKind = "issue" // an issue
)

// Source names the scheduled task, production solution or issue whose runs start work.
type Source struct {
	_ struct{} `nullable:"true"`

	Kind SourceKind `json:"kind" enum:"task,dag,issue" doc:"What the id names: a scheduled task, a production solution or an issue."`
	ID   string     `json:"id" minLength:"1" maxLength:"128" doc:"The scheduled task, production solution or issue." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
}

// Bounds of triggers and their deliveries.
const (
	MaxTriggers      = 100     // of a user
	MaxBody          = 5 << 20 // bytes of a request
	MaxRate          = 600     // deliveries in a minute
	DefaultRate      = 60
	MaxDeliveries    = 1000     // stored deliveries of a trigger
	MaxRefused       = 200      // stored deliveries of a trigger that started nothing on purpose: see Outcome.Refused
	MaxStoredBodies  = 64 << 20 // bytes of all stored bodies of a trigger
	MaxShownBody     = 64 << 10 // bytes of a body that a list shows
	MaxDepth         = 8        // triggers in a chain of runs
	MinSecret        = 16       // characters of a secret that the owner chooses
	MaxSecret        = 512
	refusedPerMinute = 60 // see Refusals
)

// Spec is the specification of a trigger.
type Spec struct {
	Name      string        `json:"name" doc:"Its name." example:"Pull requests"`
	Kind      Kind          `json:"kind" enum:"webhook,run_ended" doc:"What starts it: requests to its address, or the end of runs."`
	Auth      *Auth         `json:"auth" nullable:"true" enum:"bearer,standard,github,gitlab,slack" doc:"How requests prove their sender; null: it has no address."`
	On        []RunEvent    `json:"on" nullable:"false" enum:"run_completed,run_failed" doc:"With kind run_ended: the ends that start it."`
	Source    *Source       `json:"source" doc:"With kind run_ended: whose runs start it."`
	Filter    string        `json:"filter" doc:"An Expr condition over body, headers and event; empty: every delivery passes." example:"event == \"pull_request\" and body.action == \"opened\""`
	Target    target.Target `json:"target" doc:"What a delivery starts."`
	Enabled   bool          `json:"enabled" doc:"Whether deliveries start work."`
	RateLimit int           `json:"rate_limit" doc:"The maximum number of deliveries in a minute." example:"60"`
}

// Trigger starts work when an event arrives.
type Trigger struct {
	ID      string `json:"id" doc:"The trigger." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	OwnerID string `json:"owner_id" doc:"The user whose trigger it is." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
	Spec
	Path           *string    `json:"path" nullable:"true" doc:"The path of its address at this service; null: it has no address." example:"/hooks/01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	LastDeliveryAt *time.Time `json:"last_delivery_at" nullable:"true" doc:"Time of the last accepted delivery; null: there was none."`
	CreatedAt      time.Time  `json:"created_at" doc:"Time of its creation."`
	UpdatedAt      time.Time  `json:"updated_at" doc:"Time of its last change."`
}

// Outcome is the result of a delivery; empty: it is not decided yet.
type Outcome string

// The outcomes of a delivery.
const (
	Fired            Outcome = "fired"
	Duplicate        Outcome = "duplicate"         // another delivery has the same id
	Filtered         Outcome = "filtered"          // the filter does not hold
	RateLimited      Outcome = "rate_limited"      // more deliveries than the rate allows
	Paused           Outcome = "paused"            // the trigger is disabled, or the account of its owner is closed
	InvalidSignature Outcome = "invalid_signature" // the sender was not proved
	Failed           Outcome = "failed"            // the filter or the target rejected it
)

// Refused reports whether a delivery was neither carried out nor counted: the same delivery may
// come again and start work.
func (o Outcome) Refused() bool {
	return o == Duplicate || o == RateLimited || o == Paused || o == InvalidSignature
}

// Reason codes of deliveries, in addition to the codes of rejected targets.
const (
	ReasonDisabled      = "trigger_disabled"
	ReasonAccountClosed = domain.CodeAccountClosed
	ReasonFilter        = "filter_failed"
	ReasonTemplate      = "template_too_large"
	ReasonCircle        = "trigger_circle"
	ReasonDepth         = "trigger_chain_too_deep"
)

// Delivery is the record of one event that arrived.
type Delivery struct {
	ID          string            `json:"id" doc:"The delivery." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
	TriggerID   string            `json:"trigger_id" doc:"The trigger." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Key         string            `json:"key" doc:"The id that the sender gave it, else a digest of its content." example:"72d3162e-cc78-11e3-81ab-4c9367dc0958"`
	Outcome     *Outcome          `json:"outcome" nullable:"true" enum:"fired,duplicate,filtered,rate_limited,paused,invalid_signature,failed" doc:"What became of it; null: it is being carried out."`
	ReasonCode  *string           `json:"reason_code" nullable:"true" doc:"Why it has this outcome; null: there is nothing to add." example:"trigger_disabled"`
	Error       *string           `json:"error" nullable:"true" doc:"The reason in words; null: there is nothing to add."`
	Event       string            `json:"event" doc:"The type of the event; empty: the sender named none." example:"pull_request"`
	Headers     map[string]string `json:"headers" nullable:"false" doc:"The headers of the request, in small letters, without the values of credentials and signatures."`
	Body        string            `json:"body" doc:"The beginning of the body, at most 64 KiB, without values that look like credentials."`
	BodyBytes   int               `json:"body_bytes" doc:"The size of the body." example:"8211"`
	BodyKept    bool              `json:"body_kept" doc:"Whether the body is still stored: only then it can be delivered again."`
	Attempt     int               `json:"attempt" doc:"How often it was delivered, by hand included." example:"1"`
	DuplicateOf *string           `json:"duplicate_of" nullable:"true" doc:"The delivery that it repeats; null: none."`
	SessionID   *domain.SessionID `json:"session_id" nullable:"true" doc:"The session that it started or that got the message; null: none."`
	ChatID      *domain.ChatID    `json:"chat_id" nullable:"true" doc:"The chat that it started; null: none."`
	Run         *string           `json:"run" nullable:"true" doc:"The run that it started, as dag/SOLUTION/RUN or issue/ISSUE; null: none."`
	CreatedAt   time.Time         `json:"created_at" doc:"Time of its arrival."`
	FinishedAt  *time.Time        `json:"finished_at" nullable:"true" doc:"Time of its outcome; null: it has none yet."`
}

// MessageID returns the client_message_id of the message of a delivery. A delivery that is
// repeated by hand has another attempt.
func MessageID(deliveryID string, attempt int) string {
	return "trigger/" + deliveryID + "/" + strconv.Itoa(attempt)
}
