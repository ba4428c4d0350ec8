package toolrun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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

// carryOut runs the call and records its outcome.
func (r *Runner) carryOut(ctx context.Context, claimed claim, lease *lease) (contract.RunToolOut, error) {
	call, state := claimed.call, claimed.state
	scope := tools.Scope{
		Session: call.Session, Mode: call.Mode, Headless: call.Headless,
		LoopID: call.LoopID, Depth: call.Loop.Depth, Only: call.Loop.Only, Profile: r.Profile(call.Session),
	}
	set := r.Tools.For(ctx, scope)
	tool, arguments, refused := set.Admit(call.ToolName, call.Arguments)
	label := metricName(set, call.ToolName)

	ctx, span := r.startSpan(ctx, label, call)
	defer span.End()

	keep := context.WithoutCancel(ctx)

	if refused == nil && state != domain.CallAbandoned {
		var reason string

		err := available(ctx, func() (err error) {
			reason, err = r.refusedNow(ctx, scope, call, arguments)
			return err
		})
		if err != nil {
			return contract.RunToolOut{}, err
		}

		if reason != "" {
			refused = tools.Failed("%s", reason)
		}
	}

	switch {
	case refused != nil:
		return r.record(keep, call, finished(call, *refused), label)
	case state == domain.CallAbandoned && tool.Acts:
		done := finished(call, tools.Result{Output: unknownOutcome, IsError: true})
		done.Phase = domain.PhaseUnknownOutcome

		return r.record(keep, call, done, label)
	}
	// What sub-agents write belongs to the turn that called them.
	acted := tool.Acts && call.LoopID == domain.RootLoop
	result, err := r.execute(ctx, call, tool, arguments, lease)
	lease.ended()

	done := finished(call, result)

	switch cause := context.Cause(ctx); {
	case cause == nil && err == nil:
		r.keepImages(ctx, call, &done, result.Images)
	case cause == nil:
		r.Logger.Error("failed to run a tool", "tool", tool.Name, "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)

		done.Status = domain.CallError
		done.Result = cmp.Or(result.Output, tool.Name+" could not be carried out because of a fault of the service.")
	case errors.Is(cause, errLeaseLost):
		r.Logger.Warn("ended a tool call whose lease could not be renewed",
			"tool", tool.Name, "session_id", call.SessionID, "chat_id", call.ChatID, "tool_call_id", call.ID)

		if !tool.Acts {
			return contract.RunToolOut{Pending: true}, nil // it is run again
		}

		done.Status = domain.CallError
		done.Result = strings.TrimSpace(done.Result + "\n" + leaseLost)
	case errors.Is(cause, durable.ErrStopped), errors.Is(cause, domain.ErrFenced), durable.Cancelled(cause):
		done.Status = domain.CallCancelled
		done.Result = cmp.Or(result.Output, "Cancelled before it finished.")
		out, err := r.record(keep, call, done, label)
		r.filesDue(call.SessionID, acted)
		// A call that was taken over says nothing about its chat.
		out.Stopped = !errors.Is(cause, domain.ErrFenced)

		return out, err
	default: // the worker shuts down: what was started is dead by now, which is a known outcome
		done.Status = domain.CallError
		done.Result = result.Output + "\nKilled: the service was restarted while this ran. It may have taken effect in part."
	}

	out, err := r.record(keep, call, done, label)
	r.filesDue(call.SessionID, acted)

	return out, err
}

// toolAttempts is how often a tool that only looks is tried when the service,
// not the call, is at fault.
const toolAttempts = 3

var errCallTime = errors.New("the time limit of the call is over")

// execute runs an admitted call within its tool's time limit.
func (r *Runner) execute(
	ctx context.Context, call domain.LedgerCall, tool tools.Tool, arguments json.RawMessage, lease *lease,
) (result tools.Result, err error) {
	if err := r.beforeWriting(ctx, call, tool); err != nil {
		return result, err
	}

	root, env, err := r.placeOf(ctx, call)
	if err != nil {
		return result, err
	}

	request := &tools.Call{
		ID: call.ID, ChatID: call.ChatID, EntryID: call.EntryID, Arguments: arguments,
		Session: tools.SessionView{
			ID: call.SessionID, OwnerID: call.Session.OwnerID, SandboxUID: call.Session.SandboxUID, Root: root, Env: env,
		},
		Progress: r.liveOutput(ctx, call),
	}
	if request.MaskEnv = call.Session.SteeredByOthers() && len(env) > 0; request.MaskEnv {
		request.Progress = nil // a value may lie across two pieces
	}

	if err := lease.begin(ctx); err != nil {
		return result, err
	}

	limit := tool.Limit()

	ctx, cancel := context.WithTimeoutCause(ctx, limit, errCallTime)
	defer cancel()

	result, err = r.runTool(ctx, call, tool, request)
	if err != nil && errors.Is(context.Cause(ctx), errCallTime) {
		note := fmt.Sprintf("[The call took longer than %s and was ended. It may have taken effect in part.]", limit)

		return tools.Result{
			Output: strings.TrimSpace(result.Output + "\n" + note), IsError: true,
			Changed: result.Changed, Connections: result.Connections,
		}, nil
	}

	return result, err
}

// placeOf returns the workspace and the environment in which a call runs.
func (r *Runner) placeOf(ctx context.Context, call domain.LedgerCall) (root string, env map[string]string, err error) {
	err = available(ctx, func() (err error) {
		if root, err = r.Root(ctx, call.SessionID, call.Session.SandboxUID); err != nil {
			return err
		}

		env, err = r.Env(ctx, call.Session)

		return err
	})

	return root, env, err
}

// maxOutage is how long a call waits for a dependency, before its tool starts and for its record.
const maxOutage = 10 * time.Minute

// available repeats a step before a tool starts while a dependency is unavailable: the call
// has had no effect yet, and its lease is renewed meanwhile.
func available(ctx context.Context, step func() error) error {
	return retry.Backoff{First: 200 * time.Millisecond, Max: 2 * time.Second, Limit: maxOutage}.Do(ctx, step, func(err error) bool {
		return domain.HasCode(err, domain.CodeServiceDown)
	})
}

// runTool runs a call until it has a result; one that changes nothing is retried.
func (r *Runner) runTool(
	ctx context.Context, call domain.LedgerCall, tool tools.Tool, request *tools.Call,
) (result tools.Result, err error) {
	attempt := 0
	err = retry.Backoff{First: 200 * time.Millisecond, Max: time.Second}.Do(ctx, func() error {
		attempt++
		result, err = r.Tools.Run(ctx, tool, request)

		return err
	}, func(err error) bool {
		if tool.Acts || attempt == toolAttempts || ctx.Err() != nil {
			return false
		}

		r.Logger.Warn("retrying a tool", "tool", tool.Name, "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)

		return true
	})

	return result, err
}

// record writes the outcome, and retries during an outage: an effect without a record would
// be an unknown outcome.
func (r *Runner) record(
	ctx context.Context, call domain.LedgerCall, done domain.FinishedCall, label string,
) (contract.RunToolOut, error) {
	err := retry.Writes(maxOutage).Do(ctx, func() error {
		return r.Ledger.RecordCall(ctx, call, done)
	}, func(err error) bool {
		if errors.Is(err, domain.ErrFenced) {
			return false
		}

		r.Logger.Warn("failed to record the result of a tool; retrying", "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)

		return true
	})
	switch {
	case err == nil:
		r.Transcripts.Recorded(call, done)
		r.Metrics.ToolCalled(label, string(done.Status), done.Duration)
		endSpan(ctx, done.Status)

		return contract.RunToolOut{Status: done.Status}, nil
	case errors.Is(err, domain.ErrFenced): // the chat has ended or another worker has the call
		status, err := r.Ledger.CallStatus(ctx, call.ID)
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
