package activities

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/internal/durable"
)

// unknownOutcome is what the model reads of a call whose worker died with it.
const unknownOutcome = "The outcome of this call is unknown: the worker was lost while it ran, and it may have taken effect in part or in full. It was not run again. Look at the state of things before you go on."

// RunTool carries out one call of the ledger. The ledger goes from reserved to
// running before anything is executed, so that a call that another worker began
// and did not finish is recognised: one that acts is never run again, the others
// simply are (decisions.md section 4).
func (a *Activities) RunTool(ctx context.Context, in contract.RunToolIn) (contract.RunToolOut, error) {
	defer durable.Heartbeat(ctx)()

	stopped, unwatch := a.Stops.WatchStop(in.ChatID)
	defer unwatch()

	call, state, err := a.Ledger.ClaimCall(ctx, in.ToolCallID)
	if err != nil {
		return contract.RunToolOut{}, err
	}
	switch state {
	case domain.CallStopped:
		return contract.RunToolOut{Status: domain.CallCancelled, Stopped: true}, nil
	case domain.CallRecorded:
		status, err := a.Ledger.CallStatus(ctx, in.ToolCallID)
		return contract.RunToolOut{Status: status}, err
	}
	tool, arguments, refused := a.Tools.Admit(call.Mode, call.Headless, call.Session.DisableTools, call.ToolName, call.Arguments)
	switch {
	case refused != nil:
		return a.record(ctx, call, finished(call, *refused))
	case state == domain.CallAbandoned && tool.Acts:
		done := finished(call, tools.Result{Output: unknownOutcome, IsError: true})
		done.Phase = domain.PhaseUnknownOutcome
		return a.record(ctx, call, done)
	}
	return a.execute(ctx, call, tool, arguments, stopped)
}

func (a *Activities) execute(ctx context.Context, call domain.LedgerCall, tool tools.Tool, arguments json.RawMessage, stopped <-chan struct{}) (contract.RunToolOut, error) {
	root, err := a.Workspaces.Root(ctx, call.SessionID, call.Session.SandboxUID)
	if err != nil {
		return contract.RunToolOut{}, err
	}
	running, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	go func() {
		select {
		case <-stopped:
			abort(errStopped)
		case <-running.Done():
		}
	}()
	keep := context.WithoutCancel(ctx)
	result, err := a.Tools.Run(running, tool, &tools.Call{
		ID: call.ID, ChatID: call.ChatID, EntryID: call.EntryID, Arguments: arguments,
		Session:  tools.SessionView{ID: call.SessionID, SandboxUID: call.Session.SandboxUID, Root: root, Env: call.Session.Env},
		Progress: func(stream, text string) { a.progress(keep, call, stream, text) },
	})
	cause := context.Cause(running)
	done := finished(call, result)
	switch {
	case errors.Is(cause, errStopped):
		done.Status = domain.CallCancelled
		done.Result = orElse(result.Output, "Cancelled: the user stopped the chat.")
		out, err := a.record(keep, call, done)
		out.Stopped = true
		return out, err
	case cause != nil && tool.Acts:
		// The worker shuts down, or lost touch with the server: what was begun
		// is dead by now, which is a known outcome.
		done.Status = domain.CallError
		done.Result = orElse(result.Output, "") + "\nKilled: the service was restarted while this ran. It may have taken effect in part."
		return a.record(keep, call, done)
	case cause != nil:
		return contract.RunToolOut{}, cause
	case err != nil && !tool.Acts:
		a.Logger.Warn("tool could not be carried out; it is tried again", "tool", tool.Name, "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)
		if activity.GetInfo(ctx).Attempt < toolAttempts {
			return contract.RunToolOut{}, durable.Retry("tool_retry", tool.Name+" could not be carried out", 0)
		}
		fallthrough
	case err != nil:
		a.Logger.Error("tool could not be carried out", "tool", tool.Name, "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)
		done.Status = domain.CallError
		done.Result = orElse(result.Output, tool.Name+" could not be carried out because of a fault of the service.")
	}
	return a.record(keep, call, done)
}

// toolAttempts is how often a tool that only looks is tried when the service,
// not the call, is at fault.
const toolAttempts = 3

// record writes the outcome, for as long as the activity lives: an effect whose
// record failed would look like an unknown one.
func (a *Activities) record(ctx context.Context, call domain.LedgerCall, done domain.FinishedCall) (contract.RunToolOut, error) {
	deadline := time.Now().Add(time.Minute)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := a.Ledger.RecordCall(ctx, call, done)
		switch {
		case err == nil:
			return contract.RunToolOut{Status: done.Status}, nil
		case errors.Is(err, domain.ErrFenced): // the chat has ended or another worker has the call
			status, err := a.Ledger.CallStatus(ctx, call.ID)
			return contract.RunToolOut{Status: status}, err
		case time.Now().After(deadline):
			return contract.RunToolOut{}, err
		}
		a.Logger.Warn("the result of a tool is not recorded yet", "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return contract.RunToolOut{}, err
		}
	}
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
