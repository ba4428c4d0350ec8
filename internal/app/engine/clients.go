package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"everloop/infra/secrets"
	"everloop/infra/tracing"
)

// ConnectTimeout bounds how long a role waits for its engines at start.
const ConnectTimeout = time.Minute

// Process is the process that connects to the engines.
type Process struct {
	Box          *secrets.Box // of values encrypted at rest
	Tracing      *tracing.Tracing
	Metrics      *prometheus.Registry
	Logger       *slog.Logger
	Room         func() error // fails while only the reserve is free on the disk of the data directory
	SandboxUsers int          // users of sessions have ids above this one
}

// Open connects the process to the engines, one after the other.
func (s *Settings) Open(ctx context.Context, p Process) (_ *Clients, err error) {
	c := &Clients{}

	defer func() {
		if err != nil {
			c.Close()
		}
	}()

	for _, e := range s.Engines() {
		if err := e.open(ctx, c, p); err != nil {
			return nil, err
		}
	}

	return c, nil
}

// Close closes the connections, the last one first.
func (c *Clients) Close() {
	for i := len(c.closers) - 1; i >= 0; i-- {
		c.closers[i]()
	}
}

// Ready checks the engines, by name, side by side: one that hangs takes no time from the
// others.
func (s *Settings) Ready(ctx context.Context, c *Clients) map[string]error {
	list := s.Engines()
	faults := make([]error, len(list))

	var all sync.WaitGroup
	for i, e := range list {
		all.Go(func() { _, faults[i] = e.Check(ctx, c) })
	}

	all.Wait()

	checks := map[string]error{}
	for i, e := range list {
		checks[e.Name] = faults[i]
	}

	return checks
}
