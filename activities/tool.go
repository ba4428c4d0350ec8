package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/internal/durable"
	"everloop/internal/retry"
)

// unknownOutcome is the result that the model reads of a call whose worker died while it ran.
const unknownOutcome = "The outcome of this call is unknown: the worker was lost while it ran, and it may have taken effect in part " +
	"or in full. It was not run again. Check the current state before you continue."

// tryFor is how long TryTool waits for a call. One that takes longer is shown to
// operators as an activity of its own.
const tryFor = 400 * time.Millisecond

// heldPoll is how often a call that another worker runs is looked at.
const heldPoll = 200 * time.Millisecond

// TryTool starts one call of the ledger and waits a moment for its end. A call that
// still runs then is Pending, and goes on: RunTool waits for it. It is a fast path too.
//
// A stop is left to RunTool as well. TryTool runs without the consent of Temporal: on a
// worker that stood still and lost its run, the ledger refuses calls of a chat that
// another worker has carried on, and the run here must not end that chat.
func (a *Activities) TryTool(ctx context.Context, in contract.RunToolIn) (contract.RunToolOut, error) {
	if a.NoFastPaths {
		return contract.RunToolOut{Pending: true}, nil
	}

	running, out, err := a.begin(ctx, in)
	if err != nil || running == nil {
		return withoutStop(out), err
	}

	moment := time.NewTimer(tryFor)
	defer moment.Stop()

	select {
	case <-running.over:
		return withoutStop(running.out), running.err
	case <-moment.C:
		return contract.RunToolOut{Pending: true}, nil
	case <-ctx.Done():
		return contract.RunToolOut{}, ctx.Err()
	}
}

// withoutStop makes a stopped call one that RunTool is asked for.
func withoutStop(out contract.RunToolOut) contract.RunToolOut {
	return contract.RunToolOut{Status: out.Status, Pending: out.Pending || out.Stopped}
}

// RunTool carries out one call of the ledger, or waits for the worker that does.
// When the activity is cancelled, so is the call.
func (a *Activities) RunTool(ctx context.Context, in contract.RunToolIn) (contract.RunToolOut, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	for {
		running, out, err := a.begin(ctx, in)
		switch {
		case err != nil:
			return out, err
		case running != nil:
			select {
			case <-running.over:
			case <-ctx.Done():
				if cause := context.Cause(ctx); errors.Is(cause, durable.ErrAttemptLost) {
					return out, cause // the call goes on, and another attempt joins it
				}

				running.abort(context.Cause(ctx))
				<-running.over
			}

			if running.err != nil || !running.out.Pending {
				return running.out, running.err
			}
			// Another worker has taken it over.
		case !out.Pending:
			return out, nil
		}

		select {
		case <-time.After(heldPoll):
		case <-ctx.Done():
			return out, context.Cause(ctx)
		}
	}
}

// begin claims the call and starts it on this worker, or joins it here. Without
// a running call the answer is there already, or Pending with another worker. The
// turn that asks for a call and its run may begin it at the same moment: the ledger
// is asked once.
func (a *Activities) begin(ctx context.Context, in contract.RunToolIn) (*hostedCall, contract.RunToolOut, error) {
	type started struct {
		running *hostedCall
		out     contract.RunToolOut
	}

	got, err, _ := a.host.beginning.Do(in.ToolCallID, func() (any, error) {
		running, out, err := a.claim(ctx, in)
		return started{running, out}, err
	})

	return got.(started).running, got.(started).out, err
}

