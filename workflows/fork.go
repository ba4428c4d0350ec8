package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
)

// Fork carries one sub-agent: the same loop as a chat's, with turns of its own.
// It begins with its first model call, and its last answer is the result of the
// call that owns it. Of a chat it is the child, and ends with it; in the
// background it stands alone, and outlives its chat.
func Fork(ctx workflow.Context, in contract.ForkInput) (contract.ForkOut, error) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%s\n\nsub-agent %s of chat %s", in.Title, in.LoopID, in.ChatID))
	run := &forkRun{loop: loop{
		who: "sub-agent", sessionID: in.SessionID, chatID: in.ChatID, id: in.LoopID, taskID: in.TaskID,
		step: in.Step, maxSteps: in.MaxSteps,
	}}
	run.await, run.awaitSlot, run.told, run.hear = run.pause, run.queue, run.resumed, run.heed
	working, cancel := workflow.WithCancel(ctx)
	run.clock = clock{left: time.Duration(in.Seconds) * time.Second, expire: cancel}
	run.clock.start(ctx)

	end := run.run(working)
	run.clock.stop()
	switch {
	case end.longer:
		in.Step, in.Seconds = run.step, int(run.clock.left.Seconds())
		return contract.ForkOut{}, workflow.NewContinueAsNewError(ctx, contract.WorkflowFork, in)
	case end.err != nil:
		return contract.ForkOut{}, end.err
	case run.clock.over:
		end = outcome{reason: domain.FinishFailed, code: "time_limit", message: "its time was over"}
	}
	err := endFork(ctx, in.LoopID, end)
	return contract.ForkOut{Stopped: end.reason == domain.FinishInterrupted && ctx.Err() == nil}, err
}

// forkRun carries the loop of a sub-agent.
type forkRun struct {
	loop
	clock clock
	heard int // the last Resume from its parent
}

// pause waits, at no cost, until an answer may have come. Its time stands still
// meanwhile.
func (f *forkRun) pause(ctx workflow.Context, asked bool) (out outcome, answered, over bool) {
	now, err := contract.PauseFork.Local(ctx, contract.PauseForkIn{LoopID: f.id, Asked: asked, Children: f.asking() > 0})
	switch {
	case err != nil:
		return f.failure(err), false, true
	case now.State == contract.Closed:
		return outcome{reason: domain.FinishInterrupted}, false, true
	case now.State == contract.Answered:
		return outcome{}, true, false
	}
	nudge(ctx, now.Next)
	if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
		workflow.SignalExternalWorkflow(ctx, parent.ID, "", contract.Asked.Name, contract.AskedFork{LoopID: f.id, Heard: f.heard})
	}
	f.clock.stop()
	defer f.clock.start(ctx)
	if err := workflow.Await(ctx, func() bool { return f.resumed(ctx) }); err != nil {
		return f.failure(err), false, true
	}
	f.heed(ctx)
	return outcome{}, false, false
}

// slotPoll is how long a sub-agent waits for the word that a slot is free before
// it looks by itself.
const slotPoll = 15 * time.Second

// queue waits until another sub-agent may have ended.
func (f *forkRun) queue(ctx workflow.Context) error {
	f.clock.stop()
	defer f.clock.start(ctx)
	_, err := workflow.AwaitWithTimeout(ctx, slotPoll, func() bool { return f.resumed(ctx) })
	f.heed(ctx)
	return err
}

// resumed reports whether the sub-agent was told to look again.
func (f *forkRun) resumed(ctx workflow.Context) bool { return contract.Resume.Waiting(ctx) }

// heed takes what the sub-agent was told.
func (f *forkRun) heed(ctx workflow.Context) {
	for contract.Resume.Waiting(ctx) {
		f.heard = max(f.heard, contract.Resume.Receive(ctx).Number)
	}
}

// clock measures how long a sub-agent works, and ends what takes too long.
type clock struct {
	left   time.Duration
	expire workflow.CancelFunc
	over   bool

	began time.Time
	now   func() time.Time
	halt  workflow.CancelFunc
}

func (c *clock) start(ctx workflow.Context) {
	if c.over || ctx.Err() != nil {
		return
	}
	c.now = func() time.Time { return workflow.Now(ctx) }
	c.began = c.now()
	ctx, c.halt = workflow.WithCancel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := workflow.Sleep(ctx, c.left); err == nil {
			c.over = true
			c.expire()
		}
	})
}

func (c *clock) stop() {
	if c.halt == nil {
		return
	}
	c.left = max(0, c.left-c.now().Sub(c.began))
	c.halt()
	c.halt = nil
}
