package main

import (
	"context"
	"fmt"
	"time"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
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
		whole, gap, bareWhole, bareGap result.Sample
		parts                          stepStages
		used                           proc.Usage
	)

	for range stepRounds {
		session, err := b.client.CreateSession(ctx)
		if err != nil {
			return err
		}

		meter := proc.StartMeter(b.server.Cmd.Process.Pid)

		seen, err := b.client.Completed(ctx, session, target.LoopScript(stepLoop))
		if err != nil {
			return err
		}

		round := meter.Read()
		used.Tree = used.Tree.Plus(round.Tree)
		used.Foreign += round.Foreign / stepRounds

		calls, err := b.stepCalls()
		if err != nil {
			return err
		}

		whole.Add(seen.Took() / stepLoop)
		addGaps(&gap, calls)
		parts.add(seen, calls)

		seen, err = b.bare.conversation().chat(ctx, target.LoopScript(stepLoop), nil)
		if err != nil {
			return err
		}

		if calls, err = b.stepCalls(); err != nil {
			return err
		}

		bareWhole.Add(seen.Took() / stepLoop)
		addGaps(&bareGap, calls)
	}

	b.samples("step, whole chat / 50", "ms", whole, bareWhole, result.AtMost(stepGoal))
	b.samples("gap: answer's end to the next request", "ms", gap, bareGap, nil)
	parts.report(b)
	b.cost("step", used, stepRounds*stepLoop)

	return nil
}

func (b *bench) stepCalls() ([]target.ModelCall, error) {
	calls := b.model.Take()
	if len(calls) != stepLoop+1 {
		return nil, fmt.Errorf("the model was called %d times, not %d", len(calls), stepLoop+1)
	}

	return calls, nil
}

// addGaps adds the times between one answer's end and the next request.
func addGaps(s *result.Sample, calls []target.ModelCall) {
	for i := 1; i < len(calls); i++ {
		s.Add(calls[i].Arrived.Sub(calls[i-1].Last))
	}
}

// stepStages are where the time of a step goes, as far as clients can see it.
type stepStages struct {
	turnClosed, toolRan, tool, turnOpened, asked, model result.Sample
}

func (s *stepStages) add(seen *target.Chat, calls []target.ModelCall) {
	step := -1 // the model call that the events belong to

	var closed, result time.Time

	for i := range seen.Events {
		e := &seen.Events[i]
		switch {
		case e.Name == "turn:start" && e.Body.Role == "assistant":
			step++

			if !result.IsZero() {
				s.turnOpened.Add(e.At.Sub(result))
			}

			if step > 0 && step < len(calls) {
				s.asked.Add(calls[step].Arrived.Sub(e.At))
				s.model.Add(calls[step].Last.Sub(calls[step].Arrived))
			}
		case e.Name == "turn:end" && step >= 0 && step < len(calls):
			closed = e.At
			s.turnClosed.Add(closed.Sub(calls[step].Last))
		case e.Patch("tool_result"):
			result = e.At
			s.toolRan.Add(result.Sub(closed))
			s.tool = append(s.tool, float64(e.Body.DurationMS))
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
