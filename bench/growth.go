package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// growthLoop is as long as one chat may be: its last model call is the 200th.
	growthLoop  = 199
	growthChats = 300
	// growthWindow is how many neighbours stand for a place, as single steps vary.
	growthWindow = 10
	growthGoal   = 1.5
	growthSpan   = 50 // chats over which CPU is averaged, as the kernel counts it in 10 ms
)

// measureGrowth takes whether a step gets slower with the length of its loop,
// and a chat with the age of its session.
func measureGrowth(ctx context.Context, b *bench) error {
	if err := b.longLoop(ctx); err != nil {
		return fmt.Errorf("long loop: %w", err)
	}

	if err := b.longConversation(ctx); err != nil {
		return fmt.Errorf("long conversation: %w", err)
	}

	return nil
}

func (b *bench) longLoop(ctx context.Context) error {
	session, err := b.client.createPatientSession(ctx, growthLoop+1)
	if err != nil {
		return err
	}

	meter := startMeter(b.server.cmd.Process.Pid)
	if _, err := b.client.completed(ctx, session, loopScript(growthLoop)); err != nil {
		return err
	}

	used := meter.read()

	var gaps, bareGaps sample
	gaps.gaps(b.model.take())

	if _, err := b.bare.conversation().chat(ctx, loopScript(growthLoop), nil); err != nil {
		return err
	}

	bareGaps.gaps(b.model.take())

	if len(gaps) != growthLoop || len(bareGaps) != growthLoop {
		return fmt.Errorf("the loop had %d and %d steps, not %d", len(gaps), len(bareGaps), growthLoop)
	}

	early, late := gaps.around(10), gaps.around(growthLoop-growthWindow/2)
	bareEarly, bareLate := bareGaps.around(10), bareGaps.around(growthLoop-growthWindow/2)
	b.compare("gap at step 10", "ms", early, bareEarly, nil)
	b.compare(fmt.Sprintf("gap at step %d", growthLoop-growthWindow/2), "ms", late, bareLate, nil)
	b.compare("  ratio", "", late/early, bareLate/bareEarly, atMost(growthGoal))
	b.cost("step", used, growthLoop)

	return nil
}

func (b *bench) longConversation(ctx context.Context) error {
	session, err := b.client.createSession(ctx)
	if err != nil {
		return err
	}

	pid := b.server.cmd.Process.Pid
	bare := b.bare.conversation()

	var took, first, bareTook sample

	var cpu []cpuTime // at the start of each chat, and at the end
	for range growthChats {
		cpu = append(cpu, treeCPU(pid))

		seen, err := b.client.completed(ctx, session, helloScript)
		if err != nil {
			return err
		}

		took.add(seen.took())

		if err := b.firstToken(&first, seen, nil); err != nil {
			return err
		}

		if seen, err = bare.chat(ctx, helloScript, nil); err != nil {
			return err
		}

		bareTook.add(seen.took())
		b.model.take()
	}

	cpu = append(cpu, treeCPU(pid))

	const last = growthChats - growthWindow/2

	b.compare("chat 10 of a session", "ms", took.around(10), bareTook.around(10), nil)
	b.compare(fmt.Sprintf("chat %d", last), "ms", took.around(last), bareTook.around(last), nil)
	b.compare("  ratio", "", took.around(last)/took.around(10), bareTook.around(last)/bareTook.around(10), atMost(growthGoal))
	b.value("first text at chat 10", "ms", first.around(10), nil)
	b.value(fmt.Sprintf("first text at chat %d", last), "ms", first.around(last), nil)

	early, late := cpu[growthSpan].minus(cpu[0]), cpu[growthChats].minus(cpu[growthChats-growthSpan])
	b.value(fmt.Sprintf("CPU per chat, first %d", growthSpan), "ms", ms(early.sum())/growthSpan, nil)
	b.value("  of which PostgreSQL", "ms", ms(early.records)/growthSpan, nil)
	b.value(fmt.Sprintf("CPU per chat, last %d", growthSpan), "ms", ms(late.sum())/growthSpan, nil)
	b.value("  of which PostgreSQL", "ms", ms(late.records)/growthSpan, nil)

	began := time.Now()

	if err := b.client.call(ctx, http.MethodGet, "/api/sessions/"+session+"/messages", nil, nil); err != nil {
		return err
	}

	b.value(fmt.Sprintf("reading the history of %d turns", 2*growthChats), "ms", ms(time.Since(began)), nil)

	return nil
}

// around gives the median of the samples next to the n-th.
func (s sample) around(n int) float64 {
	from := min(max(0, n-growthWindow/2), len(s)-growthWindow)
	return s[from : from+growthWindow].median()
}
