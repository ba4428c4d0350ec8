package workflows

import (
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
	who       string // for messages: chat or sub-agent
	sessionID string
	chatID    string
	id        string // domain.RootLoop, or the sub-agent's
	taskID    string // the background task that it belongs to, if any
	step      int    // model calls made
	maxSteps  int
	stopped   bool
	forks     map[string]*openFork // its sub-agents, by their loop

	// await waits while nothing but an answer can move the loop; asked says that
	// it has questions of its own, answered that these are resolved.
	await func(ctx workflow.Context, asked bool) (out outcome, answered, over bool)
	// awaitSlot waits until another sub-agent may have ended.
	awaitSlot func(ctx workflow.Context) error
	// told reports whether the loop was told that answers may have come, and hear
	// takes that in.
	told func(ctx workflow.Context) bool
	hear func(ctx workflow.Context)
}

// outcome says how a loop came to its end, or what the run does next.
type outcome struct {
	reason  domain.FinishReason
	code    string
	message string

	closed bool // the chat has ended already: by its last turn, a message, a stop or a rewind
	longer bool // the same loop goes on in a new run, this history is long enough
	next   bool // another chat is queued
	err    error
}

// unfinished reports whether the end has yet to be written to the records.
func (o outcome) unfinished() bool { return o.err == nil && !o.closed && !o.longer }

// run is the agent loop: call the model, run the tools that it asks for, and
// again, until it asks for none.
func (l *loop) run(ctx workflow.Context) outcome {
	for {
		if out, over := l.checkLimits(ctx); over {
			return out
		}
		turn, err := l.callModel(ctx)
		switch {
		case err != nil:
			return l.failure(err)
		case turn.Ended:
			return ended(ctx, turn)
		case turn.Stopped:
			return outcome{reason: domain.FinishInterrupted}
		case turn.Finish != "":
			return outcome{reason: turn.Finish, code: string(turn.Finish), message: turn.Message}
		case turn.Mismatch:
			return outcome{reason: domain.FinishSchemaMismatch, code: "schema_mismatch", message: "no answer followed the output_schema"}
		case turn.Behind:
			l.step-- // the model call itself is still to be made
		case !turn.Again:
			return outcome{reason: domain.FinishCompleted}
		}
		if out, over := l.act(ctx, turn); over {
			return out
		}
	}
}

// checkLimits says whether the loop may make another model call.
func (l *loop) checkLimits(ctx workflow.Context) (outcome, bool) {
	switch {
	case l.stopped:
		return outcome{reason: domain.FinishInterrupted}, true
	case l.step >= l.maxSteps:
		return outcome{reason: domain.FinishMaxSteps, code: "max_steps",
			message: fmt.Sprintf("the %s made %d model calls, which is the limit", l.who, l.maxSteps)}, true
	case workflow.GetInfo(ctx).GetContinueAsNewSuggested():
		return outcome{longer: true}, true
	default:
		return outcome{}, false
	}
}

// callModel makes the next model call, as one assistant turn.
func (l *loop) callModel(ctx workflow.Context) (contract.CallModelOut, error) {
	l.step++
	call := contract.CallModelIn{SessionID: l.sessionID, ChatID: l.chatID, LoopID: l.id, Step: l.step, TaskID: l.taskID}
	for {
		turn, err := contract.CallModel.Run(ctx, call, fmt.Sprintf("Model call %d", l.step))
		switch {
		case err != nil:
		case turn.Queued:
			err = l.awaitSlot(ctx)
		case turn.Compact != "":
			call, turn.Stopped, err = l.compactContext(ctx, call, turn.Compact)
		default:
			return turn, nil
		}
		if err != nil || turn.Stopped {
			return turn, err
		}
	}
}

// act carries out what a turn asks for: its tools and sub-agents finish first,
// then questions hold the loop until they are resolved, its own and those of its
// sub-agents.
func (l *loop) act(ctx workflow.Context, turn contract.CallModelOut) (outcome, bool) {
	work := l.start(ctx, turn.Calls)
	asked := turn.Asked > 0
	for {
		l.settle(ctx, work)
		switch {
		case work.failed != nil:
			l.abandon(ctx, work)
			return l.failure(work.failed), true
		case work.left > 0 && (l.stopped || ctx.Err() != nil):
			l.abandon(ctx, work)
			return outcome{reason: domain.FinishInterrupted}, true
		case work.left == 0 && !asked:
			return outcome{}, false
		}
		out, answered, over := l.await(ctx, asked)
		if over {
			l.abandon(ctx, work)
			return out, true
		}
		asked = asked && !answered
		l.resumeForks(ctx)
	}
}

// failure turns an activity's error into the end of the loop.
func (l *loop) failure(err error) outcome {
	if l.stopped || temporal.IsCanceledError(err) {
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
