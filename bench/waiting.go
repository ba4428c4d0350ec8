package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
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
	pid := b.server.cmd.Process.Pid
	before := treeMemory(pid)
	// The first fill caches that have a bound; what more of them take is theirs.
	first := min(waitingFirst, b.waiting/4)
	if _, err := b.ask(ctx, first); err != nil {
		return err
	}

	if err := wait(ctx, waitingSettle); err != nil {
		return err
	}

	full := treeMemory(pid)

	fullHeap, err := b.server.liveHeap(ctx)
	if err != nil {
		return err
	}

	began := time.Now()

	sessions, err := b.ask(ctx, b.waiting-first)
	if err != nil {
		return err
	}

	b.value(fmt.Sprintf("bringing %d more sessions to their question", b.waiting-first), "s", time.Since(began).Seconds(), nil)

	right := treeMemory(pid)

	if err := wait(ctx, waitingSettle); err != nil {
		return err
	}

	meter := startMeter(pid)

	if err := wait(ctx, waitingWatch); err != nil {
		return err
	}

	used, after := meter.read(), treeMemory(pid)

	heap, err := b.server.liveHeap(ctx)
	if err != nil {
		return err
	}

	b.value("CPU while all wait, per second", "ms", ms(used.tree.sum())/used.wall.Seconds(), nil)
	b.value("memory before, PSS", "MiB", mib(before.pss), nil)
	b.value(fmt.Sprintf("memory while %d wait, PSS", first), "MiB", mib(full.pss), nil)
	b.value("memory when the last one waits, PSS", "MiB", mib(right.pss), nil)
	b.value("memory while all wait, PSS", "MiB", mib(after.pss), nil)
	b.value("  of which the service", "MiB", mib(after.service), nil)
	b.value("  of which the sandbox", "MiB", mib(after.sandbox), nil)
	b.value("  of which PostgreSQL", "MiB", mib(after.records), nil)
	b.value("memory of one more waiting session", "KiB", (float64(after.pss)-float64(full.pss))/1024/float64(b.waiting-first), nil)
	perSession := (float64(heap) - float64(fullHeap)) / 1024 / float64(b.waiting-first)
	b.value("  of which is still in use once garbage is collected", "KiB", perSession, atMost(waitingHeapGoal))

	return b.answer(ctx, sessions[:min(waitingAnswers, len(sessions))])
}

// liveHeap collects garbage in the service, and gives the bytes that are still in use.
func (s *server) liveHeap(ctx context.Context) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr["DEBUG_ADDR"]+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()

	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)

	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), "# HeapAlloc = "); found {
			return strconv.ParseInt(value, 10, 64)
		}
	}

	return 0, cmp.Or(lines.Err(), errors.New("the heap profile does not say how much is in use"))
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
			session, err := b.client.createSession(ctx)
			if err != nil {
				return err
			}

			seen, err := b.client.chat(ctx, session, questionScript, func(e *event) {
				if e.patch("add_tool_call") {
					sessions[i] = waitingSession{session, e.body.ToolCall.ID}
				}
			})
			if err == nil && seen.finish != "awaiting_answer" {
				err = fmt.Errorf("a chat with a question ended as %q", seen.finish)
			}

			return err
		})
	}

	return sessions, group.Wait()
}

// answer answers some of the questions and takes the time to the first text.
func (b *bench) answer(ctx context.Context, sessions []waitingSession) error {
	var first sample

	b.model.take()

	for _, session := range sessions {
		seen, err := b.client.follow(ctx, session.id, map[string]any{"askuser_answer": map[string]any{
			"tool_call_id": session.toolCall, "selections": map[string]any{"0": []int{0}}, "custom": map[string]any{},
		}}, nil)
		if err == nil && seen.finish != "completed" {
			err = fmt.Errorf("an answered chat ended as %q", seen.finish)
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
