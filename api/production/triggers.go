package production

import (
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain/target"
	"everloop/domain/trigger"
	"everloop/service/triggers"
)

// TriggerRef is the path of an operation on one trigger.
type TriggerRef struct {
	ID string `path:"id" maxLength:"128" doc:"The trigger." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
}

// addressed returns a trigger with the path of its address.
func addressed(t trigger.Trigger) trigger.Trigger {
	if t.Kind == trigger.Webhook {
		path := httpx.Hooks + t.ID
		t.Path = &path
	}

	return t
}

// triggerWithSecret is the answer to a creation and to a change of the secret, the only ones that
// show the secret.
type triggerWithSecret struct {
	trigger.Trigger
	Secret string `json:"secret,omitempty" doc:"The secret by which requests prove their sender, if it is new. It is not shown again." example:"whsec_…"`
}

type runEvents []trigger.RunEvent

type newTrigger struct {
	Name      string          `json:"name" minLength:"1" maxLength:"200" doc:"Its name." example:"Pull requests"`
	Kind      *trigger.Kind   `json:"kind,omitempty" nullable:"true" enum:"webhook,run_ended" doc:"What starts it; default webhook: requests to its address."`
	Auth      *trigger.Auth   `json:"auth,omitempty" nullable:"true" enum:"bearer,standard,github,gitlab,slack" doc:"With kind webhook: how requests prove their sender." example:"github"`
	Secret    *string         `json:"secret,omitempty" nullable:"true" minLength:"16" maxLength:"512" doc:"With kind webhook: the secret, such as the signing secret of a Slack app; left out: a new one is generated."`
	On        *runEvents      `json:"on,omitempty" nullable:"true" maxItems:"2" enum:"run_completed,run_failed" doc:"With kind run_ended: the ends that start it."`
	Source    *trigger.Source `json:"source,omitempty" doc:"With kind run_ended: whose runs start it."`
	Filter    *string         `json:"filter,omitempty" nullable:"true" maxLength:"16000" doc:"An Expr condition over body, headers and event; left out: every delivery passes." example:"event == \"pull_request\" and body.action == \"opened\""`
	Target    target.Target   `json:"target" doc:"What a delivery starts."`
	Enabled   *bool           `json:"enabled,omitempty" nullable:"true" doc:"Whether deliveries start work; default true."`
	RateLimit *int            `json:"rate_limit,omitempty" nullable:"true" minimum:"1" maximum:"600" doc:"The maximum number of deliveries in a minute; default 60." example:"60"`
}

func (n newTrigger) spec() trigger.Spec {
	spec := trigger.Spec{
		Name: n.Name, Kind: trigger.Webhook, Auth: n.Auth, On: []trigger.RunEvent{}, Source: n.Source, Filter: fields.Value(n.Filter),
		Target: n.Target, Enabled: true, RateLimit: trigger.DefaultRate,
	}
	fields.Set(&spec.Kind, n.Kind)
	fields.Set(&spec.Enabled, n.Enabled)
	fields.Set(&spec.RateLimit, n.RateLimit)

	if n.On != nil {
		spec.On = append(spec.On, *n.On...)
	}

	return spec
}

// triggerChange is the body of PATCH: fields left out keep their values.
type triggerChange struct {
	Name      *string                `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"200" doc:"Its name."`
	Secret    httpx.Nullable[string] `json:"secret,omitempty" nullable:"true" minLength:"16" maxLength:"512" doc:"Another secret; null: a new one is generated. The answer shows it."`
	On        *runEvents             `json:"on,omitempty" nullable:"true" maxItems:"2" enum:"run_completed,run_failed" doc:"With kind run_ended: the ends that start it."`
	Source    *trigger.Source        `json:"source,omitempty" doc:"With kind run_ended: whose runs start it."`
	Filter    *string                `json:"filter,omitempty" nullable:"true" maxLength:"16000" doc:"An Expr condition over body, headers and event; empty: every delivery passes." example:"event == \"push\""`
	Target    *target.Target         `json:"target,omitempty" doc:"What a delivery starts."`
	Enabled   *bool                  `json:"enabled,omitempty" nullable:"true" doc:"Whether deliveries start work."`
	RateLimit *int                   `json:"rate_limit,omitempty" nullable:"true" minimum:"1" maximum:"600" doc:"The maximum number of deliveries in a minute." example:"60"`
}

func (c triggerChange) apply(spec *trigger.Spec) {
	fields.Set(&spec.Name, c.Name)
	fields.Set(&spec.Filter, c.Filter)
	fields.Set(&spec.Target, c.Target)
	fields.Set(&spec.Enabled, c.Enabled)
	fields.Set(&spec.RateLimit, c.RateLimit)

	if c.On != nil {
		spec.On = append([]trigger.RunEvent{}, *c.On...)
	}

	if c.Source != nil {
		spec.Source = c.Source
	}
}

// TriggersAPI manages triggers and receives their deliveries.
type TriggersAPI struct {
	Triggers *triggers.Service
}

const onTrigger = "trigger_not_found"

// Register adds the operations of the area to the interface.
func (a *TriggersAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID:      "create-trigger",
		Method:  fiber.MethodPost,
		Path:    "/api/triggers",
		Tag:     "Triggers",
		Summary: "Create a trigger",
		Description: "A trigger of kind webhook starts work when a signed request reaches its address, one of kind run_ended when a run " +
			"of a scheduled task, DAG or issue ends. The answer is the only one with the secret.",
		Scope:  auth.Triggers,
		Audit:  "trigger.create",
		Secret: true,
		Status: fiber.StatusCreated,
		Errors: httpx.Codes{
			403: onTarget403, 404: "workspace_not_found prod_agent_not_found " + onTarget404, 409: "trigger_limit dag_not_published",
			422: "invalid_filter " + onTarget422,
		},
		Example: `{"name": "Pull requests", "auth": "github", "target": {"kind": "prompt", "prompt": "Review {{body.repository.name}}"}}`,
	}, a.create)
	httpx.Register(r, httpx.Operation{
		ID: "list-triggers", Method: fiber.MethodGet, Path: "/api/triggers", Tag: "Triggers",
		Summary: "List the caller's triggers, newest first",
		Scope:   auth.Triggers,
	}, a.list)
	httpx.Register(r, httpx.Operation{
		ID: "get-trigger", Method: fiber.MethodGet, Path: "/api/triggers/{id}", Tag: "Triggers",
		Summary: "Get a trigger",
		Scope:   auth.Triggers, Errors: httpx.Codes{404: onTrigger},
	},
		func(ctx context.Context, in *TriggerRef) (*httpx.Body[trigger.Trigger], error) {
			t, err := a.Triggers.Trigger(ctx, httpx.CallerOf(ctx).User.ID, in.ID)
			return httpx.Answer(addressed(t), err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "update-trigger", Method: fiber.MethodPatch, Path: "/api/triggers/{id}", Tag: "Triggers",
		Summary:     "Update a trigger",
		Description: "Fields left out keep their values. Deliveries without an outcome use the new ones.",
		Scope:       auth.Triggers, Audit: "trigger.change",
		Errors: httpx.Codes{
			403: onTarget403, 404: onTrigger + " workspace_not_found prod_agent_not_found " + onTarget404, 409: "dag_not_published",
			422: "invalid_filter " + onTarget422,
		},
		Example: `{"enabled": false}`,
	}, a.update)
	httpx.Register(r, httpx.Operation{
		ID: "delete-trigger", Method: fiber.MethodDelete, Path: "/api/triggers/{id}", Tag: "Triggers",
		Summary:     "Delete a trigger and its deliveries",
		Description: "What the deliveries have started continues.",
		Scope:       auth.Triggers, Audit: "trigger.delete", Status: fiber.StatusNoContent, Errors: httpx.Codes{404: onTrigger},
	},
		func(ctx context.Context, in *TriggerRef) (*struct{}, error) {
			return nil, a.Triggers.DeleteTrigger(ctx, httpx.CallerOf(ctx).User.ID, in.ID)
		})
	httpx.Register(r, httpx.Operation{
		ID: "list-trigger-deliveries", Method: fiber.MethodGet, Path: "/api/triggers/{id}/deliveries", Tag: "Triggers",
		Summary: "List the deliveries of a trigger, newest first",
		Description: "Each has the beginning of its body and its headers, without credentials and signatures. The content of requests " +
			"that did not prove their sender is not stored.",
		Scope: auth.Triggers, Errors: httpx.Codes{404: onTrigger},
	}, a.deliveries)
	httpx.Register(r, httpx.Operation{
		ID: "redeliver-trigger", Method: fiber.MethodPost, Path: "/api/triggers/{id}/deliveries/{delivery_id}/redeliver", Tag: "Triggers",
		Summary:     "Carry out a delivery again",
		Description: "As another attempt of the same delivery, with the filter and the target that the trigger has now.",
		Scope:       auth.Triggers, Audit: "trigger.redeliver",
		Errors: httpx.Codes{404: "trigger_not_found delivery_not_found", 409: "trigger_disabled delivery_pending delivery_without_body"},
	},
		func(ctx context.Context, in *struct {
			TriggerRef
			DeliveryID string `path:"delivery_id" maxLength:"128" doc:"The delivery." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
		},
		) (*httpx.Body[trigger.Delivery], error) {
			return httpx.Answer(a.Triggers.Redeliver(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.DeliveryID))
		})
	httpx.Register(r, httpx.Operation{
		ID: "receive-delivery", Method: fiber.MethodPost, Path: httpx.Hooks + "{trigger_id}", Tag: "Triggers",
		Summary: "Deliver an event to a trigger",
		Description: "Public: the request proves its sender by the scheme of the trigger. The answer comes when the delivery is stored: " +
			"202, or 200 for one that came before. The body, of at most 5 MB, is JSON, a form or a text.",
		Public: true, Status: http.StatusAccepted,
		Errors: httpx.Codes{
			401: "invalid_signature", 404: onTrigger, 413: "body_too_large", 429: "trigger_rate_limited",
			503: "dependency_unavailable body_budget_exhausted",
		},
		Replies: []httpx.Reply{httpx.JSONReply[hookReply](http.StatusOK)},
	}, a.receive)
}

