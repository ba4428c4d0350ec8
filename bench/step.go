package main

import (
	"context"
	"fmt"
	"time"
)

const (
	stepRounds = 5
	stepLoop   = 50
	stepGoal   = 20 // ms
)

// measureStep takes the time of one step of a loop: a model call that asks for a
// command, the command, and the next call.
func measureStep(ctx context.Context, b *bench) error {
	var (
		whole, gap, bareWhole, bareGap sample
		parts                          stepStages
		used                           usage
	)

	for range stepRounds {
		session, err := b.client.createSession(ctx)
		if err != nil {
			return err
		}

		meter := startMeter(b.server.cmd.Process.Pid)

		seen, err := b.client.completed(ctx, session, loopScript(stepLoop))
		if err != nil {
			return err
		}

		round := meter.read()
		used.tree = used.tree.plus(round.tree)
		used.foreign += round.foreign / stepRounds

		calls, err := b.stepCalls()
		if err != nil {
			return err
		}

		whole.add(seen.took() / stepLoop)
		gap.gaps(calls)
		parts.add(seen, calls)

		seen, err = b.bare.conversation().chat(ctx, loopScript(stepLoop), nil)
		if err != nil {
			return err
		}

		if calls, err = b.stepCalls(); err != nil {
			return err
		}

		bareWhole.add(seen.took() / stepLoop)
		bareGap.gaps(calls)
	}

	b.samples("step, whole chat / 50", "ms", whole, bareWhole, atMost(stepGoal))
	b.samples("gap: answer's end to the next request", "ms", gap, bareGap, nil)
	parts.report(b)
	b.cost("step", used, stepRounds*stepLoop)

	return nil
}

func (b *bench) stepCalls() ([]modelCall, error) {
	calls := b.model.take()
	if len(calls) != stepLoop+1 {
		return nil, fmt.Errorf("the model was called %d times, not %d", len(calls), stepLoop+1)
	}

	return calls, nil
}

// gaps adds the times between one answer's end and the next request.
func (s *sample) gaps(calls []modelCall) {
	for i := 1; i < len(calls); i++ {
		s.add(calls[i].arrived.Sub(calls[i-1].last))
	}
}

// stepStages are where the time of a step goes, as far as clients can see it.
type stepStages struct {
	turnClosed, toolRan, tool, turnOpened, asked, model sample
}

func (s *stepStages) add(seen *chat, calls []modelCall) {
	step := -1 // the model call that the events belong to

	var closed, result time.Time

	for i := range seen.events {
		e := &seen.events[i]
		switch {
		case e.name == "turn:start" && e.body.Role == "assistant":
			step++

			if !result.IsZero() {
				s.turnOpened.add(e.at.Sub(result))
			}

			if step > 0 && step < len(calls) {
				s.asked.add(calls[step].arrived.Sub(e.at))
				s.model.add(calls[step].last.Sub(calls[step].arrived))
			}
		case e.name == "turn:end" && step >= 0 && step < len(calls):
			closed = e.at
			s.turnClosed.add(closed.Sub(calls[step].last))
		case e.patch("tool_result"):
			result = e.at
			s.toolRan.add(result.Sub(closed))
			s.tool = append(s.tool, float64(e.body.DurationMS))
		}
	}
}

func (s *stepStages) report(b *bench) {
	b.samples("  request to the model's last byte", "ms", s.model, nil, nil)
	b.samples("  model's last byte to turn:end", "ms", s.turnClosed, nil, nil)
	b.samples("  turn:end to tool_result", "ms", s.toolRan, nil, nil)
	b.samples("    of which the command, as reported", "ms", s.tool, nil, nil)
	b.samples("  tool_result to the next turn:start", "ms", s.turnOpened, nil, nil)
	b.samples("  turn:start to the request at the model", "ms", s.asked, nil, nil)
}
