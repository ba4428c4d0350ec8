package activities

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/internal/durable"
)

// unknownOutcome is what the model reads of a call whose worker died with it.
const unknownOutcome = "The outcome of this call is unknown: the worker was lost while it ran, and it may have taken effect in part or in full. It was not run again. Look at the state of things before you go on."

// tryFor is how long a call may take to be over within its run's own step. What
// takes longer is shown to operators as an activity of its own.
const tryFor = 400 * time.Millisecond

// heldPoll is how often a call that another worker runs is looked at.
const heldPoll = 200 * time.Millisecond

// TryTool begins one call of the ledger and waits a moment for its end. A call
// that still runs then is Pending, and goes on: RunTool waits for it.
func (a *Activities) TryTool(ctx context.Context, in contract.RunToolIn) (contract.RunToolOut, error) {
	running, out, err := a.begin(ctx, in)
	if err != nil || running == nil {
		return out, err
	}
	moment := time.NewTimer(tryFor)
	defer moment.Stop()
	select {
	case <-running.over:
		return running.out, running.err
	case <-moment.C:
		return contract.RunToolOut{Pending: true}, nil
	case <-ctx.Done():
		return contract.RunToolOut{}, ctx.Err()
	}
}

// maxEarly is how many calls of a turn are begun before their run asks for them;
// the run itself keeps to the same bound.
const maxEarly = 32

// beginEarly starts a turn's calls while the report of the turn is still on its
// way to the run, which then finds them begun or done. Nothing rests on it: a
// call that is not begun here is begun when the run asks.
func (a *Activities) beginEarly(ctx context.Context, chatID, taskID string, calls []contract.ToolCall) {
	for _, call := range calls[:min(len(calls), maxEarly)] {
		if call.Fork != nil {
			continue // it has a run of its own
		}
		go func() {
			if _, _, err := a.begin(ctx, contract.RunToolIn{ChatID: chatID, ToolCallID: call.ID, TaskID: taskID}); err != nil {
				a.Logger.Debug("tool call not begun early", "tool", call.Name, "chat_id", chatID, "error", err)
			}
		}()
	}
}

// RunTool carries out one call of the ledger, or waits for the worker that does.
// When the activity is cancelled, so is the call.
func (a *Activities) RunTool(ctx context.Context, in contract.RunToolIn) (contract.RunToolOut, error) {
	defer durable.Heartbeat(ctx)()
	for {
		running, out, err := a.begin(ctx, in)
		switch {
		case err != nil:
			return out, err
		case running != nil:
			select {
			case <-running.over:
			case <-ctx.Done():
				running.abort(context.Cause(ctx))
				<-running.over
			}
			return running.out, running.err
		case !out.Pending:
			return out, nil
		}
		select {
		case <-time.After(heldPoll):
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
}

// begin claims the call and starts it on this worker, or joins it here. Without
// a running call the answer is there already, or Pending with another worker. The
// turn that asks for a call and its run may begin it at the same moment: the ledger
// is asked once.
func (a *Activities) begin(ctx context.Context, in contract.RunToolIn) (*hostedCall, contract.RunToolOut, error) {
	type begun struct {
		running *hostedCall
		out     contract.RunToolOut
	}
	got, err, _ := a.host.beginning.Do(in.ToolCallID, func() (any, error) {
		running, out, err := a.claim(ctx, in)
		return begun{running, out}, err
	})
	return got.(begun).running, got.(begun).out, err
}

// claim is begin for one caller at a time.
//
// The ledger goes from reserved to running before anything is executed, so that
// a call which another worker began and did not finish is recognised: one that
// acts is never run again, the others simply are (decisions.md section 4).
func (a *Activities) claim(ctx context.Context, in contract.RunToolIn) (*hostedCall, contract.RunToolOut, error) {
	if running := a.host.find(in.ToolCallID); running != nil {
		return running, contract.RunToolOut{}, nil
	}
	// Watch before the flag is looked at, so that no stop falls in between.
	stopped, unwatch := a.watchStop(in.ChatID, in.TaskID)
	call, state, err := a.Ledger.ClaimCall(ctx, in.ToolCallID)
	if err == nil && (state == domain.CallClaimed || state == domain.CallAbandoned) {
		return a.start(call, state, stopped, unwatch), contract.RunToolOut{}, nil
	}
	unwatch()
	switch {
	case err != nil:
		return nil, contract.RunToolOut{}, err
	case state == domain.CallHeld:
		return a.host.find(in.ToolCallID), contract.RunToolOut{Pending: true}, nil // begun here meanwhile, or elsewhere
	case state == domain.CallStopped:
		return nil, contract.RunToolOut{Status: domain.CallCancelled, Stopped: true}, nil
	default:
		status, err := a.Ledger.CallStatus(ctx, in.ToolCallID)
		return nil, contract.RunToolOut{Status: status}, err
	}
}

// start runs a claimed call to its recorded end, whoever waits for it.
func (a *Activities) start(call domain.LedgerCall, state domain.LedgerState, stopped <-chan struct{}, unwatch func()) *hostedCall {
	ctx, abort := context.WithCancelCause(context.Background())
	running := a.host.add(call.ID, abort)
	go func() {
		defer unwatch()
		go a.watchCall(ctx, call, stopped, abort)
		out, err := a.carryOut(ctx, call, state)
		abort(nil)
		a.host.ended(call.ID, running, out, err)
	}()
	return running
}

const renewEvery = 3 * time.Second

// watchCall ends a call that was stopped or taken over, and keeps its lease.
func (a *Activities) watchCall(ctx context.Context, call domain.LedgerCall, stopped <-chan struct{}, abort context.CancelCauseFunc) {
	renew := time.NewTicker(renewEvery)
	defer renew.Stop()
	kept := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopped:
			abort(errStopped)
			return
		case <-renew.C:
			err := a.Ledger.RenewCall(ctx, call.ID, call.Attempt)
			switch {
			case err == nil:
				kept = time.Now()
			case errors.Is(err, domain.ErrFenced), time.Since(kept) > 2*renewEvery:
				// Another worker may believe this one dead: better it is.
				abort(domain.ErrFenced)
				return
			}
		}
	}
}

