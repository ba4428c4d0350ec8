package main

import (
	"context"
	"fmt"
	"net/http"
)

const (
	oneRequests = 3000
	oneRounds   = 3
	oneGoal     = 0.5 // of the baseline's requests a second
)

// measureSession takes how often a session can be read in a second, beside a bare
// handler that makes one query by primary key.
func measureSession(ctx context.Context, b *bench) error {
	session, err := b.client.createSession(ctx)
	if err != nil {
		return err
	}

	plain, stop, err := b.startPlain(ctx)
	if err != nil {
		return err
	}
	defer stop()

	for _, atOnce := range []int{1, 20} {
		read := func(c *client, path string) func() (load, error) {
			return func() (load, error) {
				return c.requests(ctx, oneRequests, atOnce, func(int) string { return path })
			}
		}

		best, err := bestOf(
			oneRounds,
			more,
			read(b.client, "/api/sessions/"+session),
			read(plain, "/sessions/"+session),
			read(b.client, "/api/version"),
			read(b.client, "/api/auth/me"),
		)
		if err != nil {
			return err
		}

		ours, bare := best[0].perSecond(), best[1].perSecond()
		b.compare(fmt.Sprintf("GET of a session, %d at once", atOnce), "req/s", ours, bare, nil)
		b.value("  share of the bare handler's", "", ours/bare, atLeast(oneGoal))
		b.compare("  median", "ms", best[0].took.median(), best[1].took.median(), nil)
		b.compare("  GET /api/version, which reads nothing", "req/s", best[2].perSecond(), bare, nil)
		b.compare("  GET /api/auth/me, which is authenticated", "req/s", best[3].perSecond(), bare, nil)
	}

	meter := startMeter(b.server.cmd.Process.Pid)
	for range oneRequests {
		if err := b.client.call(ctx, http.MethodGet, "/api/sessions/"+session, nil, nil); err != nil {
			return err
		}
	}

	b.cost("GET of a session", meter.read(), oneRequests)

	return nil
}
