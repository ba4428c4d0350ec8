// Package webhooks manages webhooks and sends what is due to them. Which events there are
// is decided where they happen: the rows of deliveries are written with them. The package
// knows no transport.
package webhooks

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"everloop/domain"
	"everloop/domain/webhook"
)

// Store reads and writes webhooks and deliveries. What does not belong to the owner is
// webhook_not_found or delivery_not_found.
type Store interface {
	CreateWebhook(ctx context.Context, ownerID, id string, spec webhook.Spec, sealed []byte) (webhook.Webhook, error)
	Webhooks(ctx context.Context, ownerID string) ([]webhook.Webhook, error)
	Webhook(ctx context.Context, ownerID, id string) (webhook.Webhook, error)
	// ChangeWebhook calls change under the lock of the webhook.
	ChangeWebhook(ctx context.Context, ownerID, id string, change func(*webhook.Spec) error) (webhook.Webhook, error)
	RotateWebhookSecret(ctx context.Context, ownerID, id string, sealed []byte, overlapS int) (webhook.Webhook, error)
	DeleteWebhook(ctx context.Context, ownerID, id string) error
	WebhookDeliveries(
		ctx context.Context, ownerID, webhookID string, status webhook.DeliveryStatus, event webhook.Event, offset, limit int,
	) (page []webhook.Delivery, total int, err error)
	RedeliverWebhook(ctx context.Context, ownerID, webhookID, deliveryID string) (webhook.Delivery, error)
}

// Box encrypts values, each for one purpose.
type Box interface {
	Seal(purpose string, value []byte) ([]byte, error)
	Open(purpose string, sealed []byte) ([]byte, error)
}

// Service manages the webhooks of users.
type Service struct {
	Store
	box Box
}

// New checks that everything is there.
func New(store Store, box Box) (*Service, error) {
	if store == nil || box == nil {
		return nil, errors.New("webhooks: the service needs a store and a box")
	}

	return &Service{store, box}, nil
}

// secretBytes is how long a secret is, before its encoding.
const secretBytes = 32

// newSecret makes a secret and seals it for a webhook.
func (s *Service) newSecret(webhookID string) (secret string, sealed []byte, err error) {
	random := make([]byte, secretBytes)
	if _, err := rand.Read(random); err != nil {
		return "", nil, err
	}

	secret = "whsec_" + base64.StdEncoding.EncodeToString(random)
	sealed, err = s.box.Seal(purpose(webhookID), []byte(secret))

	return secret, sealed, err
}

func purpose(webhookID string) string { return "webhook/" + webhookID }

// Create makes a webhook. Its secret is given this once.
func (s *Service) Create(ctx context.Context, ownerID string, spec webhook.Spec) (made webhook.Webhook, secret string, err error) {
	if err := check(&spec); err != nil {
		return made, "", err
	}

	id := domain.NewID()

	secret, sealed, err := s.newSecret(id)
	if err != nil {
		return made, "", err
	}

	made, err = s.CreateWebhook(ctx, ownerID, id, spec, sealed)

	return made, secret, err
}

// Change lets set change a webhook. It may be called more than once.
func (s *Service) Change(ctx context.Context, ownerID, id string, set func(*webhook.Spec)) (webhook.Webhook, error) {
	return s.ChangeWebhook(ctx, ownerID, id, func(spec *webhook.Spec) error {
		set(spec)
		return check(spec)
	})
}

// Rotate gives a webhook a new secret, which is given this once. Requests are signed with
// the one before too, for the given seconds.
func (s *Service) Rotate(ctx context.Context, ownerID, id string, overlapS int) (changed webhook.Webhook, secret string, err error) {
	if _, err := s.Webhook(ctx, ownerID, id); err != nil {
		return changed, "", err
	}

	secret, sealed, err := s.newSecret(id)
	if err != nil {
		return changed, "", err
	}

	changed, err = s.RotateWebhookSecret(ctx, ownerID, id, sealed, overlapS)

	return changed, secret, err
}

// check refuses what cannot be sent to, and cleans what is kept. Whether an address may
// be connected to is decided when it is.
func check(spec *webhook.Spec) error {
	spec.Description = domain.CleanText(spec.Description)
	slices.Sort(spec.Events)

	spec.Events = slices.Compact(spec.Events)
	if fault := faultOfURL(spec.URL); fault != "" {
		return domain.Invalidf("body.url", "%s", fault)
	}

	return nil
}

func faultOfURL(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "is not a URL"
	case u.Scheme != "https" && u.Scheme != "http":
		return "must start with https:// or http://"
	case u.User != nil:
		return "must not hold a user name or a password"
	case u.Opaque != "" || u.Hostname() == "":
		return "names no host"
	case u.Fragment != "" || u.RawFragment != "":
		return "must not have a fragment"
	}

	if port := u.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return "has a port that is none"
		}
	}

	if _, err := domain.CanonicalHost(u.Hostname()); err != nil {
		return fmt.Sprintf("has a host that is none: %s", err)
	}

	return ""
}