func (a *TriggersAPI) create(ctx context.Context, in *struct{ Body newTrigger }) (*httpx.Body[triggerWithSecret], error) {
	made, secret, err := a.Triggers.Create(ctx, httpx.CallerOf(ctx).User.ID, in.Body.spec(), fields.Value(in.Body.Secret))
	if err == nil {
		httpx.Concerns(ctx, made.ID, nil)
	}

	return httpx.Answer(triggerWithSecret{addressed(made), secret}, err)
}

func (a *TriggersAPI) list(ctx context.Context, _ *struct{}) (*httpx.Body[fields.List[trigger.Trigger]], error) {
	all, err := a.Triggers.Triggers(ctx, httpx.CallerOf(ctx).User.ID)

	bodies := make([]trigger.Trigger, len(all))
	for i, t := range all {
		bodies[i] = addressed(t)
	}

	return httpx.Answer(fields.ListOf(bodies), err)
}

func (a *TriggersAPI) update(ctx context.Context, in *struct {
	TriggerRef
	Body triggerChange
},
) (*httpx.Body[triggerWithSecret], error) {
	changed, secret, err := a.Triggers.Change(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.Body.apply,
		in.Body.Secret.Present, fields.Value(in.Body.Secret.Value))

	return httpx.Answer(triggerWithSecret{addressed(changed), secret}, err)
}

