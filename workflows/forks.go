package workflows

import (
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// openFork is a sub-agent of a loop whose run is open.
type openFork struct {
	started bool // it can be signalled
	waiting bool // only an answer can move it
	resumed int  // number of the last Resume signal that it was sent
}

// forkAttributes returns the search attributes of a sub-agent's run: those of the run that starts
// it, which works for the same session.
func forkAttributes(ctx workflow.Context) temporal.SearchAttributes {
	attributes := durable.AttributesOf(workflow.GetTypedSearchAttributes(ctx))
	attributes.Kind, attributes.ChatStatus = "fork", "running"

	return attributes.Typed()
}

// runFork starts the child workflow of a sub-agent's call, and waits for its end.
func (l *loop) runFork(ctx workflow.Context, call contract.ToolCall) error {
	l.receiveAsked(ctx)

	fork := &openFork{}

	l.forks[call.ID] = fork
	defer delete(l.forks, call.ID)

	options := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: durable.ForkWorkflowID(string(l.chatID), call.ID), StaticSummary: call.Summary,
		StaticDetails: fmt.Sprintf("Sub-agent %s of chat %s, session %s", call.ID, l.chatID, l.sessionID),
		// Whatever ends this run ends its sub-agents: the chat closes them in the database.
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_TERMINATE, WaitForCancellation: true,
		TypedSearchAttributes: forkAttributes(ctx),
	})

	var out contract.ForkOut

	child := workflow.ExecuteChildWorkflow(options, contract.WorkflowFork, contract.ForkInput{
		SessionID: l.sessionID, ChatID: l.chatID, LoopID: call.ID, Title: call.Summary, Fork: *call.Fork, TaskID: l.taskID,
	})
	fork.started = child.GetChildWorkflowExecution().Get(ctx, nil) == nil
	err := child.Get(ctx, &out)
	l.stopped = l.stopped || out.Stopped

	if err == nil {
		return nil
	}
	// Its run could not report, so this one does.
	end := loopEnd{reason: domain.FinishFailed, code: domain.CodeRunLost, message: "its run was lost"}
	if temporal.IsCanceledError(err) {
		end = loopEnd{reason: domain.FinishInterrupted}
	}

	return endFork(ctx, call.ID, end)
}

// endFork ends a sub-agent in the database, also when the run was cancelled, and
// signals those that wait for its slot.
func endFork(ctx workflow.Context, loopID string, end loopEnd) error {
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()

	out, err := contract.EndFork.Local(ctx, contract.EndForkIn{
		LoopID: loopID, Reason: end.reason, Code: end.code, Message: end.message,
	})
	if err == nil {
		notifySlotWaiters(ctx, out.Next)
	}

	return err
}

// notifySlotWaiters signals runs that wait for a slot, also when this run was cancelled.
// It waits for delivery because the server drops signals of closed workflows. A run
// that is gone needs none, and one that misses the signal looks after slotPoll.
func notifySlotWaiters(ctx workflow.Context, runs []string) {
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()

	var signals []workflow.Future
	for _, id := range runs {
		signals = append(signals, workflow.SignalExternalWorkflow(ctx, id, "", contract.Resume.Name, contract.ResumeFork{}))
	}

	for _, signal := range signals {
		_ = signal.Get(ctx, nil)
	}
}

// receiveAsked notes, from the first sub-agent on, which of them wait for answers.
func (l *loop) receiveAsked(ctx workflow.Context) {
	if l.forks != nil {
		return
	}

	l.forks = map[string]*openFork{}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			asked := contract.Asked.Receive(ctx)
			if fork := l.forks[asked.LoopID]; fork != nil && asked.Heard >= fork.resumed {
				fork.waiting = true
			}
		}
	})
}

// waitingForks counts the sub-agents that only an answer can move.
func (l *loop) waitingForks() (n int) {
	//workflowcheck:ignore a count does not depend on the order
	for _, fork := range l.forks {
		if fork.waiting {
			n++
		}
	}

	return n
}

// resumeForks makes every open sub-agent look again: those that still wait report it
// once more. One that has not started yet would miss the signal, and needs none.
func (l *loop) resumeForks(ctx workflow.Context) {
	for _, id := range workflow.DeterministicKeys(l.forks) {
		fork := l.forks[id]
		if !fork.started {
			continue
		}

		fork.waiting = false
		fork.resumed++
		workflow.SignalExternalWorkflow(ctx, durable.ForkWorkflowID(string(l.chatID), id), "", contract.Resume.Name,
			contract.ResumeFork{Number: fork.resumed})
	}
}
