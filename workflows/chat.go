// Package workflows decides what happens next, and nothing else: every effect is an
// activity.
package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// Chat carries one chat of a session from chat:start to chat:end: it calls the model
// and runs the tools that it asks for, until it asks for none. While a question is
// open the run is idle, at no cost. The next queued message is the next run. What was
// sent, answered and decided is in the database; the workflow only drives progress.
func Chat(ctx workflow.Context, in contract.ChatInput) error {
	begun, err := contract.BeginChat.Local(ctx, contract.BeginChatIn{
		SessionID: in.SessionID, RunID: workflow.GetInfo(ctx).WorkflowExecution.RunID,
	})
	if err != nil {
		return err
	}

	if begun.ChatID == "" {
		return takeNext(ctx, in.SessionID, false)
	}

	run := &chatRun{root: ctx, loop: loop{
		name: "chat", sessionID: in.SessionID, chatID: begun.ChatID, id: domain.RootLoop, step: begun.Step, maxSteps: begun.MaxSteps,
	}}
	run.waiter = run

	describe(ctx, begun)
	working, cancel := workflow.WithCancel(ctx)
	run.watchStop(ctx, cancel)

	end := run.resume(working, begun)
	for end.unfinished() {
		end = run.finish(ctx, working, end)
	}

	switch {
	case end.err != nil:
		return end.err
	case end.continued:
		return continueAsNew(ctx, contract.WorkflowChat, contract.ChatInput{SessionID: in.SessionID})
	default:
		return takeNext(ctx, in.SessionID, end.next)
	}
}

// takeNext takes the next chat in a new run, or closes this one. A wake signal that
// came in the meantime may stand for a message that this run has not seen.
func takeNext(ctx workflow.Context, sessionID domain.SessionID, next bool) error {
	contract.Stop.Drain(ctx) // duplicate stop signals are harmless: the database holds the flag

	if woken := contract.Wake.Drain(ctx); next || woken {
		return continueAsNew(ctx, contract.WorkflowChat, contract.ChatInput{SessionID: sessionID})
	}

	return nil
}

// chatRun carries the main loop of a chat. It implements waiter.
type chatRun struct {
	loop
	root workflow.Context // cancelled by an operator
}

// resume continues where the chat is: waiting for the init script of its session, at its
// next model call, or waiting for an answer.
func (r *chatRun) resume(ctx workflow.Context, begun contract.BeginChatOut) loopEnd {
	if begun.InitTask != "" {
		if err := r.awaitInitScript(ctx, begun.InitTask); err != nil {
			return r.failure(err)
		}
	}

	if begun.Parked {
		if end := r.awaitWake(ctx); end != nil {
			return *end
		}
	}

	return r.run(ctx)
}

// awaitInitScript waits until the script has ended, however it did: the next model call
// shows that, as for every background task. A stop of the chat ends the wait, not the
// script.
func (r *chatRun) awaitInitScript(ctx workflow.Context, taskID string) error {
	before := workflow.GetCurrentDetails(ctx)
	workflow.SetCurrentDetails(ctx, before+"\n\nwaits for the init script of its session")
	defer workflow.SetCurrentDetails(ctx, before)

	ended := contract.AwaitTask.Start(ctx, contract.AwaitTaskIn{TaskID: taskID}, "Wait for the init script")
	if err := workflow.Await(ctx, func() bool { return r.stopped || ended.IsReady() }); err != nil || r.stopped {
		return err
	}

	_, err := ended.Get(ctx)

	return err
}

func (r *chatRun) notified(ctx workflow.Context) bool { return contract.Wake.Waiting(ctx) }

func (r *chatRun) drainSignals(ctx workflow.Context) { contract.Wake.Drain(ctx) }

func (r *chatRun) awaitSlot(workflow.Context) error {
	return durable.Final(domain.CodeInternal, "only sub-agents wait for a slot")
}

