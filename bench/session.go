package main

import (
	"context"
	"fmt"
	"net/http"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	oneRequests = 3000
	oneRounds   = 3
	oneGoal     = 0.5 // of the baseline's requests a second
)

// measureSession takes how often a session can be read in a second, beside a bare
// handler that makes one query by primary key.
func measureSession(ctx context.Context, b *bench) error {
	session, err := b.client.CreateSession(ctx)
	if err != nil {
		return err
	}

	plain, stop, err := b.startPlain(ctx)
	if err != nil {
		return err
	}
	defer stop()

	for _, atOnce := range []int{1, 20} {
		read := func(c *target.Client, path string) func() (target.Load, error) {
			return func() (target.Load, error) {
				return c.Requests(ctx, oneRequests, atOnce, func(int) string { return path })
			}
		}

		best, err := target.BestOf(
			oneRounds,
			target.More,
			read(b.client, "/api/sessions/"+session),
			read(plain, "/sessions/"+session),
			read(b.client, "/api/version"),
			read(b.client, "/api/auth/me"),
		)
		if err != nil {
			return err
		}

		ours, bare := best[0].PerSecond(), best[1].PerSecond()
		b.compare(fmt.Sprintf("GET of a session, %d at once", atOnce), "req/s", ours, bare, nil)
		b.value("  share of the bare handler's", "", ours/bare, result.AtLeast(oneGoal))
		b.compare("  median", "ms", best[0].Took.Median(), best[1].Took.Median(), nil)
		b.compare("  GET /api/version, which reads nothing", "req/s", best[2].PerSecond(), bare, nil)
		b.compare("  GET /api/auth/me, which is authenticated", "req/s", best[3].PerSecond(), bare, nil)
	}

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)
	for range oneRequests {
		if err := b.client.Call(ctx, http.MethodGet, "/api/sessions/"+session, nil, nil); err != nil {
			return err
		}
	}

	b.cost("GET of a session", meter.Read(), oneRequests)

	return nil
}
