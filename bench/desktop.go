package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"everloop/bench/result"
)

const (
	desktopRounds = 7
	desktopTurns  = 10_000
	desktopTokens = 20_000

	desktopScripts = 300  // KB compressed, for the sign-in and a chat
	desktopPaint   = 1000 // ms
	desktopOpening = 1000 // ms
	desktopTask    = 50   // ms
	desktopNodes   = 500  // a page of four answers has some 10,000
)

// desktopStream is an answer as the desktop shows it.
type desktopStream struct {
	TokensPerSecond   float64 `json:"tokensPerSecond"`
	Longest           float64 `json:"longest"` // the longest task, ms; 0: none over 50
	Long              float64 `json:"long"`    // tasks over 50 ms
	Missing           float64 `json:"missing"` // words
	HeapBytesPerToken float64 `json:"heapBytesPerToken"`
}

// desktopFound is what bench/desktop/measure.mjs prints.
type desktopFound struct {
	Scripts struct {
		SignIn float64 `json:"signIn"` // bytes
		Chat   float64 `json:"chat"`
	} `json:"scripts"`
	Paint struct {
		Desktop result.Sample `json:"desktop"` // ms
		Bare    result.Sample `json:"bare"`
	} `json:"paint"`
	Opening struct {
		Shown    result.Sample `json:"shown"` // ms
		Bare     result.Sample `json:"bare"`
		Scroll   float64       `json:"scroll"`   // the longest task, ms; 0: none over 50
		Scrolled float64       `json:"scrolled"` // tasks over 50 ms
	} `json:"opening"`
	Paced desktopStream `json:"paced"` // at some 2,000 tokens a second
	Fast  desktopStream `json:"fast"`  // at full speed
	Hour  struct {
		HeapBytesPerToken float64 `json:"heapBytesPerToken"`
		Nodes             float64 `json:"nodes"` // of the page, more at the end than when earlier answers were out of view
	} `json:"hour"`
}

// measureDesktop takes what the desktop costs in a browser. It wants the system's Chromium
// and the modules of the end-to-end suites.
func measureDesktop(ctx context.Context, b *bench) error {
	long, err := b.seedLongSession(ctx, desktopTurns)
	if err != nil {
		return err
	}

	command := exec.CommandContext(ctx, "node", "desktop/measure.mjs")
	command.Stderr = os.Stderr

	command.Env = append(
		os.Environ(), "DESKTOP=http://"+b.server.Addr["DESKTOP_ADDR"], "AGENT="+b.server.URL(), "KEY="+b.server.Key, "SESSION="+long,
		"ROUNDS="+strconv.Itoa(desktopRounds), "TOKENS="+strconv.Itoa(desktopTokens),
	)

	printed, err := command.Output()
	if err != nil {
		return fmt.Errorf("measure the desktop in a browser: %w", err)
	}

	var found desktopFound
	if err := json.Unmarshal(printed, &found); err != nil {
		return err
	}

	b.value("scripts of the sign-in, compressed", "KB", found.Scripts.SignIn/1000, result.AtMost(desktopScripts))
	b.value("scripts of a chat, compressed", "KB", found.Scripts.Chat/1000, result.AtMost(desktopScripts))
	b.samples("first contentful paint, cold; bare: a heading", "ms", found.Paint.Desktop, found.Paint.Bare, result.AtMost(desktopPaint))
	b.samples(
		"opening 10,000 turns; bare: reading the newest",
		"ms",
		found.Opening.Shown,
		found.Opening.Bare,
		result.AtMost(desktopOpening),
	)
	b.value("longest task while it is scrolled", "ms", found.Opening.Scroll, result.AtMost(desktopTask))
	b.value("  tasks over 50 ms", "", found.Opening.Scrolled, nil)
	b.stream("a stream of 2,000 tokens/s as it is shown", found.Paced, result.AtMost(desktopTask))
	b.stream("a stream at full speed as it is shown", found.Fast, nil)
	b.value("an hour of answers at 50 tokens/s: heap kept for a token", "B", found.Hour.HeapBytesPerToken, nil)
	b.value("  nodes of the page, more at its end", "", found.Hour.Nodes, result.AtMost(desktopNodes))

	return nil
}

func (b *bench) stream(what string, found desktopStream, task *result.Goal) {
	b.value(what, "tokens/s", found.TokensPerSecond, nil)
	b.value("  longest task", "ms", found.Longest, task)
	b.value("  tasks over 50 ms", "", found.Long, nil)
	b.value("  words that were lost", "", found.Missing, result.AtMost(0))
	b.value("  heap kept for a token", "B", found.HeapBytesPerToken, nil)
}
