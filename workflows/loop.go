package workflows

import (
	"cmp"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// loop is one agent loop: the main one of a chat, or that of a sub-agent. It is
// what a run remembers between two steps.
type loop struct {
	name      string // for messages: chat or sub-agent
	sessionID domain.SessionID
	chatID    domain.ChatID
	id        string // domain.RootLoop, or the sub-agent's
	taskID    string // the background task that it belongs to, if any
	step      int    // model calls made
	maxSteps  int
	stopped   bool
	forks     map[string]*openFork // its sub-agents, by their loop
	clock     *clock               // of a sub-agent: how long it may work

	waiter waiter
}

// waiter is how a loop waits for what is not its own work. A chat and a sub-agent
// differ in it.
type waiter interface {
	// awaitAnswer waits while only an answer can move the loop; asked reports that the
	// loop has questions of its own. It returns whether these are resolved, or the end
	// of the loop.
	awaitAnswer(ctx workflow.Context, asked bool) (answered bool, end *loopEnd)
	// awaitSlot waits until another sub-agent may have ended.
	awaitSlot(ctx workflow.Context) error
	// notified reports whether a signal came after which to look for answers again.
	notified(ctx workflow.Context) bool
	// drainSignals receives those signals.
	drainSignals(ctx workflow.Context)
}

// loopEnd says how a loop came to its end.
type loopEnd struct {
	reason  domain.FinishReason
	code    string
	message string

	closed    bool // the chat has ended already: by its last turn, a message, a stop or a rewind
	continued bool // the same loop continues in a new run, this history is long enough
	next      bool // another chat is queued
	err       error
}

// unfinished reports whether the end is not in the database yet.
func (e loopEnd) unfinished() bool { return e.err == nil && !e.closed && !e.continued }

// run returns the agent loop: call the model and run the tools that it asks for, until it
// asks for none.
func (l *loop) run(ctx workflow.Context) loopEnd {
	for {
		if end := l.checkLimits(ctx); end != nil {
			return *end
		}

		step, err := l.callModel(ctx)
		switch {
		case errors.Is(err, errLongHistory):
			return loopEnd{continued: true}
		case err != nil:
			return l.failure(err)
		}

		if end := l.endAfter(ctx, step); end != nil {
			return *end
		}

		if end := l.act(ctx, step); end != nil {
			return *end
		}
	}
}

// checkLimits returns the end of a loop that may not make another model call.
func (l *loop) checkLimits(ctx workflow.Context) *loopEnd {
	switch {
	case l.stopped:
		return &loopEnd{reason: domain.FinishInterrupted}
	case l.step >= l.maxSteps:
		return &loopEnd{
			reason: domain.FinishMaxSteps, code: "max_steps",
			message: fmt.Sprintf("the %s made %d model calls, which is the limit", l.name, l.maxSteps),
		}
	case workflow.GetInfo(ctx).GetContinueAsNewSuggested():
		return &loopEnd{continued: true}
	default:
		return nil
	}
}

// callModel makes the next model call, as one assistant turn. It waits, or has recordings
// transcribed or the history compacted, until the call was made or the loop ends without it.
func (l *loop) callModel(ctx workflow.Context) (contract.CallModelOut, error) {
	l.step++

	call := contract.CallModelIn{SessionID: l.sessionID, ChatID: l.chatID, LoopID: l.id, Step: l.step, TaskID: l.taskID}
	transcriptions := 0

	for {
		step, err := contract.CallModel.Run(ctx, call, fmt.Sprintf("Model call %d", l.step))
		if err != nil {
			return step, err
		}

		stopped := false

		switch step.Outcome {
		case contract.OutcomeQueued:
			err = l.waiter.awaitSlot(ctx)
		case contract.OutcomeRetryLater:
			stopped, err = l.awaitModel(ctx, *step.Wait)
		case contract.OutcomeNeedsCompaction:
			call, stopped, err = l.compactContext(ctx, call, step.Compact)
		case contract.OutcomeNeedsTranscription:
			transcriptions++
			stopped, err = l.transcribe(ctx, step.Recordings, transcriptions)
		default:
			return step, nil
		}

		switch {
		case errors.Is(err, errLongHistory):
			l.step-- // the next run makes this call
			return step, err
		case err != nil:
			return step, err
		case stopped:
			return contract.CallModelOut{Outcome: contract.OutcomeStopped}, nil
		}
	}
}

// endAfter returns the end of the loop if the step was its last one; nil: its calls
// must be carried out, then the model is called again.
func (l *loop) endAfter(ctx workflow.Context, step contract.CallModelOut) *loopEnd {
	switch step.Outcome {
	case contract.OutcomeContinue:
		return nil
	case contract.OutcomePendingCalls:
		l.step-- // the model call itself is still to be made
		return nil
	case contract.OutcomeCompleted:
		return &loopEnd{reason: domain.FinishCompleted}
	case contract.OutcomeStopped:
		return &loopEnd{reason: domain.FinishInterrupted}
	case contract.OutcomeLimitReached:
		return &loopEnd{reason: step.Reason, code: string(step.Reason), message: step.Message}
	case contract.OutcomeSchemaMismatch:
		return &loopEnd{
			reason: domain.FinishSchemaMismatch, code: "schema_mismatch",
			message: cmp.Or(step.Message, "no answer followed the output_schema"),
		}
	case contract.OutcomeChatEnded:
		setStatus(ctx, string(step.Reason), string(step.Reason))
		return &loopEnd{closed: true, next: step.Next}
	default:
		// The workflow task fails and is retried, by a worker that knows the outcome
		// once there is one.
		panic(fmt.Sprintf("outcome %q is not known to this version", step.Outcome))
	}
}

// act carries out what a step asks for: its tools and sub-agents finish first, then
// questions hold the loop until they are resolved, its own and those of its
// sub-agents.
func (l *loop) act(ctx workflow.Context, step contract.CallModelOut) *loopEnd {
	work := l.start(ctx, step)
	asked := step.Asked > 0

	for {
		l.settle(ctx, work)

		switch {
		case work.failed != nil:
			l.abandon(ctx, work)
			end := l.failure(work.failed)

			return &end
		case work.left > 0 && (l.stopped || ctx.Err() != nil):
			l.abandon(ctx, work)
			return &loopEnd{reason: domain.FinishInterrupted}
		case work.left == 0 && !asked:
			return nil
		}

		answered, end := l.waiter.awaitAnswer(ctx, asked)
		if end != nil {
			l.abandon(ctx, work)
			return end
		}

		asked = asked && !answered

		l.resumeForks(ctx)
	}
}

// failure turns an activity's error into the end of the loop.
func (l *loop) failure(err error) loopEnd {
	if l.stopped || temporal.IsCanceledError(err) {
		return loopEnd{reason: domain.FinishInterrupted}
	}

	end := loopEnd{reason: domain.FinishFailed, code: cmp.Or(durable.Code(err), domain.CodeInternal), message: durable.Message(err)}

	switch reason := domain.FinishReason(end.code); reason {
	case domain.FinishContextOverflow, domain.FinishContentFiltered, domain.FinishEmptyAnswer:
		end.reason = reason
	default: // the code has no finish reason of its own
	}

	return end
}