type triggerDeliveryPage struct {
	Items []trigger.Delivery `json:"items" nullable:"false" doc:"The entries of this page."`
	Total int                `json:"total" doc:"Total number of entries." example:"1"`
}

func (a *TriggersAPI) deliveries(ctx context.Context, in *struct {
	TriggerRef
	Outcome trigger.Outcome `query:"outcome" enum:"fired,duplicate,filtered,rate_limited,paused,invalid_signature,failed" doc:"Only deliveries with this outcome."`
	Offset  int             `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit   int             `query:"limit" default:"50" minimum:"1" maximum:"200" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[triggerDeliveryPage], error) {
	page, total, err := a.Triggers.Deliveries(ctx, httpx.CallerOf(ctx).User.ID, in.ID, in.Outcome, in.Offset, in.Limit)
	return httpx.Answer(triggerDeliveryPage{fields.OrEmpty(page), total}, err)
}

// hookReply is the answer to a request at the address of a trigger.
type hookReply struct {
	DeliveryID string `json:"delivery_id,omitempty" doc:"The delivery; of a repeat that of the first one." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
	Challenge  string `json:"challenge,omitempty" doc:"The challenge of Slack, which proves that the address is the trigger's."`
}

type hookAnswer struct {
	Status int
	Body   hookReply
}

func (a *TriggersAPI) receive(ctx context.Context, in *struct {
	httpx.HookInput
	ID string `path:"trigger_id" maxLength:"128" doc:"The trigger." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
},
) (*hookAnswer, error) {
	got, err := a.Triggers.Receive(ctx, in.ID, in.Headers, func() ([]byte, error) { return in.Read(trigger.MaxBody) })
	if err != nil {
		return nil, err
	}

	out := &hookAnswer{Status: http.StatusAccepted, Body: hookReply{got.DeliveryID, got.Challenge}}
	if got.Repeat || got.Challenge != "" {
		out.Status = http.StatusOK
	}

	return out, nil
}
