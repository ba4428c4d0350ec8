package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	// plateauAtOnce is how many chats run at a time.
	plateauAtOnce = 20
	// plateauBlock is how many chats are measured together.
	plateauBlock = 1000
	plateauSteps = 2
	// plateauGoal bounds the service's memory after all chats, in MiB.
	plateauGoal = 450
	// plateauSlower bounds the time of the last block by that of the first one.
	plateauSlower = 1.2
)

// measurePlateau takes whether memory and the time of a chat stop growing with the
// number of chats that a service has run. Each chat has a session of its own.
func measurePlateau(ctx context.Context, b *bench) error {
	pid := b.server.Cmd.Process.Pid
	b.value("memory of the service before", "MiB", result.Mebibytes(proc.TreeMemory(pid).Service), nil)

	var first, last time.Duration // of one chat of the block

	for done := 0; done < b.chats; {
		n := min(plateauBlock, b.chats-done)

		took, err := b.block(ctx, n)
		if err != nil {
			return err
		}

		done += n

		last = took / time.Duration(n)
		if first == 0 {
			first = last
		}

		held := proc.TreeMemory(pid)
		b.value(fmt.Sprintf("memory of the service after %d chats, PSS", done), "MiB", result.Mebibytes(held.Service), nil)
		b.value("  PostgreSQL", "MiB", result.Mebibytes(held.Records), nil)
		b.value("  chats per second in this block", "chats/s", float64(n)/took.Seconds(), nil)
	}

	b.value("memory of the service at the end, PSS", "MiB", result.Mebibytes(proc.TreeMemory(pid).Service), result.AtMost(plateauGoal))
	b.value("time of a chat, last block by first", "", float64(last)/float64(first), result.AtMost(plateauSlower))

	if b.heap != "" {
		return b.server.SaveHeap(ctx, b.heap)
	}

	return nil
}

// block runs n chats and gives the time that they took together.
func (b *bench) block(ctx context.Context, n int) (time.Duration, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(plateauAtOnce)

	began := time.Now()

	for range n {
		group.Go(func() error {
			_, err := b.chatInNew(ctx, target.LoopScript(plateauSteps))
			return err
		})
	}

	err := group.Wait()

	b.model.Take()

	return time.Since(began), err
}
