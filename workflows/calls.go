package workflows

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// turnWork is the open calls of a turn.
type turnWork struct {
	left   int // calls that have not ended
	failed error
	cancel workflow.CancelFunc
}

// start starts the calls of a step, in parallel.
func (l *loop) start(ctx workflow.Context, step contract.CallModelOut) *turnWork {
	work := &turnWork{left: len(step.Calls)}
	ctx, work.cancel = workflow.WithCancel(ctx)

	slots := workflow.NewSemaphore(ctx, int64(cmp.Or(step.Parallel, contract.DefaultParallelTools)))
	for _, call := range step.Calls {
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { work.left-- }()

			if err := l.carryOut(ctx, slots, call); err != nil && work.failed == nil {
				work.failed = err
			}
		})
	}

	return work
}

func (l *loop) carryOut(ctx workflow.Context, slots workflow.Semaphore, call contract.ToolCall) error {
	if call.Fork != nil {
		return l.runFork(ctx, call)
	}

	if err := slots.Acquire(ctx, 1); err != nil || l.stopped {
		return nil
	}
	defer slots.Release(1)

	out, err := l.runTool(ctx, call)
	l.stopped = l.stopped || out.Stopped

	return err
}

// runTool runs one call: as a local activity when it is short, as an activity when it
// takes longer.
func (l *loop) runTool(ctx workflow.Context, call contract.ToolCall) (contract.RunToolOut, error) {
	in := contract.RunToolIn{ChatID: l.chatID, ToolCallID: call.ID, TaskID: l.taskID}

	out, err := contract.TryTool.LocalNamed(ctx, in, call.Summary)
	if err != nil || !out.Pending {
		return out, err
	}

	return contract.RunTool.Run(ctx, in, call.Summary)
}

// settle waits until every call has ended, or only answers can move those that have
// not. Signals that come in the meantime are passed on to the sub-agents. It waits also when
// the run was cancelled: calls end soon then.
func (l *loop) settle(ctx workflow.Context, work *turnWork) {
	waiting, done := workflow.NewDisconnectedContext(ctx)
	defer done()

	settled := func() bool { return work.left == l.waitingForks() }
	notified := func() bool { return len(l.forks) > 0 && l.waiter.notified(waiting) }

	for !settled() {
		_ = workflow.Await(waiting, func() bool { return settled() || notified() })
		if notified() {
			l.waiter.drainSignals(waiting)
			l.resumeForks(ctx)
		}
	}
}

// abandon cancels what has not ended and waits for its end.
func (l *loop) abandon(ctx workflow.Context, work *turnWork) {
	work.cancel()

	waiting, done := workflow.NewDisconnectedContext(ctx)
	defer done()

	_ = workflow.Await(waiting, func() bool { return work.left == 0 })
}
