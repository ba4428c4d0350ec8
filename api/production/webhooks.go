package production

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/webhook"
	"everloop/service/webhooks"
)

// WebhookRef is the path of an operation on one webhook.
type WebhookRef struct {
	ID string `path:"id" maxLength:"128" doc:"The webhook." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
}

// DeliveryRef is the path of an operation on one delivery.
type DeliveryRef struct {
	WebhookRef
	DeliveryID string `path:"delivery_id" maxLength:"128" doc:"The delivery." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
}

// webhookWithSecret is the answer to a creation and to a rotation, the only ones that
// show the secret.
type webhookWithSecret struct {
	webhook.Webhook
	Secret string `json:"secret" doc:"The secret that requests are signed with. It is not shown again." example:"whsec_…"`
}

type webhookEvents []webhook.Event

type newWebhook struct {
	URL         string            `json:"url" minLength:"1" maxLength:"2000" doc:"Where events are sent, by https or http." example:"https://hooks.example.org/everloop"`
	Description *string           `json:"description,omitempty" nullable:"true" maxLength:"500" doc:"What it is for."`
	Events      *webhookEvents    `json:"events,omitempty" nullable:"true" maxItems:"50" enum:"*,chat.waiting,chat.completed,chat.interrupted,chat.failed,chat.budget_exhausted,question.escalated,schedule.run_completed,schedule.run_failed,schedule.run_missed,schedule.paused,dag_run.started,dag_run.waiting,dag_run.completed,dag_run.failed,dag_run.cancelled,issue_run.started,issue_run.waiting,issue_run.completed,issue_run.failed,issue_run.cancelled,webhook.disabled" doc:"The events that it is sent; default [\"*\"], all of them. []: only those of scheduled tasks that name it in notify." example:"[\"chat.waiting\", \"chat.failed\"]"`
	SessionID   *domain.SessionID `json:"session_id,omitempty" nullable:"true" maxLength:"128" doc:"Only events of this session are sent."`
	TaskID      *string           `json:"task_id,omitempty" nullable:"true" maxLength:"128" doc:"Only events of this scheduled task are sent."`
	Enabled     *bool             `json:"enabled,omitempty" nullable:"true" doc:"Whether events are sent; default true."`
}

// webhookChange is the body of PATCH: what is left out stays, null empties a field that
// can be empty.
type webhookChange struct {
	URL         *string                `json:"url,omitempty" nullable:"true" minLength:"1" maxLength:"2000" doc:"Where events are sent."`
	Description *string                `json:"description,omitempty" nullable:"true" maxLength:"500" doc:"What it is for."`
	Events      *webhookEvents         `json:"events,omitempty" nullable:"true" maxItems:"50" enum:"*,chat.waiting,chat.completed,chat.interrupted,chat.failed,chat.budget_exhausted,question.escalated,schedule.run_completed,schedule.run_failed,schedule.run_missed,schedule.paused,dag_run.started,dag_run.waiting,dag_run.completed,dag_run.failed,dag_run.cancelled,issue_run.started,issue_run.waiting,issue_run.completed,issue_run.failed,issue_run.cancelled,webhook.disabled" doc:"The events that it is sent." example:"[\"*\"]"`
	SessionID   httpx.Nullable[string] `json:"session_id,omitempty" nullable:"true" maxLength:"128" doc:"Only events of this session are sent; null: of all."`
	TaskID      httpx.Nullable[string] `json:"task_id,omitempty" nullable:"true" maxLength:"128" doc:"Only events of this scheduled task are sent; null: of all."`
	Enabled     *bool                  `json:"enabled,omitempty" nullable:"true" doc:"Whether events are sent. What waits for a webhook that is disabled fails."`
}

func (c webhookChange) apply(spec *webhook.Spec) {
	fields.Set(&spec.URL, c.URL)
	fields.Set(&spec.Description, c.Description)
	fields.Set(&spec.Enabled, c.Enabled)

	if c.Events != nil {
		spec.Events = append([]webhook.Event{}, *c.Events...)
	}

	if c.SessionID.Present {
		spec.SessionID = (*domain.SessionID)(fields.OrNil(c.SessionID.Value))
	}

	if c.TaskID.Present {
		spec.TaskID = fields.OrNil(c.TaskID.Value)
	}
}

