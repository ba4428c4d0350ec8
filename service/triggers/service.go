// Package triggers manages the triggers of users, receives their deliveries and carries them out.
// The row of a delivery comes first: a workflow carries out each row without an outcome, and the
// reconciler starts the workflows that a crash has left out. The files with SQL are named after
// the store.
package triggers

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"everloop/domain"
	"everloop/domain/target"
	"everloop/domain/trigger"
	"everloop/infra/postgres/pg"
	"everloop/infra/secrets"
	"everloop/service/targets"
)

// Deps are the dependencies of New. All are required.
type Deps struct {
	DB  *pg.DB
	Box *secrets.Box // seals the secrets
	// StartDelivery starts the workflow of a delivery unless it is open.
	StartDelivery func(ctx context.Context, triggerID, deliveryID string) error
	Logger        *slog.Logger
}

// Service manages triggers and their deliveries.
type Service struct {
	*Store
	deps    Deps
	targets *targets.Service // set by With
	starts  chan struct{}    // one for each delivery that FollowRun starts
}

// New returns a new service.
func New(deps Deps) *Service {
	return &Service{Store: NewStore(deps.DB), deps: deps, starts: make(chan struct{}, maxStarts)}
}

// With returns the service with what checks and starts targets, which the API and the workers
// have of their own.
func (s *Service) With(started *targets.Service) *Service {
	with := *s
	with.targets = started

	return &with
}

func purpose(triggerID string) string { return "trigger/" + triggerID }

// secretBytes is the length of a generated secret, before its encoding.
const secretBytes = 32

// seal returns a secret for a trigger, plain and sealed: the given one, else a new one.
func (s *Service) seal(triggerID string, auth trigger.Auth, given string) (secret string, sealed []byte, err error) {
	if secret = given; secret == "" {
		random := make([]byte, secretBytes)
		if _, err := rand.Read(random); err != nil {
			return "", nil, err
		}

		secret = base64.RawURLEncoding.EncodeToString(random)
		if auth == trigger.Standard {
			secret = "whsec_" + base64.StdEncoding.EncodeToString(random)
		}
	}

	if auth == trigger.Standard && len(trigger.StandardKey(secret)) < trigger.MinSecret {
		return "", nil, domain.Invalidf("body.secret", "must have at least %d bytes after whsec_", trigger.MinSecret)
	}

	sealed, err = s.deps.Box.Seal(purpose(triggerID), []byte(secret))

	return secret, sealed, err
}

// Create creates a trigger and returns its secret, which is never shown again. An empty secret is
// generated.
func (s *Service) Create(ctx context.Context, ownerID string, spec trigger.Spec, secret string) (trigger.Trigger, string, error) {
	if err := s.check(ctx, ownerID, &spec, trigger.Spec{}); err != nil {
		return trigger.Trigger{}, "", err
	}

	id := domain.NewID()

	var sealed []byte

	if spec.Kind == trigger.Webhook {
		var err error
		if secret, sealed, err = s.seal(id, *spec.Auth, secret); err != nil {
			return trigger.Trigger{}, "", err
		}
	} else if secret != "" {
		return trigger.Trigger{}, "", domain.Invalidf("body.secret", "must not be set with kind run_ended")
	}

	t, err := s.CreateTrigger(ctx, ownerID, id, spec, sealed)

	return t, secret, err
}

// Change changes a trigger by set, which may be called more than once. With a secret, or with
// rotate, the secret is replaced and returned: an empty one is generated.
func (s *Service) Change(
	ctx context.Context, ownerID, id string, set func(*trigger.Spec), rotate bool, secret string,
) (trigger.Trigger, string, error) {
	before, err := s.Trigger(ctx, ownerID, id)
	if err != nil {
		return before, "", err
	}

	proposed := before.Spec
	set(&proposed)

	if err := s.check(ctx, ownerID, &proposed, before.Spec); err != nil {
		return before, "", err
	}

	var sealed []byte

	switch {
	case !rotate:
		secret = ""
	case before.Auth == nil:
		return before, "", domain.Invalidf("body.secret", "must not be set with kind run_ended")
	default:
		if secret, sealed, err = s.seal(id, *before.Auth, secret); err != nil {
			return before, "", err
		}
	}

	changed, err := s.ChangeTrigger(ctx, ownerID, id, func(spec *trigger.Spec) error {
		set(spec)
		return checkSpec(spec)
	}, sealed)

	return changed, secret, err
}

// check checks a trigger, and that its owner has what it newly names.
func (s *Service) check(ctx context.Context, ownerID string, spec *trigger.Spec, before trigger.Spec) error {
	if err := checkSpec(spec); err != nil {
		return err
	}

	if spec.Source != nil && (before.Source == nil || *before.Source != *spec.Source) {
		own, err := s.OwnsSource(ctx, ownerID, *spec.Source)
		if err != nil {
			return err
		}

		if !own {
			return domain.Invalidf("body.source.id", "must be a scheduled task, production solution or issue of yours")
		}
	}

	return s.checkTargetOf(ctx, ownerID, spec, before)
}

