package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
)

// beforeCall looks at what a model call may cost and hold before its turn is
// opened. Settled: the call is not made now, and the answer says what comes first
// or how the loop ends.
func (a *Activities) beforeCall(ctx context.Context, key domain.TurnKey) (out contract.CallModelOut, settled bool, err error) {
	w, err := a.Compactions.Weigh(ctx, key)
	if err != nil || !w.Running || w.Opened {
		return out, false, err
	}
	profile := a.Profiles.Profile(w.Session)
	if key.LoopID == domain.RootLoop && key.Step > profile.MaxSteps {
		out.Finish, out.Message = domain.FinishMaxSteps, fmt.Sprintf("the chat made %d model calls, which is the limit", profile.MaxSteps)
		return out, true, nil
	}
	if why := profile.Budget.Exhausted(w.UsedTokens, w.UsedCost); why != "" {
		out.Finish, out.Message = domain.FinishBudgetExhausted, why
		return out, true, nil
	}
	over, err := a.overThreshold(ctx, key, w, profile)
	if over {
		out.Compact = domain.CompactAuto
	}
	return out, over, err
}

// callsLeft sends the run back to the turn before, for the calls of it that were
// held back and then allowed.
func (a *Activities) callsLeft(ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn) (contract.CallModelOut, error) {
	calls, _, err := a.Turns.FinishedCalls(ctx, turn.EntryID)
	return contract.CallModelOut{
		EntryID: turn.EntryID, Behind: true, Calls: summaries(a.Tools.For(ctx, a.scopeOfTurn(key, turn)), calls),
	}, err
}

// stuck says in words that the loop makes the same calls over and over, with the
// same results; empty: it does not.
func (m *modelCall) stuck(calls []domain.RequestedCall) string {
	most := m.scope.Profile.StuckAfter
	if len(calls) == 0 || most <= 0 || domain.Repeats(m.told, calls) < most {
		return ""
	}
	return fmt.Sprintf("the same tool calls had the same results %d times in a row", most)
}

// permit decides by the permission rules about a call that may be carried out.
// One that has to be allowed is held back by a question, which is a call beside
// it; where nobody can answer it is refused.
func (m *modelCall) permit(call domain.PlannedCall, arguments json.RawMessage) []domain.PlannedCall {
	rules := m.scope.Profile.Permissions
	decision := domain.Decide(rules, call.ToolName, arguments)
	if decision == domain.PermissionAllow {
		return []domain.PlannedCall{call}
	}
	if decision == domain.PermissionDeny || m.scope.Headless {
		refusal := "Not carried out: a permission rule of this session denies calls like this one."
		if decision == domain.PermissionAsk {
			refusal = "Not carried out: a permission rule has the user asked about calls like this one, and nobody is there to answer."
		}
		call.Settled, call.Fork = &domain.Settlement{Status: domain.CallError, Result: refusal}, nil
		return []domain.PlannedCall{call}
	}
	allows := domain.AllowingRules(rules, call.ToolName, arguments)
	asked := tools.PermissionQuestion(call.ID, m.tools.About(call.ToolName, arguments), len(allows) > 0)
	question := domain.PlannedCall{
		ID: domain.NewToolCallID(), ToolName: tools.AskUserQuestion, DisplayName: domain.PermissionDisplayName,
		Arguments: string(asked), Guards: call.ID, Allows: allows,
	}
	m.planQuestion(&question, asked)
	call.Guarded = true
	return []domain.PlannedCall{call, question}
}
