package main

import (
	"context"
	"fmt"

	"everloop/bench/proc"
	"everloop/bench/result"
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

	var speed, bareSpeed, total, bareTotal, late, bareLate, model, patches result.Sample

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)
	for range relayRounds {
		seen, err := b.chatInNew(ctx, message)
		if err != nil {
			return err
		}

		call, err := b.model.One()
		if err != nil {
			return err
		}

		if want := relayTokens * len("word "); seen.Text != want {
			return fmt.Errorf("%d bytes of text came, not %d", seen.Text, want)
		}

		count := 0

		for i := range seen.Events {
			if seen.Events[i].Patch("add_content") {
				count++
			}
		}

		patches = append(patches, float64(count))

		model.Add(call.Last.Sub(call.First))
		total.Add(seen.Ended.Sub(call.First))
		late.Add(seen.FirstText.Sub(call.First))
		speed = append(speed, relayTokens/seen.Ended.Sub(call.First).Seconds())

		if seen, err = b.bare.conversation().chat(ctx, message, nil); err != nil {
			return err
		}

		if call, err = b.model.One(); err != nil {
			return err
		}

		bareTotal.Add(seen.Ended.Sub(call.First))
		bareLate.Add(seen.FirstText.Sub(call.First))
		bareSpeed = append(bareSpeed, relayTokens/seen.Ended.Sub(call.First).Seconds())
	}

	used := meter.Read()

	b.samples("tokens per second", "tokens/s", speed, bareSpeed, result.AtLeast(relayGoal))
	b.samples("first piece to chat:end", "ms", total, bareTotal, nil)
	b.samples("  of which the model", "ms", model, nil, nil)
	b.samples("first text late by", "ms", late, bareLate, nil)
	b.samples("patches at the client", "", patches, nil, nil)
	b.cost("2,000 tokens", used, relayRounds)

	return nil
}
