package main

import (
	"context"
	"time"
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

	if err := b.server.start(ctx); err != nil {
		return err
	}

	b.value("first start on an empty directory to ready", "s", time.Since(began).Seconds(), nil)
	held := treeMemory(b.server.cmd.Process.Pid)
	b.value("memory right after the start, PSS", "MiB", mib(held.pss), nil)

	if err := b.quiet(ctx, "CPU when idle"); err != nil {
		return err
	}

	if err := b.warm(ctx); err != nil {
		return err
	}

	if err := b.quiet(ctx, "CPU when idle after five chats"); err != nil {
		return err
	}

	var starts, firstChats sample

	for range warmStarts {
		if err := b.server.stop(); err != nil {
			return err
		}

		began := time.Now()

		if err := b.server.start(ctx); err != nil {
			return err
		}

		starts = append(starts, time.Since(began).Seconds())

		seen, err := b.chatInNew(ctx, helloScript)
		if err != nil {
			return err
		}

		firstChats.add(seen.firstText.Sub(seen.sent))
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

	pid := b.server.cmd.Process.Pid
	meter := startMeter(pid)

	if err := wait(ctx, idleWatch); err != nil {
		return err
	}

	used, held := meter.read(), treeMemory(pid)
	b.value(what+", per second", "ms", ms(used.tree.sum())/used.wall.Seconds(), nil)
	b.value("memory then, PSS of all processes", "MiB", mib(held.pss), nil)
	b.value("  of which the service", "MiB", mib(held.service), nil)
	b.value("  of which the sandbox", "MiB", mib(held.sandbox), nil)
	b.value("  of which PostgreSQL", "MiB", mib(held.records), nil)
	b.value("  sum of RSS", "MiB", mib(held.rss), nil)
	b.value("  processes", "", float64(held.processes), nil)

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
