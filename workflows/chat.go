// Package workflows decides what happens next, and nothing else: every effect is
// an activity. It reads like the specification's "What the service does".
package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
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
	run := &chatRun{sessionID: in.SessionID, chatID: begun.ChatID, step: begun.Step, maxSteps: begun.MaxSteps}
	describe(ctx, begun)
	working, cancel := workflow.WithCancel(ctx)
	run.watchStop(ctx, cancel)

	outcome := run.loop(working, begun.Parked)
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

// chatRun is what a run remembers between two steps.
type chatRun struct {
	sessionID string
	chatID    string
	step      int // model calls made
	maxSteps  int
	stopped   bool
}

// outcome says how a loop came to its end, or what the run does next.
type outcome struct {
	reason  domain.FinishReason
	code    string
	message string

	closed bool // the chat has ended already: by a message, a stop or a rewind
	longer bool // the same chat goes on in a new run, this history is long enough
	next   bool // another chat is queued
	err    error
}

// unfinished reports whether the chat has yet to be ended in the records.
func (o outcome) unfinished() bool { return o.err == nil && !o.closed && !o.longer }

// loop is the agent loop: call the model, run its tools, and again.
func (r *chatRun) loop(ctx workflow.Context, parked bool) outcome {
	if parked {
		if out, over := r.waitForAnswer(ctx); over {
			return out
		}
	}
	for {
		if r.stopped {
			return outcome{reason: domain.FinishInterrupted}
		}
		if r.step >= r.maxSteps {
			return outcome{reason: domain.FinishMaxSteps, code: "max_steps",
				message: fmt.Sprintf("the chat made %d model calls, which is the limit", r.maxSteps)}
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return outcome{longer: true}
		}
		r.step++
		turn, err := contract.CallModel.Run(ctx, contract.CallModelIn{
			SessionID: r.sessionID, ChatID: r.chatID, LoopID: domain.RootLoop, Step: r.step,
		}, fmt.Sprintf("Model call %d", r.step))
		switch {
		case err != nil:
			return r.failure(err)
		case turn.Ended:
			return r.ended(ctx, turn)
		case turn.Stopped:
			return outcome{reason: domain.FinishInterrupted}
		case turn.Mismatch:
			return outcome{reason: domain.FinishSchemaMismatch, code: "schema_mismatch", message: "no answer followed the output_schema"}
		case !turn.Again:
			return outcome{reason: domain.FinishCompleted}
		}
		if err := r.runTools(ctx, turn.Calls); err != nil {
			return r.failure(err)
		}
		if turn.Asked > 0 {
			if out, over := r.park(ctx); over {
				return out
			}
		}
	}
}

// ended closes a run whose chat has ended with its last turn.
func (r *chatRun) ended(ctx workflow.Context, turn contract.CallModelOut) outcome {
	status := domain.FinishCompleted
	if turn.Stopped {
		status = domain.FinishInterrupted
	}
	setStatus(ctx, string(status), string(status))
	return outcome{closed: true, next: turn.Next}
}

// maxParallelTools is how many tool calls of one turn run at once.
const maxParallelTools = 32

// runTools runs a turn's calls in parallel and waits for all of them.
func (r *chatRun) runTools(ctx workflow.Context, calls []contract.ToolCall) error {
	var failed error
	slots := workflow.NewSemaphore(ctx, maxParallelTools)
	all := workflow.NewWaitGroup(ctx)
	for _, call := range calls {
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			if err := slots.Acquire(ctx, 1); err != nil || r.stopped {
				return
			}
			defer slots.Release(1)
			out, err := r.runTool(ctx, call)
			if err != nil && failed == nil {
				failed = err
			}
			r.stopped = r.stopped || out.Stopped
		})
	}
	all.Wait(ctx)
	return failed
}

// runTool runs one call: within the run's own worker when it is a matter of a
// moment, as an activity when it takes longer.
func (r *chatRun) runTool(ctx workflow.Context, call contract.ToolCall) (contract.RunToolOut, error) {
	in := contract.RunToolIn{ChatID: r.chatID, ToolCallID: call.ID}
	out, err := contract.TryTool.LocalNamed(ctx, in, call.Summary)
	if err != nil || !out.Pending {
		return out, err
	}
	return contract.RunTool.Run(ctx, in, call.Summary)
}

// park ends the chat for clients until its questions are resolved.
func (r *chatRun) park(ctx workflow.Context) (outcome, bool) {
	out, err := contract.ParkChat.Local(ctx, contract.ParkChatIn{ChatID: r.chatID})
	if err != nil {
		return outcome{err: err}, true
	}
	if out.State != contract.Parked {
		return outcome{closed: true}, out.State == contract.Closed
	}
	return r.waitForAnswer(ctx)
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
		return r.loop(working, false)
	}
	setStatus(ctx, string(end.reason), string(end.reason))
	return outcome{closed: true, next: out.Next}
}

// failure turns an activity's error into the end of the chat.
func (r *chatRun) failure(err error) outcome {
	if r.stopped || temporal.IsCanceledError(err) {
		return outcome{reason: domain.FinishInterrupted}
	}
	code := durable.Code(err)
	if code == "context_overflow" {
		return outcome{reason: domain.FinishContextOverflow, code: code, message: durable.Message(err)}
	}
	if code == "" {
		code = "internal_error"
	}
	return outcome{reason: domain.FinishFailed, code: code, message: durable.Message(err)}
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
