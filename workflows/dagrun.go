package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/internal/durable"
)

// DAGRun carries a run of a DAG. The database decides which nodes begin, and holds what
// goes in and comes out; this run has them begun and stopped, side by side, and waits at no
// cost for the ends of their chats, of subflows, and of pauses.
func DAGRun(ctx workflow.Context, in contract.DAGRunInput) error {
	workflow.SetCurrentDetails(ctx, "run "+in.RunID+" of a DAG")

	run := &dagRun{open: map[string]bool{}}
	for run.err == nil {
		contract.ChatEnded.Drain(ctx)

		run.again = false

		out, err := contract.AdvanceDAGRun.Run(ctx, in, "Take the next steps")
		if err != nil {
			return err
		}

		if out.Ended {
			return nil
		}

		for _, node := range out.Stop {
			run.do(ctx, contract.StopDAGNode, "Stop node %s, attempt %d", node)
		}

		for _, node := range out.Begin {
			run.do(ctx, contract.BeginDAGNode, "Begin node %s, attempt %d", node)
		}

		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return run.continued(ctx, in)
		}

		if err := run.wait(ctx, out.WakeMS); err != nil {
			return err
		}
	}

	return run.err
}

// dagRun is what a run of a DAG has under way.
type dagRun struct {
	open  map[string]bool // nodes that are being begun or stopped
	again bool            // the run has to be advanced
	err   error
}

// do begins or stops a node beside the others.
func (r *dagRun) do(ctx workflow.Context, step durable.Activity[contract.DAGNodeInput, contract.DAGNodeOut], title string,
	node contract.DAGNodeInput,
) {
	key := fmt.Sprintf("%s %s %d", step.Name, node.ID, node.Attempt)
	if r.open[key] {
		return
	}

	r.open[key] = true

	workflow.Go(ctx, func(ctx workflow.Context) {
		out, err := step.Run(ctx, node, fmt.Sprintf(title, node.NodeID, node.Attempt))

		delete(r.open, key)

		r.again = r.again || out.Advance
		if err != nil {
			r.err = err
		}
	})
}

// wait waits until there may be something to do.
func (r *dagRun) wait(ctx workflow.Context, wakeMS int64) error {
	due := func() bool { return r.again || r.err != nil || contract.ChatEnded.Waiting(ctx) }
	if wakeMS == 0 {
		return workflow.Await(ctx, due)
	}

	_, err := workflow.AwaitWithTimeout(ctx, time.Duration(wakeMS)*time.Millisecond, due)

	return err
}

// continued goes on in a new run once nothing is under way. Signals that came meanwhile
// stand for nothing that its first step does not see.
func (r *dagRun) continued(ctx workflow.Context, in contract.DAGRunInput) error {
	if err := workflow.Await(ctx, func() bool { return len(r.open) == 0 || r.err != nil }); err != nil {
		return err
	}

	if r.err != nil {
		return r.err
	}

	contract.ChatEnded.Drain(ctx)

	return continueAsNew(ctx, contract.WorkflowDAGRun, in)
}