// checkTargetOf checks that the owner can start a target that is new. One whose texts refer to the
// event is checked when it starts.
func (s *Service) checkTargetOf(ctx context.Context, ownerID string, spec *trigger.Spec, before trigger.Spec) error {
	if of := spec.Target.SessionID; of != "" && of != before.Target.SessionID {
		own, err := s.OwnsSession(ctx, ownerID, of)
		if err != nil {
			return err
		}

		if !own {
			return domain.Invalidf("body.target.session_id", "must be a session of yours")
		}
	}

	fixed := true

	spec.Target.Map(func(_, text string) string {
		fixed = fixed && len(target.References(text)) == 0
		return text
	})

	if !fixed && spec.Target.Kind == target.DAG || reflect.DeepEqual(spec.Target, before.Target) {
		return nil
	}

	return s.targets.Check(ctx, targets.Request{OwnerID: ownerID, Target: spec.Target, Title: spec.Name})
}

// checkSpec checks what needs no store, and cleans texts.
func checkSpec(spec *trigger.Spec) error {
	spec.Name, spec.Filter = domain.CleanText(strings.TrimSpace(spec.Name)), domain.CleanText(strings.TrimSpace(spec.Filter))
	slices.Sort(spec.On)
	spec.On = slices.Compact(spec.On)

	switch source := spec.Source; {
	case source != nil && source.Kind == "":
		return domain.Invalidf("body.source.kind", "must not be empty")
	case source != nil && source.ID == "":
		return domain.Invalidf("body.source.id", "must not be empty")
	}

	switch {
	case spec.Name == "":
		return domain.Invalidf("body.name", "must not be empty")
	case spec.Kind == trigger.Webhook && spec.Auth == nil:
		return domain.Invalidf("body.auth", "is required with kind webhook")
	case spec.Kind == trigger.Webhook && (spec.Source != nil || len(spec.On) > 0):
		return domain.Invalidf("body.source", "must not be set with kind webhook")
	case spec.Kind == trigger.RunEnded && spec.Auth != nil:
		return domain.Invalidf("body.auth", "must not be set with kind run_ended")
	case spec.Kind == trigger.RunEnded && spec.Source == nil:
		return domain.Invalidf("body.source", "is required with kind run_ended")
	case spec.Kind == trigger.RunEnded && len(spec.On) == 0:
		return domain.Invalidf("body.on", "must name run_completed or run_failed")
	}

	if err := trigger.CheckFilter(spec.Filter); err != nil {
		return err
	}

	return checkTarget(&spec.Target)
}

func checkTarget(t *target.Target) error {
	if err := t.Check("body.target"); err != nil {
		return err
	}

	*t = t.Map(func(_, text string) string { return domain.CleanText(text) })
	if t.Kind.Chats() && strings.TrimSpace(t.Prompt) == "" {
		return domain.Invalidf("body.target.prompt", "must not be empty")
	}

	if t.Kind == target.Session && t.Delivery == "" {
		t.Delivery = domain.DeliverEnqueue
	}

	var err error

	t.Map(func(field, text string) string {
		err = cmp.Or(err, trigger.CheckTemplate("body.target."+field, text))
		return text
	})

	return err
}

// Redeliver carries out a delivery again, as another attempt with the trigger as it is now.
func (s *Service) Redeliver(ctx context.Context, ownerID, triggerID, id string) (trigger.Delivery, error) {
	again, err := s.reset(ctx, ownerID, triggerID, id)
	if err == nil {
		s.start(ctx, triggerID, id)
	}

	return again, err
}

// maxStarts bounds the deliveries that FollowRun starts concurrently.
const maxStarts = 64

// FollowRun starts the workflow of a delivery that the end of a run has written, in the background.
// The reconciler starts those beyond maxStarts.
func (s *Service) FollowRun(triggerID, deliveryID string) {
	select {
	case s.starts <- struct{}{}:
	default:
		return
	}

	go func() {
		defer func() { <-s.starts }()

		s.start(context.Background(), triggerID, deliveryID)
	}()
}

// StartDelivery starts the workflow of a delivery unless it is open.
func (s *Service) StartDelivery(ctx context.Context, triggerID, deliveryID string) error {
	return s.deps.StartDelivery(ctx, triggerID, deliveryID)
}

// startTimeout bounds how long a request waits until the workflow of its delivery has started.
const startTimeout = 5 * time.Second

// start starts the workflow of a delivery. The reconciler starts the workflows that it could not.
func (s *Service) start(ctx context.Context, triggerID, deliveryID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()

	if err := s.StartDelivery(ctx, triggerID, deliveryID); err != nil {
		s.deps.Logger.Warn("failed to start the delivery of a trigger, retrying",
			"trigger_id", triggerID, "delivery_id", deliveryID, "error", err)
	}
}
