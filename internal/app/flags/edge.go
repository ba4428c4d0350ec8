package flags

import (
	"errors"
	"fmt"

	"everloop/internal/clients"
)

// Edge bounds what clients of the API may take at once.
type Edge struct {
	TrustedProxies []string `env:"TRUSTED_PROXIES" help:"Addresses and networks of reverse proxies, such as 10.0.0.5 or 10.0.0.0/8, whose X-Forwarded-For names the client."`
	Connections    int      `name:"connections-per-address" default:"4000" env:"CONNECTIONS_PER_ADDRESS" help:"Connections that one client address (the /64 of an IPv6 one) may have open; 0: no limit."`
	BodyBudget     int64    `name:"body-budget-bytes" default:"268435456" env:"BODY_BUDGET_BYTES" help:"Bytes of all request bodies that are in memory at once; 0: no limit."`
	KeyGuesses     int      `name:"key-guesses-per-minute" default:"300" env:"KEY_GUESSES_PER_MINUTE" help:"Different wrong credentials that one client address may send in a minute; 0: no limit."`
}

// Proxies name the proxies in front of a companion that is served alone.
type Proxies struct {
	TrustedProxies []string `env:"TRUSTED_PROXIES" help:"Addresses and networks of reverse proxies whose X-Forwarded-For names the client."`
}

// Check finds addresses that are none.
func (s Proxies) Check() error { return checkProxies(s.TrustedProxies) }

// Trusted are the proxies of the settings, which were checked.
func (s Proxies) Trusted() clients.Proxies { return trusted(s.TrustedProxies) }

// leastBodyBudget holds one request of the largest size with what is read ahead.
const leastBodyBudget = 32 << 20

// Check finds all faults of the settings at once.
func (s Edge) Check() error {
	faults := []error{checkProxies(s.TrustedProxies)}
	if s.Connections < 0 {
		faults = append(faults, errors.New("CONNECTIONS_PER_ADDRESS must not be negative"))
	}

	if s.BodyBudget != 0 && s.BodyBudget < leastBodyBudget {
		faults = append(faults, fmt.Errorf("BODY_BUDGET_BYTES must be 0 or at least %d", leastBodyBudget))
	}

	if s.KeyGuesses < 0 {
		faults = append(faults, errors.New("KEY_GUESSES_PER_MINUTE must not be negative"))
	}

	return errors.Join(faults...)
}

// Trusted are the proxies of the settings, which were checked.
func (s Edge) Trusted() clients.Proxies { return trusted(s.TrustedProxies) }

func checkProxies(names []string) error {
	if _, err := clients.ParseProxies(names); err != nil {
		return fmt.Errorf("TRUSTED_PROXIES: %w", err)
	}

	return nil
}

func trusted(names []string) clients.Proxies {
	proxies, _ := clients.ParseProxies(names)
	return proxies
}
