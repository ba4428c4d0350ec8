package main

import (
	"context"
	"time"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	idleSettle = 20 * time.Second
	idleWatch  = 20 * time.Second
	warmStarts = 3
)

// measureIdle takes what a service costs that does nothing: its starts, its
// memory and its CPU.
func measureIdle(ctx context.Context, b *bench) error {
	began := time.Now()

	if err := b.server.Start(ctx); err != nil {
		return err
	}

	b.value("first start on an empty directory to ready", "s", time.Since(began).Seconds(), nil)
	held := proc.TreeMemory(b.server.Cmd.Process.Pid)
	b.value("memory right after the start, PSS", "MiB", result.Mebibytes(held.PSS), nil)

	if err := b.quiet(ctx, "CPU when idle"); err != nil {
		return err
	}

	if err := b.warm(ctx); err != nil {
		return err
	}

	if err := b.quiet(ctx, "CPU when idle after five chats"); err != nil {
		return err
	}

	var starts, firstChats result.Sample

	for range warmStarts {
		if err := b.server.Stop(); err != nil {
			return err
		}

		began := time.Now()

		if err := b.server.Start(ctx); err != nil {
			return err
		}

		starts = append(starts, time.Since(began).Seconds())

		seen, err := b.chatInNew(ctx, target.HelloScript)
		if err != nil {
			return err
		}

		firstChats.Add(seen.FirstText.Sub(seen.Sent))
	}

	b.samples("warm start to ready", "s", starts, nil, nil)
	b.samples("first chat after it, first text", "ms", firstChats, nil, nil)

	return nil
}

// quiet lets the service settle, then takes its memory and its CPU.
func (b *bench) quiet(ctx context.Context, what string) error {
	if err := wait(ctx, idleSettle); err != nil {
		return err
	}

	pid := b.server.Cmd.Process.Pid
	meter := proc.StartMeter(pid)

	if err := wait(ctx, idleWatch); err != nil {
		return err
	}

	used, held := meter.Read(), proc.TreeMemory(pid)
	b.value(what+", per second", "ms", result.Milliseconds(used.Tree.Sum())/used.Wall.Seconds(), nil)
	b.value("memory then, PSS of all processes", "MiB", result.Mebibytes(held.PSS), nil)
	b.value("  of which the service", "MiB", result.Mebibytes(held.Service), nil)
	b.value("  of which the sandbox", "MiB", result.Mebibytes(held.Sandbox), nil)
	b.value("  of which PostgreSQL", "MiB", result.Mebibytes(held.Records), nil)
	b.value("  sum of RSS", "MiB", result.Mebibytes(held.RSS), nil)
	b.value("  processes", "", float64(held.Processes), nil)

	return nil
}

// wait lets time pass, which is what is measured here.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
