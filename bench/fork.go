package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	forkRounds   = 40
	forkGoal     = 25  // ms
	forksAtOnce  = 10  // as many as a chat may have at work
	forkThinking = 300 // ms that the model of each takes
	crowdRounds  = 5
	crowdGoal    = 3 // times as long as one
)

// measureFork takes what a sub-agent costs until its first model call: from the
// last byte of the answer that asks for it to the request of its own, less what
// any chat takes from its message to its first request; and how much longer ten
// of them take than one.
func measureFork(ctx context.Context, b *bench) error {
	session, err := b.client.CreateSession(ctx)
	if err != nil {
		return err
	}

	bare := b.bare.conversation()

	var plain, bareFirst, fork, back result.Sample

	for range forkRounds {
		seen, err := b.client.Completed(ctx, session, target.HelloScript)
		if err != nil {
			return err
		}

		call, err := b.model.One()
		if err != nil {
			return err
		}

		plain.Add(call.Arrived.Sub(seen.Sent))

		if seen, err = bare.chat(ctx, target.HelloScript, nil); err != nil {
			return err
		}

		if call, err = b.model.One(); err != nil {
			return err
		}

		bareFirst.Add(call.Arrived.Sub(seen.Sent))

		calls, _, err := b.forks(ctx, session, 1, 0)
		if err != nil {
			return err
		}

		fork.Add(calls[1].Arrived.Sub(calls[0].Last))
		back.Add(calls[2].Arrived.Sub(calls[1].Last))
	}

	b.samples("a message to its request at the model", "ms", plain, bareFirst, nil)
	b.samples("a call of Agent to the sub-agent's own request", "ms", fork, bareFirst, nil)
	b.value("what a sub-agent adds to its first model call", "ms", fork.Median()-plain.Median(), result.AtMost(forkGoal))
	b.samples("a sub-agent's last byte to its caller's next request", "ms", back, nil, nil)

	return b.manyForks(ctx, session)
}

// manyForks compares ten sub-agents at once with one, each of whose models thinks
// for a while.
func (b *bench) manyForks(ctx context.Context, session string) error {
	var one, ten, spread result.Sample

	for range crowdRounds {
		_, seen, err := b.forks(ctx, session, 1, forkThinking)
		if err != nil {
			return err
		}

		one.Add(seen.Took())

		calls, seen, err := b.forks(ctx, session, forksAtOnce, forkThinking)
		if err != nil {
			return err
		}

		ten.Add(seen.Took())
		spread.Add(calls[forksAtOnce].Arrived.Sub(calls[1].Arrived))
	}

	b.samples(fmt.Sprintf("chat with one sub-agent of %d ms", forkThinking), "ms", one, nil, nil)
	b.samples(fmt.Sprintf("chat with %d such sub-agents at once", forksAtOnce), "ms", ten, one, nil)
	b.value("  times as long as with one", "", ten.Median()/one.Median(), result.AtMost(crowdGoal))
	b.samples("  first to last of their requests at the model", "ms", spread, nil, nil)

	return nil
}

// forks runs a chat that asks for n sub-agents at once and gives its model calls
// in the order of their arrival: that of the chat, those of the sub-agents, and
// the chat's last.
func (b *bench) forks(ctx context.Context, session string, n, thinkingMS int) ([]target.ModelCall, *target.Chat, error) {
	seen, err := b.client.Completed(ctx, session, forkScript(n, thinkingMS))
	if err != nil {
		return nil, nil, err
	}

	calls := b.model.Take()
	if len(calls) != n+2 {
		return nil, nil, fmt.Errorf("the model was called %d times, not %d", len(calls), n+2)
	}

	slices.SortFunc(calls, func(a, b target.ModelCall) int { return a.Arrived.Compare(b.Arrived) })

	return calls, seen, nil
}

func forkScript(n, thinkingMS int) string {
	type object = map[string]any

	script := func(steps ...object) string {
		text, err := json.Marshal(object{"steps": steps})
		if err != nil {
			panic(err) // it holds strings and numbers
		}

		return "[[script]]" + string(text) + "[[/script]]"
	}
	prompt := script(object{"text": "Found.", "first_delay_ms": thinkingMS})

	var calls []object
	for i := range n {
		calls = append(calls, object{"name": "Agent", "arguments": object{"description": fmt.Sprintf("part %d", i), "prompt": prompt}})
	}

	return script(object{"calls": calls}, object{"text": "Done."})
}
