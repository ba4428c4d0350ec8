package main

import (
	"context"
	"fmt"
)

const (
	relayRounds = 15
	relayTokens = 2000
	relayGoal   = 20_000 // tokens/s
)

// measureRelay takes how fast a long answer passes, from the model's first piece
// to chat:end.
func measureRelay(ctx context.Context, b *bench) error {
	message := fmt.Sprintf(`[[script]]{"steps":[{"tokens":%d}]}[[/script]]`, relayTokens)

	var speed, bareSpeed, total, bareTotal, late, bareLate, model, patches sample

	meter := startMeter(b.server.cmd.Process.Pid)
	for range relayRounds {
		seen, err := b.chatInNew(ctx, message)
		if err != nil {
			return err
		}

		call, err := b.model.one()
		if err != nil {
			return err
		}

		if want := relayTokens * len("word "); seen.text != want {
			return fmt.Errorf("%d bytes of text came, not %d", seen.text, want)
		}

		count := 0

		for i := range seen.events {
			if seen.events[i].patch("add_content") {
				count++
			}
		}

		patches = append(patches, float64(count))

		model.add(call.last.Sub(call.first))
		total.add(seen.ended.Sub(call.first))
		late.add(seen.firstText.Sub(call.first))
		speed = append(speed, relayTokens/seen.ended.Sub(call.first).Seconds())

		if seen, err = b.bare.conversation().chat(ctx, message, nil); err != nil {
			return err
		}

		if call, err = b.model.one(); err != nil {
			return err
		}

		bareTotal.add(seen.ended.Sub(call.first))
		bareLate.add(seen.firstText.Sub(call.first))
		bareSpeed = append(bareSpeed, relayTokens/seen.ended.Sub(call.first).Seconds())
	}

	used := meter.read()

	b.samples("tokens per second", "tokens/s", speed, bareSpeed, atLeast(relayGoal))
	b.samples("first piece to chat:end", "ms", total, bareTotal, nil)
	b.samples("  of which the model", "ms", model, nil, nil)
	b.samples("first text late by", "ms", late, bareLate, nil)
	b.samples("patches at the client", "", patches, nil, nil)
	b.cost("2,000 tokens", used, relayRounds)

	return nil
}
