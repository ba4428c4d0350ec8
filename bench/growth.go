package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
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
	session, err := b.client.CreatePatientSession(ctx, growthLoop+1)
	if err != nil {
		return err
	}

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)
	if _, err := b.client.Completed(ctx, session, target.LoopScript(growthLoop)); err != nil {
		return err
	}

	used := meter.Read()

	var gaps, bareGaps result.Sample
	addGaps(&gaps, b.model.Take())

	if _, err := b.bare.conversation().chat(ctx, target.LoopScript(growthLoop), nil); err != nil {
		return err
	}

	addGaps(&bareGaps, b.model.Take())

	if len(gaps) != growthLoop || len(bareGaps) != growthLoop {
		return fmt.Errorf("the loop had %d and %d steps, not %d", len(gaps), len(bareGaps), growthLoop)
	}

	early, late := around(gaps, 10), around(gaps, growthLoop-growthWindow/2)
	bareEarly, bareLate := around(bareGaps, 10), around(bareGaps, growthLoop-growthWindow/2)
	b.compare("gap at step 10", "ms", early, bareEarly, nil)
	b.compare(fmt.Sprintf("gap at step %d", growthLoop-growthWindow/2), "ms", late, bareLate, nil)
	b.compare("  ratio", "", late/early, bareLate/bareEarly, result.AtMost(growthGoal))
	b.cost("step", used, growthLoop)

	return nil
}

func (b *bench) longConversation(ctx context.Context) error {
	session, err := b.client.CreateSession(ctx)
	if err != nil {
		return err
	}

	pid := b.server.Cmd.Process.Pid
	bare := b.bare.conversation()

	var took, first, bareTook result.Sample

	var cpu []proc.CPUTime // at the start of each chat, and at the end
	for range growthChats {
		cpu = append(cpu, proc.TreeCPU(pid))

		seen, err := b.client.Completed(ctx, session, target.HelloScript)
		if err != nil {
			return err
		}

		took.Add(seen.Took())

		if err := b.firstToken(&first, seen, nil); err != nil {
			return err
		}

		if seen, err = bare.chat(ctx, target.HelloScript, nil); err != nil {
			return err
		}

		bareTook.Add(seen.Took())
		b.model.Take()
	}

	cpu = append(cpu, proc.TreeCPU(pid))

	const last = growthChats - growthWindow/2

	b.compare("chat 10 of a session", "ms", around(took, 10), around(bareTook, 10), nil)
	b.compare(fmt.Sprintf("chat %d", last), "ms", around(took, last), around(bareTook, last), nil)
	b.compare("  ratio", "", around(took, last)/around(took, 10), around(bareTook, last)/around(bareTook, 10), result.AtMost(growthGoal))
	b.value("first text at chat 10", "ms", around(first, 10), nil)
	b.value(fmt.Sprintf("first text at chat %d", last), "ms", around(first, last), nil)

	early, late := cpu[growthSpan].Minus(cpu[0]), cpu[growthChats].Minus(cpu[growthChats-growthSpan])
	b.value(fmt.Sprintf("CPU per chat, first %d", growthSpan), "ms", result.Milliseconds(early.Sum())/growthSpan, nil)
	b.value("  of which PostgreSQL", "ms", result.Milliseconds(early.Records)/growthSpan, nil)
	b.value(fmt.Sprintf("CPU per chat, last %d", growthSpan), "ms", result.Milliseconds(late.Sum())/growthSpan, nil)
	b.value("  of which PostgreSQL", "ms", result.Milliseconds(late.Records)/growthSpan, nil)

	began := time.Now()

	if err := b.client.Call(ctx, http.MethodGet, "/api/sessions/"+session+"/messages", nil, nil); err != nil {
		return err
	}

	b.value(fmt.Sprintf("reading the history of %d turns", 2*growthChats), "ms", result.Milliseconds(time.Since(began)), nil)

	return nil
}

// around gives the median of the samples next to the n-th.
func around(s result.Sample, n int) float64 {
	from := min(max(0, n-growthWindow/2), len(s)-growthWindow)
	return s[from : from+growthWindow].Median()
}
