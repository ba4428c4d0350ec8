package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	stopRounds = 15
	stopGoal   = 15 // ms, of a command
	streamGoal = 5  // ms, of a stream
)

// measureStop takes the time from asking for a stop to chat:end, in an answer
// that the model holds open and in a command that sleeps.
func measureStop(ctx context.Context, b *bench) error {
	if err := b.stopStream(ctx); err != nil {
		return fmt.Errorf("in a stream: %w", err)
	}

	if err := b.stopCommand(ctx); err != nil {
		return fmt.Errorf("in a command: %w", err)
	}

	return nil
}

// stopped is a chat that was stopped, with the moment of the order.
type stopped struct {
	*target.Chat
	asked, answered time.Time
}

// stopWhen runs a chat and stops it once began is closed.
func (b *bench) stopWhen(ctx context.Context, message string, began func(context.Context, *target.Event) bool) (stopped, error) {
	session, err := b.client.CreateSession(ctx)
	if err != nil {
		return stopped{}, err
	}

	ready := make(chan struct{})

	var s stopped

	order := make(chan error, 1)

	go func() {
		select {
		case <-ready:
		case <-ctx.Done():
			order <- ctx.Err()
			return
		}

		s.asked = time.Now()
		err := b.client.Stop(ctx, session)
		s.answered = time.Now()

		order <- err
	}()

	open := true

	s.Chat, err = b.client.Chat(ctx, session, message, func(e *target.Event) {
		if open && began(ctx, e) {
			open = false

			close(ready)
		}
	})
	if err != nil {
		return s, err
	}

	if open {
		return s, errors.New("the chat ended before it could be stopped")
	}

	if err := <-order; err != nil {
		return s, err
	}

	if s.Finish != "interrupted" {
		return s, fmt.Errorf("the chat ended as %q", s.Finish)
	}

	return s, nil
}

func (b *bench) stopStream(ctx context.Context) error {
	const message = `[[script]]{"steps":[{"text":"One moment.","hold":true}]}[[/script]]`

	var ended, answered, left, bareEnded result.Sample

	for range stopRounds {
		b.model.Take()

		s, err := b.stopWhen(ctx, message, func(_ context.Context, e *target.Event) bool { return e.Patch("add_content") })
		if err != nil {
			return err
		}

		ended.Add(s.Ended.Sub(s.asked))
		answered.Add(s.answered.Sub(s.asked))

		call, err := b.model.One()
		if err != nil {
			return err
		}

		if !call.Last.IsZero() {
			left.Add(call.Last.Sub(s.asked))
		}

		bareCtx, cancel := context.WithCancel(ctx)

		var asked time.Time

		seen, err := b.bare.conversation().chat(bareCtx, message, func(string) { asked = time.Now(); cancel() })

		cancel()

		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("baseline: %w", err)
		}

		bareEnded.Add(seen.Ended.Sub(asked))
	}

	b.samples("stop in a stream to chat:end", "ms", ended, bareEnded, result.AtMost(streamGoal))
	b.samples("  to the answer of POST stop", "ms", answered, nil, nil)
	b.samples("  to the model's connection closed", "ms", left, nil, nil)

	return nil
}

func (b *bench) stopCommand(ctx context.Context) error {
	var ended, gone, bareEnded result.Sample

	for i := range stopRounds {
		// A duration of its own, by which its process is found.
		seconds := fmt.Sprintf("60.%d%03d", os.Getpid(), i)
		message := fmt.Sprintf(`[[script]]{"steps":[{"calls":[{"name":"Bash","arguments":{"command":"sleep %s"}}]}]}[[/script]]`, seconds)

		var end time.Time

		vanished := make(chan time.Time, 1)

		s, err := b.stopWhen(ctx, message, func(ctx context.Context, e *target.Event) bool {
			if !e.Patch("add_tool_call") {
				return false
			}

			pid, err := untilRunning(ctx, "sleep", seconds)
			if err != nil {
				return false
			}

			go func() { vanished <- untilGone(ctx, pid) }()

			return true
		})
		if err != nil {
			return err
		}

		if end = <-vanished; end.IsZero() {
			return fmt.Errorf("sleep %s still runs", seconds)
		}

		ended.Add(s.Ended.Sub(s.asked))
		gone.Add(end.Sub(s.asked))

		took, err := b.bareStopCommand(ctx, message, seconds)
		if err != nil {
			return fmt.Errorf("baseline: %w", err)
		}

		bareEnded.Add(took)
	}

	b.samples("stop in a command to chat:end", "ms", ended, bareEnded, result.AtMost(stopGoal))
	b.samples("  to the command's process gone", "ms", gone, nil, result.AtMost(stopGoal))

	return nil
}

func (b *bench) bareStopCommand(ctx context.Context, message, seconds string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	asked := make(chan time.Time, 1)

	go func() {
		_, _ = untilRunning(ctx, "sleep", seconds) // when it never runs the chat fails below

		asked <- time.Now()

		cancel()
	}()

	seen, err := b.bare.conversation().chat(ctx, message, nil)
	if !errors.Is(err, context.Canceled) {
		return 0, err
	}

	return seen.Ended.Sub(<-asked), nil
}

// untilRunning waits until a process has exactly this command line.
func untilRunning(ctx context.Context, args ...string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()

	for {
		if pid, found := proc.FindCommand(args...); found {
			return pid, nil
		}

		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-poll.C:
		}
	}
}

// untilGone gives when a process had ended; zero when it did not in time.
func untilGone(ctx context.Context, pid int) time.Time {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	poll := time.NewTicker(300 * time.Microsecond)
	defer poll.Stop()

	for proc.Alive(pid) {
		select {
		case <-ctx.Done():
			return time.Time{}
		case <-poll.C:
		}
	}

	return time.Now()
}
