package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	manySteps = 10
	manyGoal  = 100 // steps/s
)

// measureMany runs many sessions at once.
func measureMany(ctx context.Context, b *bench) error {
	sessions := make([]string, b.sessions)
	began := time.Now()

	for i := range sessions {
		var err error
		if sessions[i], err = b.client.createSession(ctx); err != nil {
			return err
		}
	}

	created := time.Since(began)

	meter := startMeter(b.server.cmd.Process.Pid)
	ours := atOnce(b.sessions, func(i int) (*chat, error) {
		return b.client.completed(ctx, sessions[i], loopScript(manySteps))
	})
	used := meter.read()
	calls := b.model.take()
	held := treeMemory(b.server.cmd.Process.Pid)
	bare := atOnce(b.sessions, func(int) (*chat, error) {
		return b.bare.conversation().chat(ctx, loopScript(manySteps), nil)
	})

	steps := float64(b.sessions * manySteps)
	b.compare(fmt.Sprintf("steps per second, %d sessions", b.sessions), "steps/s",
		steps/ours.wall.Seconds(), steps/bare.wall.Seconds(), atLeast(manyGoal))
	b.value("failures", "", float64(len(ours.failures)), atMost(0))
	b.samples("session from send to chat:end", "ms", ours.took, bare.took, nil)
	b.samples("  of which until chat:start", "ms", ours.started, nil, nil)
	b.value("model calls", "", float64(len(calls)), nil)
	b.cost("step", used, b.sessions*manySteps)
	b.value("this program's CPU per step (model and clients)", "ms", ms(used.own)/steps, nil)
	b.value("memory afterwards, PSS", "MiB", mib(held.pss), nil)
	b.value("  of which PostgreSQL", "MiB", mib(held.records), nil)
	b.value("creating a session", "ms", ms(created)/float64(b.sessions), nil)

	if len(ours.failures) > 0 {
		return fmt.Errorf("%d sessions failed; the first: %w", len(ours.failures), ours.failures[0])
	}

	return nil
}

// crowd is what became of many chats at once.
type crowd struct {
	wall          time.Duration
	took, started sample
	failures      []error
}

func atOnce(n int, run func(i int) (*chat, error)) crowd {
	var (
		c     crowd
		mu    sync.Mutex
		group sync.WaitGroup
	)

	began := time.Now()

	for i := range n {
		group.Go(func() {
			seen, err := run(i)

			mu.Lock()
			defer mu.Unlock()

			if err != nil {
				c.failures = append(c.failures, err)
				return
			}

			c.took.add(seen.took())

			if len(seen.events) > 0 {
				c.started.add(seen.events[0].at.Sub(seen.sent))
			}
		})
	}

	group.Wait()

	c.wall = time.Since(began)

	return c
}
