package workflows

import (
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// maxParallelTools is how many tool calls of one turn run at once. Sub-agents
// have their own limit, which the records keep.
const maxParallelTools = 32

// turnWork is what a turn has asked for while it is carried out.
type turnWork struct {
	left   int // calls that have not ended
	failed error
	cancel workflow.CancelFunc
}

// start begins a turn's calls, in parallel.
func (l *loop) start(ctx workflow.Context, calls []contract.ToolCall) *turnWork {
	work := &turnWork{left: len(calls)}
	ctx, work.cancel = workflow.WithCancel(ctx)
	slots := workflow.NewSemaphore(ctx, maxParallelTools)
	for _, call := range calls {
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

// runTool runs one call: within the run's own worker when it is a matter of a
// moment, as an activity when it takes longer.
func (l *loop) runTool(ctx workflow.Context, call contract.ToolCall) (contract.RunToolOut, error) {
	in := contract.RunToolIn{ChatID: l.chatID, ToolCallID: call.ID, TaskID: l.taskID}
	out, err := contract.TryTool.LocalNamed(ctx, in, call.Summary)
	if err != nil || !out.Pending {
		return out, err
	}
	return contract.RunTool.Run(ctx, in, call.Summary)
}

// settle waits until every call has ended, or only answers can move those that
// have not. What the loop is told meanwhile goes on to its sub-agents. Calls are
// waited for also when the run was cancelled: they end soon then.
func (l *loop) settle(ctx workflow.Context, work *turnWork) {
	waiting, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	settled := func() bool { return work.left == l.asking() }
	told := func() bool { return len(l.forks) > 0 && l.told(waiting) }
	for !settled() {
		_ = workflow.Await(waiting, func() bool { return settled() || told() })
		if told() {
			l.hear(waiting)
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
