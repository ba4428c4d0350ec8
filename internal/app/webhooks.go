package app

import (
	"fmt"

	"everloop/infra/netguard"
	sending "everloop/infra/webhooks"
	"everloop/service/webhooks"
)

// webhookSettings say what webhooks may do.
type webhookSettings struct {
	WebhookAllow []string `name:"webhook-allow" env:"WEBHOOK_ALLOW" help:"Non-public hosts that webhooks of users may be on: host, host:port, *.domain, a network."`
}

// webhookGuard checks where webhooks are; own is where this service listens.
func (s *webhookSettings) webhookGuard(own []string) (*netguard.Guard, error) {
	guard, err := guardWithoutPaths(s.WebhookAllow, own)
	if err != nil {
		return nil, fmt.Errorf("WEBHOOK_ALLOW: %w", err)
	}

	return guard, nil
}

// newWebhooks builds the service of webhooks.
func (b *backend) newWebhooks() (*webhooks.Service, error) { return webhooks.New(b.DB, b.buckets.Box) }

// newDeliverer builds what sends the events of webhooks.
func (b *backend) newDeliverer() (*webhooks.Deliverer, error) {
	guard, err := b.settings.webhookGuard(b.settings.ownAddresses())
	if err != nil {
		return nil, err
	}

	return webhooks.NewDeliverer(b.DB, b.buckets.Box, sending.New(guard), b.logger)
}
