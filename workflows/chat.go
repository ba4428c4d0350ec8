// Package workflows decides what happens next, and nothing else: every effect is
// an activity. It reads like the specification's "What the service does".
package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// Chat carries one chat of a session from chat:start to chat:end: call the
// model, run the tools that it asks for, and again, until it asks for none. A
// question parks the run until it is answered, at no cost. The next queued
// message is the next run. What was sent, said and decided is in the records;
// the run only sees to it that things go on.
func Chat(ctx workflow.Context, in contract.ChatInput) error {
	begun, err := contract.BeginChat.Local(ctx, contract.BeginChatIn{
		SessionID: in.SessionID, RunID: workflow.GetInfo(ctx).WorkflowExecution.RunID,
	})
	if err != nil {
		return err
	}
	if begun.ChatID == "" {
		return again(ctx, in.SessionID, false)
	}
	run := &chatRun{loop{
		who: "chat", sessionID: in.SessionID, chatID: begun.ChatID, id: domain.RootLoop, step: begun.Step, maxSteps: begun.MaxSteps,
	}}
	run.await, run.told, run.hear = run.park, contract.Wake.Waiting, run.heed
	describe(ctx, begun)
	working, cancel := workflow.WithCancel(ctx)
	run.watchStop(ctx, cancel)

	outcome := run.resume(working, begun.Parked)
	for outcome.unfinished() {
		outcome = run.finish(ctx, working, outcome)
	}
	if outcome.err != nil {
		return outcome.err
	}
	if outcome.longer {
		return workflow.NewContinueAsNewError(ctx, contract.WorkflowChat, contract.ChatInput{SessionID: in.SessionID})
	}
	return again(ctx, in.SessionID, outcome.next)
}

// again takes the next chat in a new run, or closes this one. A wake that came
// meanwhile may stand for a message that this run has not seen.
func again(ctx workflow.Context, sessionID string, next bool) error {
	contract.Stop.Drain(ctx) // a stop may be told twice; the records know it anyway
	if woken := contract.Wake.Drain(ctx); next || woken {
		return workflow.NewContinueAsNewError(ctx, contract.WorkflowChat, contract.ChatInput{SessionID: sessionID})
	}
	return nil
}

// chatRun carries the main loop of a chat.
type chatRun struct{ loop }

// resume goes on where the records say that the chat is: at its next model call,
// or waiting for an answer.
func (r *chatRun) resume(ctx workflow.Context, parked bool) outcome {
	if parked {
		if out, over := r.waitForAnswer(ctx); over {
			return out
		}
	}
	return r.run(ctx)
}

// ended closes a run whose chat has ended with its last turn.
func ended(ctx workflow.Context, turn contract.CallModelOut) outcome {
	status := domain.FinishCompleted
	if turn.Stopped {
		status = domain.FinishInterrupted
	}
	setStatus(ctx, string(status), string(status))
	return outcome{closed: true, next: turn.Next}
}

// heed takes the wakes that have come.
func (r *chatRun) heed(ctx workflow.Context) { contract.Wake.Drain(ctx) }

// park ends the chat for clients until all of its questions are resolved.
func (r *chatRun) park(ctx workflow.Context, _ bool) (out outcome, answered, over bool) {
	parked, err := contract.ParkChat.Local(ctx, contract.ParkChatIn{ChatID: r.chatID})
	if err != nil {
		return outcome{err: err}, false, true
	}
	if parked.State != contract.Parked {
		return outcome{closed: true}, true, parked.State == contract.Closed
	}
	out, over = r.waitForAnswer(ctx)
	return out, true, over
}

// waitForAnswer costs nothing for as long as it takes: the run is idle until a
// wake tells it to look at its questions again.
func (r *chatRun) waitForAnswer(ctx workflow.Context) (outcome, bool) {
	setStatus(ctx, "waiting for an answer", "awaiting_answer")
	for {
		contract.Wake.Receive(ctx)
		now, err := contract.CheckChat.Local(ctx, contract.CheckChatIn{ChatID: r.chatID})
		switch {
		case err != nil:
			return outcome{err: err}, true
		case now.State == contract.Closed:
			return outcome{closed: true, next: true}, true
		case now.State == contract.Answered:
			setStatus(ctx, "running", "running")
			return outcome{}, false
		}
	}
}

// finish ends the chat in the records. A message steered in at the last moment
// makes the loop go on instead.
func (r *chatRun) finish(ctx, working workflow.Context, end outcome) outcome {
	// The chat is ended also when the run was cancelled.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	out, err := contract.FinishChat.Local(ctx, contract.FinishChatIn{
		ChatID: r.chatID, Reason: end.reason, Code: end.code, Message: end.message,
	})
	if err != nil {
		return outcome{err: err}
	}
	if out.More {
		return r.run(working)
	}
	setStatus(ctx, string(end.reason), string(end.reason))
	return outcome{closed: true, next: out.Next}
}

// stopGrace is how long running work is given to end by the word that it was
// stopped, which the bus brings within milliseconds, before it is cancelled. A
// model call that waits for its next try hears no bus and ends then.
const stopGrace = 500 * time.Millisecond

// watchStop hears the stop of this chat. Work that runs is told by the bus, and
// keeps what it has done; work that does not listen, because its worker is gone,
// is cancelled a little later.
func (r *chatRun) watchStop(ctx workflow.Context, cancel workflow.CancelFunc) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		for ctx.Err() == nil && !r.stopped {
			r.stopped = contract.Stop.Receive(ctx).ChatID == r.chatID
		}
		if err := workflow.Sleep(ctx, stopGrace); err == nil {
			cancel()
		}
	})
}

// describe tells operators what this run is about. The first run's search
// attributes come with its start.
func describe(ctx workflow.Context, begun contract.BeginChatOut) {
	details := fmt.Sprintf("%s\n\nchat %s, mode %s", begun.Title, begun.ChatID, begun.Mode)
	if workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
		workflow.SetCurrentDetails(ctx, details)
		return
	}
	setStatus(ctx, details, "running")
}

func setStatus(ctx workflow.Context, details, status string) {
	workflow.SetCurrentDetails(ctx, details)
	_ = workflow.UpsertTypedSearchAttributes(ctx, durable.ChatStatus.ValueSet(status))
}