// claim is begin for one caller at a time.
//
// The ledger goes from reserved to running before anything is executed, so that
// a call which another worker started and did not finish is recognised: one that
// acts is never run again, the others simply are.
func (a *Activities) claim(ctx context.Context, in contract.RunToolIn) (*hostedCall, contract.RunToolOut, error) {
	if running := a.host.find(in.ToolCallID); running != nil {
		return running, contract.RunToolOut{}, nil
	}
	// Watch before the flag is looked at, so that no stop falls in between.
	stopped, unwatch := a.watchStop(in.ChatID, in.TaskID)

	call, state, err := a.claimCall(ctx, in.ToolCallID)
	if err == nil && (state == domain.CallClaimed || state == domain.CallAbandoned) {
		return a.start(context.WithoutCancel(ctx), call, state, stopped, unwatch), contract.RunToolOut{}, nil
	}

	unwatch()

	switch {
	case domain.HasCode(err, domain.CodeCallNotFound):
		// The database has lost the turn that asks for it, in a failover or a restore. The
		// run goes on with what there is: the model is asked again.
		return nil, contract.RunToolOut{Status: domain.CallCancelled}, nil
	case err != nil:
		return nil, contract.RunToolOut{}, err
	case state == domain.CallHeld:
		return a.host.find(in.ToolCallID), contract.RunToolOut{Pending: true}, nil // started here meanwhile, or elsewhere
	case state == domain.CallStopped:
		return nil, contract.RunToolOut{Status: domain.CallCancelled, Stopped: true}, nil
	default:
		status, err := a.Ledger.CallStatus(ctx, in.ToolCallID)
		return nil, contract.RunToolOut{Status: status}, err
	}
}

// claimLimit bounds one claim. Attempts that share it may come and go meanwhile.
const claimLimit = 10 * time.Second

// claimCall claims the call in the ledger, or finds that an earlier try of this
// process has claimed it without hearing of it.
func (a *Activities) claimCall(ctx context.Context, id string) (call domain.LedgerCall, state domain.LedgerState, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimLimit)
	defer cancel()

	err = a.host.claims.Use([]string{id}, func(nonces []string) error {
		asked := time.Now()
		call, state, err = a.Ledger.ClaimCall(ctx, id, nonces[0])
		call.AskedAt = asked

		return err
	})

	return call, state, err
}

// start runs a claimed call to its recorded end. It does not depend on the caller.
func (a *Activities) start(
	ctx context.Context, call domain.LedgerCall, state domain.LedgerState, stopped <-chan struct{}, unwatch func(),
) *hostedCall {
	reserved := a.host.reserve(ctx, call.ID, stopped, unwatch)
	a.run(reserved, call, state)

	return reserved.call
}

// run runs a claimed call in its place on this worker.
func (a *Activities) run(reserved reservedCall, call domain.LedgerCall, state domain.LedgerState) {
	go func() {
		defer reserved.unwatch()

		call = a.renewLate(reserved.ctx, call)
		go a.watchCall(reserved.ctx, call, reserved.stopped, reserved.call.abort)

		out, err := a.carryOut(reserved.ctx, call, state)
		reserved.call.abort(nil)
		a.host.ended(call.ID, reserved.call, out, err)
	}()
}

