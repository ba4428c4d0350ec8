// Package webhooks manages the webhooks of users and sends their deliveries. The stores of chats
// and runs write the deliveries in the transactions of their changes (infra/postgres/notify);
// the rows decide what is sent and when. The files with SQL are named after the store.
package webhooks

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"

	"everloop/domain"
	"everloop/domain/webhook"
	"everloop/infra/netguard"
	"everloop/infra/postgres/pg"
	"everloop/infra/secrets"
)

// Deps are the dependencies of New. All are required.
type Deps struct {
	DB     *pg.DB
	Box    *secrets.Box    // seals the secrets
	Guard  *netguard.Guard // allows the addresses of endpoints
	Logger *slog.Logger
}

// Service manages webhooks and sends what is due.
type Service struct {
	*Store
	box    *secrets.Box
	sender *sender
	logger *slog.Logger
}

// New returns a new service.
func New(deps Deps) *Service {
	return &Service{NewStore(deps.DB), deps.Box, newSender(deps.Guard), deps.Logger}
}

// secretBytes is how long a secret is, before its encoding.
const secretBytes = 32

// newSecret returns a new secret, plain and sealed for a webhook.
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

// Create creates a webhook and returns its secret, which is never shown again.
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

// Change changes a webhook by set, which may be called more than once.
func (s *Service) Change(ctx context.Context, ownerID, id string, set func(*webhook.Spec)) (webhook.Webhook, error) {
	return s.ChangeWebhook(ctx, ownerID, id, func(spec *webhook.Spec) error {
		set(spec)
		return check(spec)
	})
}

// Rotate replaces the secret of a webhook and returns the new one, which is never shown again.
// For overlapS seconds requests are also signed with the previous secret.
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

// check cleans the texts of a webhook and rejects an invalid URL. The guard checks the address
// when a connection is opened.
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
		return "must be a URL"
	case u.Scheme != "https" && u.Scheme != "http":
		return "must start with https:// or http://"
	case u.User != nil:
		return "must not contain a user name or a password"
	case u.Opaque != "" || u.Hostname() == "":
		return "must name a host"
	case u.Fragment != "" || u.RawFragment != "":
		return "must not have a fragment"
	}

	if port := u.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return "port must be from 1 to 65535"
		}
	}

	if _, err := domain.CanonicalHost(u.Hostname()); err != nil {
		return fmt.Sprintf("invalid host: %s", err)
	}

	return ""
}