// carryOut runs the call and records its outcome.
func (a *Activities) carryOut(ctx context.Context, call domain.LedgerCall, state domain.LedgerState) (contract.RunToolOut, error) {
	keep := context.WithoutCancel(ctx)
	tool, arguments, refused := a.Tools.For(ctx, a.scopeOfCall(call)).Admit(call.ToolName, call.Arguments)
	switch {
	case refused != nil:
		return a.record(keep, call, finished(call, *refused))
	case state == domain.CallAbandoned && tool.Acts:
		done := finished(call, tools.Result{Output: unknownOutcome, IsError: true})
		done.Phase = domain.PhaseUnknownOutcome
		return a.record(keep, call, done)
	}
	// What sub-agents write belongs to the turn that called them.
	acted := tool.Acts && call.LoopID == domain.RootLoop
	result, err := a.execute(ctx, call, tool, arguments)
	done := finished(call, result)
	switch cause := context.Cause(ctx); {
	case cause == nil && err == nil:
	case cause == nil:
		a.Logger.Error("tool could not be carried out", "tool", tool.Name, "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)
		done.Status = domain.CallError
		done.Result = orElse(result.Output, tool.Name+" could not be carried out because of a fault of the service.")
	case errors.Is(cause, errStopped), errors.Is(cause, domain.ErrFenced), durable.Cancelled(cause):
		done.Status = domain.CallCancelled
		done.Result = orElse(result.Output, "Cancelled before it finished.")
		out, err := a.record(keep, call, done)
		a.filesDue(call.SessionID, acted)
		out.Stopped = true
		return out, err
	default: // the worker shuts down: what was begun is dead by now, which is a known outcome
		done.Status = domain.CallError
		done.Result = orElse(result.Output, "") + "\nKilled: the service was restarted while this ran. It may have taken effect in part."
	}
	out, err := a.record(keep, call, done)
	a.filesDue(call.SessionID, acted)
	return out, err
}

// toolAttempts is how often a tool that only looks is tried when the service,
// not the call, is at fault.
const toolAttempts = 3

func (a *Activities) execute(ctx context.Context, call domain.LedgerCall, tool tools.Tool, arguments json.RawMessage) (result tools.Result, err error) {
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
		Session:  tools.SessionView{ID: call.SessionID, SandboxUID: call.Session.SandboxUID, Root: root, Env: env},
		Progress: func(stream, text string) { a.progress(context.WithoutCancel(ctx), call, stream, text) },
	}
	for attempt := 1; ; attempt++ {
		result, err = a.Tools.Run(ctx, tool, request)
		if err == nil || tool.Acts || attempt == toolAttempts || ctx.Err() != nil {
			return result, err
		}
		a.Logger.Warn("tool is tried again", "tool", tool.Name, "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)
		select {
		case <-time.After(time.Duration(attempt) * 200 * time.Millisecond):
		case <-ctx.Done():
			return result, err
		}
	}
}

// record writes the outcome, for as long as it takes within a minute: an effect
// whose record failed would look like an unknown one.
func (a *Activities) record(ctx context.Context, call domain.LedgerCall, done domain.FinishedCall) (contract.RunToolOut, error) {
	deadline := time.Now().Add(time.Minute)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := a.Ledger.RecordCall(ctx, call, done)
		switch {
		case err == nil:
			a.Metrics.ToolCalled(a.metricName(call), string(done.Status), done.Duration)
			return contract.RunToolOut{Status: done.Status}, nil
		case errors.Is(err, domain.ErrFenced): // the chat has ended or another worker has the call
			status, err := a.Ledger.CallStatus(ctx, call.ID)
			return contract.RunToolOut{Status: status}, err
		case time.Now().After(deadline):
			return contract.RunToolOut{}, err
		}
		a.Logger.Warn("the result of a tool is not recorded yet", "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)
		time.Sleep(pause)
	}
}

// metricName keeps what a model or a tool server makes up out of the labels: all
// tools of servers count as one.
func (a *Activities) metricName(call domain.LedgerCall) string {
	if strings.HasPrefix(call.ToolName, "mcp__") {
		return "mcp"
	}
	if _, known := a.Tools.For(context.Background(), a.scopeOfCall(call)).Lookup(call.ToolName); known {
		return call.ToolName
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
	}
}

// progress shows live output. Losing a piece of it loses nothing: the result
// holds all.
func (a *Activities) progress(ctx context.Context, call domain.LedgerCall, stream, text string) {
	data, err := json.Marshal(struct {
		TurnID     string `json:"turn_id"`
		PatchType  string `json:"patch_type"`
		ToolCallID string `json:"tool_call_id"`
		TextDelta  string `json:"text_delta"`
		Stream     string `json:"stream"`
	}{call.EntryID, domain.PatchToolProgress, call.ID, domain.CleanText(text), stream})
	if err == nil {
		_, err = a.Log.Publish(ctx, domain.Event{
			SessionID: call.SessionID, ChatID: call.ChatID, Name: domain.EventTurnPatch, At: time.Now().UTC(), Data: data,
		})
	}
	if err != nil {
		a.Logger.Debug("tool progress not shown", "session_id", call.SessionID, "error", err)
	}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
