package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
)

// Fork carries one sub-agent: the same loop as a chat's, with turns of its own. It
// begins with its first model call, and its last answer is the result of the call that
// owns it. Of a chat it is the child, and ends with it; in the background it is a run
// of its own, and outlives its chat.
func Fork(ctx workflow.Context, in contract.ForkInput) (contract.ForkOut, error) {
	works := fmt.Sprintf("sub-agent %s of chat %s, session %s", in.LoopID, in.ChatID, in.SessionID)
	workflow.SetCurrentDetails(ctx, works)

	run := &forkRun{loop: loop{
		name: "sub-agent", sessionID: in.SessionID, chatID: in.ChatID, id: in.LoopID, taskID: in.TaskID,
		step: in.Step, maxSteps: in.MaxSteps,
	}, received: in.Heard, works: works}
	run.waiter = run
	working, cancel := workflow.WithCancel(ctx)
	run.clock = &clock{left: time.Duration(in.Seconds) * time.Second, expire: cancel}
	run.clock.start(ctx)

	end := run.run(working)
	run.clock.stop()

	switch {
	case end.continued:
		run.drainSignals(ctx) // signals that are not received go with this run
		in.Step, in.Seconds, in.Heard = run.step, int(run.clock.left.Seconds()), run.received

		return contract.ForkOut{}, continueAsNew(ctx, contract.WorkflowFork, in)
	case end.err != nil:
		return contract.ForkOut{}, end.err
	case run.clock.expired:
		end = loopEnd{reason: domain.FinishFailed, code: "time_limit", message: "its time was over"}
	}

	err := endFork(ctx, in.LoopID, end)

	return contract.ForkOut{Stopped: end.reason == domain.FinishInterrupted && ctx.Err() == nil}, err
}

// forkRun carries the loop of a sub-agent. It implements waiter.
type forkRun struct {
	loop
	received int    // number of the last Resume signal from its parent
	works    string // its details for operators
}

// awaitAnswer waits, at no cost, until an answer may have come. The sub-agent's time
// limit is suspended in the meantime.
func (f *forkRun) awaitAnswer(ctx workflow.Context, asked bool) (answered bool, end *loopEnd) {
	now, err := contract.PauseFork.Local(ctx, contract.PauseForkIn{LoopID: f.id, Asked: asked, Children: f.waitingForks() > 0})
	switch {
	case err != nil:
		end := f.failure(err)
		return false, &end
	case now.State == contract.Closed:
		return false, &loopEnd{reason: domain.FinishInterrupted}
	case now.State == contract.Answered:
		return true, nil
	}

	notifySlotWaiters(ctx, now.Next)

	if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
		workflow.SignalExternalWorkflow(ctx, parent.ID, "", contract.Asked.Name, contract.AskedFork{LoopID: f.id, Heard: f.received})
	}

	f.clock.stop()
	defer f.clock.start(ctx)

	workflow.SetCurrentDetails(ctx, f.works+" waits for an answer")
	defer workflow.SetCurrentDetails(ctx, f.works)

	if err := workflow.Await(ctx, func() bool { return f.notified(ctx) }); err != nil {
		end := f.failure(err)
		return false, &end
	}

	f.drainSignals(ctx)

	return false, nil
}

// slotPoll is how long a sub-agent waits for the signal that a slot may be free before
// it looks without one.
const slotPoll = 15 * time.Second

func (f *forkRun) awaitSlot(ctx workflow.Context) error {
	f.clock.stop()
	defer f.clock.start(ctx)

	workflow.SetCurrentDetails(ctx, f.works+" waits until another sub-agent of the chat has ended")
	defer workflow.SetCurrentDetails(ctx, f.works)

	_, err := workflow.AwaitWithTimeout(ctx, slotPoll, func() bool { return f.notified(ctx) })
	f.drainSignals(ctx)

	return err
}

func (f *forkRun) notified(ctx workflow.Context) bool { return contract.Resume.Waiting(ctx) }

func (f *forkRun) drainSignals(ctx workflow.Context) {
	for contract.Resume.Waiting(ctx) {
		f.received = max(f.received, contract.Resume.Receive(ctx).Number)
	}
}

// clock measures how long a sub-agent works, and ends what takes too long. A nil
// clock measures nothing.
type clock struct {
	left    time.Duration
	expire  workflow.CancelFunc
	expired bool

	began time.Time
	now   func() time.Time
	halt  workflow.CancelFunc
}

func (c *clock) start(ctx workflow.Context) {
	if c == nil || c.expired || ctx.Err() != nil {
		return
	}

	c.now = func() time.Time { return workflow.Now(ctx) }
	c.began = c.now()
	ctx, c.halt = workflow.WithCancel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := workflow.Sleep(ctx, c.left); err == nil {
			c.expired = true
			c.expire()
		}
	})
}

func (c *clock) stop() {
	if c == nil || c.halt == nil {
		return
	}

	c.left = max(0, c.left-c.now().Sub(c.began))
	c.halt()
	c.halt = nil
}