// carryOut runs the call and records its outcome.
func (a *Activities) carryOut(ctx context.Context, call domain.LedgerCall, state domain.LedgerState) (contract.RunToolOut, error) {
	scope := a.scopeOfCall(call)
	set := a.Tools.For(ctx, scope)
	tool, arguments, refused := set.Admit(call.ToolName, call.Arguments)
	label := metricName(set, call.ToolName)

	ctx, span := startTool(ctx, a.Tracer, label, call)
	defer span.End()

	keep := context.WithoutCancel(ctx)

	if refused == nil && state != domain.CallAbandoned {
		reason, err := a.refusedNow(ctx, scope, call, arguments)
		if err != nil {
			return contract.RunToolOut{}, err
		}

		if reason != "" {
			refused = tools.Failed("%s", reason)
		}
	}

	switch {
	case refused != nil:
		return a.record(keep, call, finished(call, *refused), label)
	case state == domain.CallAbandoned && tool.Acts:
		done := finished(call, tools.Result{Output: unknownOutcome, IsError: true})
		done.Phase = domain.PhaseUnknownOutcome

		return a.record(keep, call, done, label)
	}
	// What sub-agents write belongs to the turn that called them.
	acted := tool.Acts && call.LoopID == domain.RootLoop
	result, err := a.execute(ctx, call, tool, arguments)
	done := finished(call, result)

	switch cause := context.Cause(ctx); {
	case cause == nil && err == nil:
		a.keepImages(ctx, call, &done, result.Images)
	case cause == nil:
		a.Logger.Error("failed to run a tool", "tool", tool.Name, "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)

		done.Status = domain.CallError
		done.Result = orElse(result.Output, tool.Name+" could not be carried out because of a fault of the service.")
	case errors.Is(cause, errLeaseLost):
		a.Logger.Warn("ended a tool call whose lease could not be renewed",
			"tool", tool.Name, "session_id", call.SessionID, "chat_id", call.ChatID, "tool_call_id", call.ID)

		if !tool.Acts {
			return contract.RunToolOut{Pending: true}, nil // it is run again
		}

		done.Status = domain.CallError
		done.Result = strings.TrimSpace(done.Result + "\n" + leaseLost)
	case errors.Is(cause, durable.ErrStopped), errors.Is(cause, domain.ErrFenced), durable.Cancelled(cause):
		done.Status = domain.CallCancelled
		done.Result = orElse(result.Output, "Cancelled before it finished.")
		out, err := a.record(keep, call, done, label)
		a.filesDue(call.SessionID, acted)
		// A call that was taken over says nothing about its chat.
		out.Stopped = !errors.Is(cause, domain.ErrFenced)

		return out, err
	default: // the worker shuts down: what was started is dead by now, which is a known outcome
		done.Status = domain.CallError
		done.Result = orElse(result.Output, "") + "\nKilled: the service was restarted while this ran. It may have taken effect in part."
	}

	out, err := a.record(keep, call, done, label)
	a.filesDue(call.SessionID, acted)

	return out, err
}

// toolAttempts is how often a tool that only looks is tried when the service,
// not the call, is at fault.
const toolAttempts = 3

var errCallTime = errors.New("the time limit of the call is over")

// execute runs an admitted call within its tool's time limit.
func (a *Activities) execute(
	ctx context.Context, call domain.LedgerCall, tool tools.Tool, arguments json.RawMessage,
) (result tools.Result, err error) {
	if err := a.beforeWriting(ctx, call, tool); err != nil {
		return result, err
	}

	root, err := a.Workspaces.Root(ctx, call.SessionID, call.Session.SandboxUID)
	if err != nil {
		return result, err
	}

	env, err := a.Environment.ToolEnv(ctx, call.Session)
	if err != nil {
		return result, err
	}

	request := &tools.Call{
		ID: call.ID, ChatID: call.ChatID, EntryID: call.EntryID, Arguments: arguments,
		Session: tools.SessionView{
			ID: call.SessionID, OwnerID: call.Session.OwnerID, SandboxUID: call.Session.SandboxUID, Root: root, Env: env,
		},
		Progress: a.liveOutput(ctx, call),
	}
	if request.MaskEnv = call.Session.SteeredByOthers() && len(env) > 0; request.MaskEnv {
		request.Progress = nil // a value may lie across two pieces
	}

	limit := tool.Limit()

	ctx, cancel := context.WithTimeoutCause(ctx, limit, errCallTime)
	defer cancel()

	result, err = a.runTool(ctx, call, tool, request)
	if err != nil && errors.Is(context.Cause(ctx), errCallTime) {
		note := fmt.Sprintf("[The call took longer than %s and was ended. It may have taken effect in part.]", limit)

		return tools.Result{
			Output: strings.TrimSpace(result.Output + "\n" + note), IsError: true,
			Changed: result.Changed, Connections: result.Connections,
		}, nil
	}

	return result, err
}

// runTool runs a call until it has a result; one that changes nothing is retried.
func (a *Activities) runTool(
	ctx context.Context, call domain.LedgerCall, tool tools.Tool, request *tools.Call,
) (result tools.Result, err error) {
	attempt := 0
	err = retry.Backoff{First: 200 * time.Millisecond, Max: time.Second}.Do(ctx, func() error {
		attempt++
		result, err = a.Tools.Run(ctx, tool, request)

		return err
	}, func(err error) bool {
		if tool.Acts || attempt == toolAttempts || ctx.Err() != nil {
			return false
		}

		a.Logger.Warn("retrying a tool", "tool", tool.Name, "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)

		return true
	})

	return result, err
}

// record writes the outcome, and retries for up to one minute: an effect whose record
// failed would look like an unknown one.
func (a *Activities) record(
	ctx context.Context, call domain.LedgerCall, done domain.FinishedCall, label string,
) (contract.RunToolOut, error) {
	err := retry.Writes(time.Minute).Do(ctx, func() error {
		return a.Ledger.RecordCall(ctx, call, done)
	}, func(err error) bool {
		if errors.Is(err, domain.ErrFenced) {
			return false
		}

		a.Logger.Warn("failed to record the result of a tool; retrying", "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)

		return true
	})
	switch {
	case err == nil:
		a.transcripts.recorded(a.loopKey(call.ChatID, call.LoopID), call, done)
		a.Metrics.ToolCalled(label, string(done.Status), done.Duration)
		toolEnded(ctx, done.Status)

		return contract.RunToolOut{Status: done.Status}, nil
	case errors.Is(err, domain.ErrFenced): // the chat has ended or another worker has the call
		status, err := a.Ledger.CallStatus(ctx, call.ID)
		return contract.RunToolOut{Status: status, Pending: status == domain.CallPending}, err
	default:
		return contract.RunToolOut{}, err
	}
}

// metricName bounds the labels: all tools of servers count as one, and so do all names
// that a model made up.
func metricName(set *tools.Toolset, name string) string {
	if strings.HasPrefix(name, "mcp__") {
		return "mcp"
	}

	if _, known := set.Lookup(name); known {
		return name
	}

	return "unknown"
}

// finished makes the record of a call that came to a result.
func finished(call domain.LedgerCall, result tools.Result) domain.FinishedCall {
	status := domain.CallDone
	if result.IsError {
		status = domain.CallError
	}

	return domain.FinishedCall{
		ID: call.ID, Attempt: call.Attempt, Status: status, Phase: domain.PhaseFinished,
		Result: domain.CleanText(result.Output), Duration: time.Since(call.StartedAt), Changes: result.Changed,
		Connections: result.Connections,
	}
}

// progressWait is how long the first piece of live output waits for the event of its call.
const progressWait = 2 * time.Second

// liveOutput publishes live output of a call behind the event that shows the call, which is
// published only after its commit. Where that takes too long, there is no live output:
// the result contains all of it.
//
// Once ctx is over there is none either, such as the rest of a killed command's output: the
// call was stopped or taken over, or its lease may expire, and behind its result, which
// another worker may publish by then, no output may come.
func (a *Activities) liveOutput(ctx context.Context, call domain.LedgerCall) func(stream, text string) {
	keep := context.WithoutCancel(ctx)
	shown := sync.OnceValue(func() bool {
		ctx, cancel := context.WithTimeout(keep, progressWait)
		defer cancel()

		return a.Turns.Published(ctx, call.SessionID) == nil
	})

	return func(stream, text string) {
		if ctx.Err() == nil && shown() && ctx.Err() == nil {
			a.progress(keep, call, stream, text)
		}
	}
}

// progress publishes one piece of live output, which may be lost.
func (a *Activities) progress(ctx context.Context, call domain.LedgerCall, stream, text string) {
	data, err := json.Marshal(domain.ToolProgressPatch{
		TurnID: call.EntryID, PatchType: domain.PatchToolProgress, ToolCallID: call.ID, TextDelta: domain.CleanText(text), Stream: stream,
	})
	if err == nil {
		_, err = a.Log.PublishDelta(ctx, domain.Event{
			SessionID: call.SessionID, ChatID: call.ChatID, Name: domain.EventTurnPatch, At: time.Now().UTC(), Data: data,
		})
	}

	if err != nil {
		a.Logger.Debug("failed to publish tool progress", "session_id", call.SessionID, "error", err)
	}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}

	return text
}