type rotation struct {
	OverlapS *int `json:"overlap_s,omitempty" nullable:"true" minimum:"0" maximum:"604800" doc:"Seconds for which requests are signed with the old secret too; default 86400." example:"86400"`
}

// WebhooksAPI manages webhooks.
type WebhooksAPI struct {
	Webhooks *webhooks.Service
}

const onWebhook = "webhook_not_found"

// Register adds the operations of the area to the interface.
func (a *WebhooksAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "create-webhook", Method: fiber.MethodPost, Path: "/api/webhooks", Tag: "Webhooks",
		Summary: "Create a webhook",
		Description: "The address is sent the caller's events as signed POST requests, by the rules of Standard Webhooks. The answer is " +
			"the only one with the secret. Addresses that are not on the public Internet are refused when they are connected to.",
		Scope: auth.SessionsWrite, Audit: "webhook.create", Secret: true, Errors: httpx.Codes{409: "webhook_limit"},
		Example: `{"url": "https://hooks.example.org/everloop", "events": ["chat.waiting", "chat.failed"]}`,
	}, a.create)
	httpx.Register(r, httpx.Operation{
		ID: "list-webhooks", Method: fiber.MethodGet, Path: "/api/webhooks", Tag: "Webhooks",
		Summary: "List the caller's webhooks, newest first",
		Scope:   auth.SessionsRead,
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[fields.List[webhook.Webhook]], error) {
			all, err := a.Webhooks.Webhooks(ctx, httpx.CallerOf(ctx).User.ID)
			return httpx.Answer(fields.ListOf(all), err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "get-webhook", Method: fiber.MethodGet, Path: "/api/webhooks/{id}", Tag: "Webhooks",
		Summary: "Get a webhook",
		Scope:   auth.SessionsRead, Errors: httpx.Codes{404: onWebhook},
	},
		func(ctx context.Context, in *WebhookRef) (*httpx.Body[webhook.Webhook], error) {
			return httpx.Answer(a.Webhooks.Webhook(ctx, httpx.CallerOf(ctx).User.ID, in.ID))
		})
	httpx.Register(r, httpx.Operation{
		ID: "update-webhook", Method: fiber.MethodPatch, Path: "/api/webhooks/{id}", Tag: "Webhooks",
		Summary:     "Update a webhook",
		Description: "Fields left out keep their values. Its failures are counted from 0 after a change of url, and when it is enabled.",
		Scope:       auth.SessionsWrite, Audit: "webhook.change", Errors: httpx.Codes{404: onWebhook},
		Example: `{"enabled": false}`,
	}, a.update)
	httpx.Register(r, httpx.Operation{
		ID: "delete-webhook", Method: fiber.MethodDelete, Path: "/api/webhooks/{id}", Tag: "Webhooks",
		Summary: "Delete a webhook and its deliveries",
		Scope:   auth.SessionsWrite, Audit: "webhook.delete", Status: fiber.StatusNoContent, Errors: httpx.Codes{404: onWebhook},
	},
		func(ctx context.Context, in *WebhookRef) (*struct{}, error) {
			return nil, a.Webhooks.DeleteWebhook(ctx, httpx.CallerOf(ctx).User.ID, in.ID)
		})
	httpx.Register(r, httpx.Operation{
		ID: "rotate-webhook-secret", Method: fiber.MethodPost, Path: "/api/webhooks/{id}/rotate-secret", Tag: "Webhooks",
		Summary:     "Give a webhook another secret",
		Description: "For overlap_s seconds each request has two signatures, the second one by the old secret.",
		Scope:       auth.SessionsWrite, Audit: "webhook.rotate", Secret: true, Errors: httpx.Codes{404: onWebhook},
		Example: `{"overlap_s": 86400}`,
	}, a.rotate)
	httpx.Register(r, httpx.Operation{
		ID: "list-webhook-deliveries", Method: fiber.MethodGet, Path: "/api/webhooks/{id}/deliveries", Tag: "Webhooks",
		Summary:     "List the deliveries of a webhook, newest first",
		Description: "Each has the body of its requests, and its newest 20 attempts with the beginning of each answer.",
		Scope:       auth.SessionsRead, Errors: httpx.Codes{404: onWebhook},
	}, a.deliveries)
	httpx.Register(r, httpx.Operation{
		ID: "redeliver-webhook", Method: fiber.MethodPost, Path: "/api/webhooks/{id}/deliveries/{delivery_id}/redeliver", Tag: "Webhooks",
		Summary:     "Send a delivery again",
		Description: "Under the same webhook-id, with all its attempts.",
		Scope:       auth.SessionsWrite, Audit: "webhook.redeliver",
		Errors: httpx.Codes{404: "webhook_not_found delivery_not_found", 409: "webhook_disabled"},
	},
		func(ctx context.Context, in *DeliveryRef) (*httpx.Body[webhook.Delivery], error) {
			return httpx.Answer(a.Webhooks.RedeliverWebhook(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.DeliveryID))
		})
}

