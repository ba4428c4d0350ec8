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
	waitingSettle = 30 * time.Second
	waitingWatch  = 20 * time.Second
	// waitingAtOnce is how many sessions are brought to their question at a time.
	waitingAtOnce = 16
	// waitingFirst is how many sessions wait before the cost of one more is measured.
	waitingFirst = 1000
	// waitingAnswers is how many of the questions are answered at the end.
	waitingAnswers = 20
	// waitingHeapGoal is what a waiting session may keep in the service, in KiB.
	waitingHeapGoal = 20
)

const questionScript = `[[script]]{"steps":[{"calls":[{"name":"AskUserQuestion","arguments":{"questions":[{"question":"Go ` +
	`on?","options":[{"label":"Yes"},{"label":"No"}]}]}}]},{"text":"Going on."}]}[[/script]]`

// measureWaiting takes what many sessions cost whose user has yet to answer.
func measureWaiting(ctx context.Context, b *bench) error {
	pid := b.server.Cmd.Process.Pid
	before := proc.TreeMemory(pid)
	// The first fill caches that have a bound; what more of them take is theirs.
	first := min(waitingFirst, b.waiting/4)
	if _, err := b.ask(ctx, first); err != nil {
		return err
	}

	if err := wait(ctx, waitingSettle); err != nil {
		return err
	}

	full := proc.TreeMemory(pid)

	fullHeap, err := b.server.LiveHeap(ctx)
	if err != nil {
		return err
	}

	began := time.Now()

	sessions, err := b.ask(ctx, b.waiting-first)
	if err != nil {
		return err
	}

	b.value(fmt.Sprintf("bringing %d more sessions to their question", b.waiting-first), "s", time.Since(began).Seconds(), nil)

	right := proc.TreeMemory(pid)

	if err := wait(ctx, waitingSettle); err != nil {
		return err
	}

	meter := proc.StartMeter(pid)

	if err := wait(ctx, waitingWatch); err != nil {
		return err
	}

	used, after := meter.Read(), proc.TreeMemory(pid)

	heap, err := b.server.LiveHeap(ctx)
	if err != nil {
		return err
	}

	b.value("CPU while all wait, per second", "ms", result.Milliseconds(used.Tree.Sum())/used.Wall.Seconds(), nil)
	b.value("memory before, PSS", "MiB", result.Mebibytes(before.PSS), nil)
	b.value(fmt.Sprintf("memory while %d wait, PSS", first), "MiB", result.Mebibytes(full.PSS), nil)
	b.value("memory when the last one waits, PSS", "MiB", result.Mebibytes(right.PSS), nil)
	b.value("memory while all wait, PSS", "MiB", result.Mebibytes(after.PSS), nil)
	b.value("  of which the service", "MiB", result.Mebibytes(after.Service), nil)
	b.value("  of which the sandbox", "MiB", result.Mebibytes(after.Sandbox), nil)
	b.value("  of which PostgreSQL", "MiB", result.Mebibytes(after.Records), nil)
	b.value("memory of one more waiting session", "KiB", (float64(after.PSS)-float64(full.PSS))/1024/float64(b.waiting-first), nil)
	perSession := (float64(heap) - float64(fullHeap)) / 1024 / float64(b.waiting-first)
	b.value("  of which is still in use once garbage is collected", "KiB", perSession, result.AtMost(waitingHeapGoal))

	return b.answer(ctx, sessions[:min(waitingAnswers, len(sessions))])
}

// waitingSession is a session with an open question.
type waitingSession struct{ id, toolCall string }

// ask brings so many new sessions to a question.
func (b *bench) ask(ctx context.Context, count int) ([]waitingSession, error) {
	sessions := make([]waitingSession, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(waitingAtOnce)

	for i := range sessions {
		group.Go(func() error {
			session, err := b.client.CreateSession(ctx)
			if err != nil {
				return err
			}

			seen, err := b.client.Chat(ctx, session, questionScript, func(e *target.Event) {
				if e.Patch("add_tool_call") {
					sessions[i] = waitingSession{session, e.Body.ToolCall.ID}
				}
			})
			if err == nil && seen.Finish != "awaiting_answer" {
				err = fmt.Errorf("a chat with a question ended as %q", seen.Finish)
			}

			return err
		})
	}

	return sessions, group.Wait()
}

// answer answers some of the questions and takes the time to the first text.
func (b *bench) answer(ctx context.Context, sessions []waitingSession) error {
	var first result.Sample

	b.model.Take()

	for _, session := range sessions {
		seen, err := b.client.Follow(ctx, session.id, map[string]any{"askuser_answer": map[string]any{
			"tool_call_id": session.toolCall, "selections": map[string]any{"0": []int{0}}, "custom": map[string]any{},
		}}, nil)
		if err == nil && seen.Finish != "completed" {
			err = fmt.Errorf("an answered chat ended as %q", seen.Finish)
		}

		if err != nil {
			return err
		}

		if err := b.firstToken(&first, seen, nil); err != nil {
			return err
		}
	}

	b.samples("answer to the first text", "ms", first, nil, nil)

	return nil
}
