package workflows

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// openFork is a sub-agent of a loop whose run is open.
type openFork struct {
	started bool // it can be told something
	asking  bool // nothing but an answer can move it
	told    int  // the last Resume it was sent
}

// runFork has a sub-agent's own run carry out a call, and waits for its end.
func (l *loop) runFork(ctx workflow.Context, call contract.ToolCall) error {
	l.listen(ctx)
	fork := &openFork{}
	l.forks[call.ID] = fork
	defer delete(l.forks, call.ID)
	options := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: durable.ForkWorkflowID(l.chatID, call.ID), StaticSummary: call.Summary,
		// Whatever ends this run ends its sub-agents: the records are closed with the chat.
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_TERMINATE, WaitForCancellation: true,
		TypedSearchAttributes: temporal.NewSearchAttributes(durable.SessionID.ValueSet(l.sessionID), durable.Kind.ValueSet("fork")),
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
	end := outcome{reason: domain.FinishFailed, code: "run_lost", message: "its run was lost"}
	if temporal.IsCanceledError(err) {
		end = outcome{reason: domain.FinishInterrupted}
	}
	return endFork(ctx, call.ID, end)
}

// endFork ends a sub-agent in the records, also when the run was cancelled, and
// tells those that waited for its slot.
func endFork(ctx workflow.Context, loopID string, end outcome) error {
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	out, err := contract.EndFork.Local(ctx, contract.EndForkIn{
		LoopID: loopID, Reason: end.reason, Code: end.code, Message: end.message,
	})
	if err == nil {
		nudge(ctx, out.Next)
	}
	return err
}

// nudge tells runs that a slot may be free, also when this one was cancelled. The
// server drops the word of a run that has closed, so it is waited for. A run that
// is gone needs none, and one that misses it looks by itself a little later.
func nudge(ctx workflow.Context, runs []string) {
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	var told []workflow.Future
	for _, id := range runs {
		told = append(told, workflow.SignalExternalWorkflow(ctx, id, "", contract.Resume.Name, contract.ResumeFork{}))
	}
	for _, word := range told {
		_ = word.Get(ctx, nil)
	}
}

// listen hears, from the first sub-agent on, which of them wait for answers.
func (l *loop) listen(ctx workflow.Context) {
	if l.forks != nil {
		return
	}
	l.forks = map[string]*openFork{}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			asked := contract.Asked.Receive(ctx)
			if fork := l.forks[asked.LoopID]; fork != nil && asked.Heard >= fork.told {
				fork.asking = true
			}
		}
	})
}

// asking counts the sub-agents that nothing but an answer can move.
func (l *loop) asking() (n int) {
	for _, fork := range l.forks {
		if fork.asking {
			n++
		}
	}
	return n
}

// resumeForks has every open sub-agent look again: those that still wait say so
// once more. One that is not there yet would miss the word, and needs none.
func (l *loop) resumeForks(ctx workflow.Context) {
	for _, id := range workflow.DeterministicKeys(l.forks) {
		fork := l.forks[id]
		if !fork.started {
			continue
		}
		fork.asking = false
		fork.told++
		workflow.SignalExternalWorkflow(ctx, durable.ForkWorkflowID(l.chatID, id), "", contract.Resume.Name,
			contract.ResumeFork{Number: fork.told})
	}
}
