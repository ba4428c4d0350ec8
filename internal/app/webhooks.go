package app

import (
	"fmt"

	"everloop/infra/netguard"
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