// awaitAnswer emits chat:end with awaiting_answer, and waits until all questions of
// the chat are resolved.
func (r *chatRun) awaitAnswer(ctx workflow.Context, _ bool) (answered bool, end *loopEnd) {
	parked, err := contract.ParkChat.Local(ctx, contract.ParkChatIn{ChatID: r.chatID, Children: r.waitingForks() > 0})
	switch {
	case err != nil:
		return false, &loopEnd{err: err}
	case parked.State == contract.Closed:
		return true, &loopEnd{closed: true}
	case parked.State == contract.Answered:
		return true, nil
	default:
		return true, r.awaitWake(ctx)
	}
}

// awaitWake waits until wake signals have come and the questions are resolved, or the
// chat has ended. The cancellation of the workflow ends the chat.
func (r *chatRun) awaitWake(ctx workflow.Context) *loopEnd {
	before := workflow.GetCurrentDetails(ctx)
	setStatus(ctx, before+"\n\nwaits for an answer of its user", "awaiting_answer")

	steps, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()

	for {
		cancelled := workflow.Await(r.root, func() bool { return contract.Wake.Waiting(ctx) }) != nil
		contract.Wake.ReceiveAsync(ctx)

		now, err := contract.CheckChat.Local(steps, contract.CheckChatIn{ChatID: r.chatID, Stop: cancelled})
		switch {
		case err != nil:
			return &loopEnd{err: err}
		case now.State == contract.Closed:
			return &loopEnd{closed: true, next: true}
		case now.State == contract.Answered:
			setStatus(ctx, before, "running")
			return nil
		}
	}
}

// finish ends the chat in the database. A message steered in at the last moment makes
// the loop continue instead.
func (r *chatRun) finish(ctx, working workflow.Context, end loopEnd) loopEnd {
	// The chat is ended also when the run was cancelled.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()

	out, err := contract.FinishChat.Local(ctx, contract.FinishChatIn{
		ChatID: r.chatID, Reason: end.reason, Code: end.code, Message: end.message,
	})
	if err != nil {
		return loopEnd{err: err}
	}

	if out.More {
		return r.run(working)
	}

	setStatus(ctx, string(end.reason), string(end.reason))

	return loopEnd{closed: true, next: out.Next}
}

// stopGrace is how long running work is given to end by the broadcast stop, which
// arrives within milliseconds, before it is cancelled.
const stopGrace = 500 * time.Millisecond

// watchStop receives the stop of this chat. Running work gets it by the broadcast, and
// keeps what it has done; work that does not listen, because its worker is gone, is
// cancelled a little later.
func (r *chatRun) watchStop(ctx workflow.Context, cancel workflow.CancelFunc) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		for contract.Stop.Receive(ctx).ChatID != r.chatID {
			if ctx.Err() != nil {
				return
			}
		}

		r.stopped = true
		r.resumeForks(ctx)

		if err := workflow.Sleep(ctx, stopGrace); err == nil {
			cancel()
		}
	})
}

// describe sets what operators see of this run. The search attributes of the first run
// are set at its start.
func describe(ctx workflow.Context, begun contract.BeginChatOut) {
	details := fmt.Sprintf("chat %s, mode %s", begun.ChatID, begun.Mode)
	if workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
		workflow.SetCurrentDetails(ctx, details)
		return
	}

	setStatus(ctx, details, "running")
}

// worksIn records the session in which a run works, which is created by its first step.
func worksIn(ctx workflow.Context, sessionID domain.SessionID) {
	if sessionID != "" {
		_ = workflow.UpsertTypedSearchAttributes(ctx, durable.SessionID.ValueSet(string(sessionID)))
	}
}

func setStatus(ctx workflow.Context, details, status string) {
	workflow.SetCurrentDetails(ctx, details)
	_ = workflow.UpsertTypedSearchAttributes(ctx, durable.ChatStatus.ValueSet(status))
}
