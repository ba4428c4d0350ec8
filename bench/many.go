package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
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
		if sessions[i], err = b.client.CreateSession(ctx); err != nil {
			return err
		}
	}

	created := time.Since(began)

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)
	ours := maxConcurrent(b.sessions, func(i int) (*target.Chat, error) {
		return b.client.Completed(ctx, sessions[i], target.LoopScript(manySteps))
	})
	used := meter.Read()
	calls := b.model.Take()
	held := proc.TreeMemory(b.server.Cmd.Process.Pid)
	bare := maxConcurrent(b.sessions, func(int) (*target.Chat, error) {
		return b.bare.conversation().chat(ctx, target.LoopScript(manySteps), nil)
	})

	steps := float64(b.sessions * manySteps)
	b.compare(fmt.Sprintf("steps per second, %d sessions", b.sessions), "steps/s",
		steps/ours.wall.Seconds(), steps/bare.wall.Seconds(), result.AtLeast(manyGoal))
	b.value("failures", "", float64(len(ours.failures)), result.AtMost(0))
	b.samples("session from send to chat:end", "ms", ours.took, bare.took, nil)
	b.samples("  of which until chat:start", "ms", ours.started, nil, nil)
	b.value("model calls", "", float64(len(calls)), nil)
	b.cost("step", used, b.sessions*manySteps)
	b.value("this program's CPU per step (model and clients)", "ms", result.Milliseconds(used.Own)/steps, nil)
	b.value("memory afterwards, PSS", "MiB", result.Mebibytes(held.PSS), nil)
	b.value("  of which PostgreSQL", "MiB", result.Mebibytes(held.Records), nil)
	b.value("creating a session", "ms", result.Milliseconds(created)/float64(b.sessions), nil)

	if len(ours.failures) > 0 {
		return fmt.Errorf("%d sessions failed; the first: %w", len(ours.failures), ours.failures[0])
	}

	return nil
}

// crowd is what became of many chats at once.
type crowd struct {
	wall          time.Duration
	took, started result.Sample
	failures      []error
}

func maxConcurrent(n int, run func(i int) (*target.Chat, error)) crowd {
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

			c.took.Add(seen.Took())

			if len(seen.Events) > 0 {
				c.started.Add(seen.Events[0].At.Sub(seen.Sent))
			}
		})
	}

	group.Wait()

	c.wall = time.Since(began)

	return c
}
