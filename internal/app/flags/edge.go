package flags

import (
	"fmt"

	"everloop/internal/clients"
)

// Bounds of what the clients of one process may use. They hold back a single client that
// misbehaves; a limit for normal use is RATE_LIMIT_PER_MINUTE.
const (
	// MaxConnections is how many connections one client address (the /64 of an IPv6 one)
	// may have open.
	MaxConnections = 4000
	// BodyBudget is how many bytes of all request bodies may be in memory.
	BodyBudget = 256 << 20
	// KeyGuesses is how many different wrong credentials one client address may send in a minute.
	KeyGuesses = 300
)

// Proxies names the proxies in front of a service.
type Proxies struct {
	TrustedProxies []string `env:"TRUSTED_PROXIES" help:"Addresses and networks of reverse proxies, such as 10.0.0.5 or 10.0.0.0/8, whose X-Forwarded-For names the client."`
}

// Check reports entries that are not an address or a network.
func (s Proxies) Check() error {
	if _, err := clients.ParseProxies(s.TrustedProxies); err != nil {
		return fmt.Errorf("TRUSTED_PROXIES: %w", err)
	}

	return nil
}

// Trusted returns the proxies of settings that were checked.
func (s Proxies) Trusted() clients.Proxies {
	proxies, _ := clients.ParseProxies(s.TrustedProxies)
	return proxies
}
