package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	contextTurns  = 10_000
	contextRounds = 30
	contextGoal   = 30  // ms for putting a context together
	contextRatio  = 1.5 // of an old session to a young one
)

// measureContext takes whether the age of a session is felt: a chat, and what is
// read for its prompt, in a session of 10,000 turns and in one of ten, both with
// their histories summarised.
func measureContext(ctx context.Context, b *bench) error {
	young, err := b.client.CreateSession(ctx)
	if err != nil {
		return err
	}

	for i := range 5 {
		if _, err := b.client.Completed(ctx, young, saidScript(i)); err != nil {
			return err
		}
	}

	old, err := b.aged(ctx, young, contextTurns)
	if err != nil {
		return fmt.Errorf("make a session of %d turns: %w", contextTurns, err)
	}

	if err := b.compacted(ctx, young, old); err != nil {
		return err
	}

	if err := b.readContext(ctx, young, old); err != nil {
		return err
	}

	return b.chatInContext(ctx, young, old)
}

// saidScript is a message of some length that is answered with one.
func saidScript(i int) string {
	text := strings.Repeat("some words of a longer conversation ", 12)
	return fmt.Sprintf(`message %d: %s [[script]]{"steps":[{"text":"answer %d: %s"}]}[[/script]]`, i, text, i, text)
}

// compacted has both histories summarised.
func (b *bench) compacted(ctx context.Context, young, old string) error {
	var took result.Sample

	for _, session := range []string{young, old} {
		var result struct {
			Status   string `json:"status"`
			Reason   string `json:"reason"`
			Archived int    `json:"archived_count"`
		}

		began := time.Now()

		if err := b.client.Call(ctx, http.MethodPost, "/api/sessions/"+session+"/compact", nil, &result); err != nil {
			return err
		}

		if result.Status != "completed" {
			return fmt.Errorf("the compaction was %s: %s", result.Status, result.Reason)
		}

		took.Add(time.Since(began))
	}

	b.compare(fmt.Sprintf("summarising %d turns (bare: 10)", contextTurns), "ms", took[1], took[0], nil)
	b.model.Take()

	return nil
}

// readContext takes context-stats, which reads and weighs all that a prompt is
// made of, less the time of a request that reads nothing.
func (b *bench) readContext(ctx context.Context, young, old string) error {
	var early, late, nothing result.Sample
	for range contextRounds {
		for _, read := range []struct {
			path string
			to   *result.Sample
		}{
			{"/api/version", &nothing},
			{"/api/sessions/" + young + "/context-stats", &early},
			{"/api/sessions/" + old + "/context-stats", &late},
		} {
			began := time.Now()

			if err := b.client.Call(ctx, http.MethodGet, read.path, nil, nil); err != nil {
				return err
			}

			read.to.Add(time.Since(began))
		}
	}

	b.samples("GET /api/version", "ms", nothing, nil, nil)
	b.samples(fmt.Sprintf("context-stats of %d turns (bare: 10)", contextTurns), "ms", late, early, nil)
	b.value("  less GET /api/version", "ms", late.Median()-nothing.Median(), result.AtMost(contextGoal))
	b.compare("  ratio", "", late.Median()/early.Median(), 1, result.AtMost(contextRatio))

	return nil
}

// chatInContext takes the first text, and the part of it in which the prompt is
// put together: from the turn's start to the model's request.
func (b *bench) chatInContext(ctx context.Context, young, old string) error {
	bare := b.bare.conversation()

	var (
		first, assembled [2]result.Sample
		bareFirst        result.Sample
		parts            [2]stages
	)

	sessions := [2]string{young, old}
	for round := range contextRounds {
		for n := range sessions {
			i := (round + n) % 2 // what one leaves to be done meets the other as often
			session := sessions[i]

			seen, err := b.client.Completed(ctx, session, target.HelloScript)
			if err != nil {
				return err
			}

			call, err := b.model.One()
			if err != nil {
				return err
			}

			first[i].Add(seen.FirstText.Sub(seen.Sent) - call.Thinking())
			parts[i].add(seen, call)

			for _, e := range seen.Events {
				if e.Name == "turn:start" && e.Body.Role == "assistant" {
					assembled[i].Add(max(call.Arrived.Sub(e.At), 0))
				}
			}
		}

		seen, err := bare.chat(ctx, target.HelloScript, nil)
		if err != nil {
			return err
		}

		if err := b.firstToken(&bareFirst, seen, nil); err != nil {
			return err
		}
	}

	b.samples("first text, 10 turns", "ms", first[0], bareFirst, nil)
	b.samples(fmt.Sprintf("first text, %d turns", contextTurns), "ms", first[1], bareFirst, nil)
	b.compare("  ratio", "", first[1].Median()/first[0].Median(), 1, result.AtMost(contextRatio))
	b.samples("  sent to chat:start (bare: 10 turns)", "ms", parts[1].start, parts[0].start, nil)
	b.samples("  sent to the user's turn", "ms", parts[1].userTurn, parts[0].userTurn, nil)
	b.samples("  sent to the assistant's turn:start", "ms", parts[1].turn, parts[0].turn, nil)
	b.samples("  model's last byte to turn:end", "ms", parts[1].closed, parts[0].closed, nil)
	b.samples("turn:start to the request at the model, 10 turns", "ms", assembled[0], nil, nil)
	b.samples(fmt.Sprintf("the same, %d turns", contextTurns), "ms", assembled[1], assembled[0], result.AtMost(contextGoal))

	return nil
}