func (a *WebhooksAPI) create(ctx context.Context, in *struct{ Body newWebhook }) (*httpx.Body[webhookWithSecret], error) {
	b := in.Body
	spec := webhook.Spec{
		URL: b.URL, Description: fields.Value(b.Description), Events: []webhook.Event{webhook.All},
		SessionID: fields.OrNil(b.SessionID), TaskID: fields.OrNil(b.TaskID), Enabled: true,
	}
	fields.Set(&spec.Enabled, b.Enabled)

	if b.Events != nil {
		spec.Events = append([]webhook.Event{}, *b.Events...)
	}

	made, secret, err := a.Webhooks.Create(ctx, httpx.CallerOf(ctx).User.ID, spec)
	if err == nil {
		httpx.Concerns(ctx, made.ID, nil)
	}

	return httpx.Answer(webhookWithSecret{made, secret}, err)
}

func (a *WebhooksAPI) update(ctx context.Context, in *struct {
	WebhookRef
	Body webhookChange
},
) (*httpx.Body[webhook.Webhook], error) {
	return httpx.Answer(a.Webhooks.Change(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.Body.apply))
}

func (a *WebhooksAPI) rotate(ctx context.Context, in *struct {
	WebhookRef
	Body *rotation
},
) (*httpx.Body[webhookWithSecret], error) {
	overlap := 24 * 3600
	if in.Body != nil {
		fields.Set(&overlap, in.Body.OverlapS)
	}

	changed, secret, err := a.Webhooks.Rotate(ctx, httpx.CallerOf(ctx).User.ID, in.ID, overlap)

	return httpx.Answer(webhookWithSecret{changed, secret}, err)
}

type deliveryPage struct {
	Items []webhook.Delivery `json:"items" nullable:"false" doc:"The entries of this page."`
	Total int                `json:"total" doc:"Total number of entries." example:"1"`
}

func (a *WebhooksAPI) deliveries(ctx context.Context, in *struct {
	WebhookRef
	Status webhook.DeliveryStatus `query:"status" enum:"pending,delivered,failed" doc:"Only deliveries with this status."`
	Event  webhook.Event          `query:"event" enum:"chat.waiting,chat.completed,chat.interrupted,chat.failed,chat.budget_exhausted,question.escalated,schedule.run_completed,schedule.run_failed,schedule.run_missed,schedule.paused,dag_run.started,dag_run.waiting,dag_run.completed,dag_run.failed,dag_run.cancelled,issue_run.started,issue_run.waiting,issue_run.completed,issue_run.failed,issue_run.cancelled,webhook.disabled" doc:"Only deliveries of this event."`
	Offset int                    `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int                    `query:"limit" default:"50" minimum:"1" maximum:"200" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[deliveryPage], error) {
	page, total, err := a.Webhooks.WebhookDeliveries(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.Status, in.Event, in.Offset, in.Limit)
	return httpx.Answer(deliveryPage{fields.OrEmpty(page), total}, err)
}
