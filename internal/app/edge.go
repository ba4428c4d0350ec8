package app

import (
	"errors"
	"fmt"

	"everloop/internal/clients"
)

// edgeSettings bound what clients of the API may take at once.
type edgeSettings struct {
	TrustedProxies []string `env:"TRUSTED_PROXIES" help:"Addresses and networks of reverse proxies, such as 10.0.0.5 or 10.0.0.0/8, whose X-Forwarded-For names the client."`
	Connections    int      `name:"connections-per-address" default:"4000" env:"CONNECTIONS_PER_ADDRESS" help:"Connections that one client address (the /64 of an IPv6 one) may have open; 0: no limit."`
	BodyBudget     int64    `name:"body-budget-bytes" default:"268435456" env:"BODY_BUDGET_BYTES" help:"Bytes of all request bodies that are in memory at once; 0: no limit."`
	KeyGuesses     int      `name:"key-guesses-per-minute" default:"300" env:"KEY_GUESSES_PER_MINUTE" help:"Different wrong credentials that one client address may send in a minute; 0: no limit."`
}

// proxySettings name the proxies in front of a companion that is served alone.
type proxySettings struct {
	TrustedProxies []string `env:"TRUSTED_PROXIES" help:"Addresses and networks of reverse proxies whose X-Forwarded-For names the client."`
}

func (s proxySettings) check() error { return edgeSettings{TrustedProxies: s.TrustedProxies}.check() }

func (s proxySettings) proxies() clients.Proxies {
	return edgeSettings{TrustedProxies: s.TrustedProxies}.proxies()
}

// leastBodyBudget holds one request of the largest size with what is read ahead.
const leastBodyBudget = 32 << 20

func (s edgeSettings) check() error {
	var faults []error
	if _, err := clients.ParseProxies(s.TrustedProxies); err != nil {
		faults = append(faults, fmt.Errorf("TRUSTED_PROXIES: %w", err))
	}

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

// proxies are those of the settings, which were checked.
func (s edgeSettings) proxies() clients.Proxies {
	proxies, _ := clients.ParseProxies(s.TrustedProxies)
	return proxies
}
