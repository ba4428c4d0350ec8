package activities

import (
	"context"
	"encoding/json"
	"fmt"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/questions"
	"everloop/domain"
)

// beforeCall checks the limits and the size of a model call before its turn is opened.
// An outcome means that the call is not made now.
func (a *Activities) beforeCall(ctx context.Context, key domain.TurnKey) (out contract.CallModelOut, err error) {
	w, err := a.Compactions.Weigh(ctx, key)
	if err != nil || !w.Running || w.Opened {
		return out, err
	}

	profile := a.Profiles.Profile(w.Session)
	if out := limitReached(key, profile, w.UsedTokens, w.UsedCost); out.Outcome != "" {
		return out, nil
	}

	over, err := a.overThreshold(ctx, key, w, profile)
	if over {
		return compactFirst(), err
	}

	return out, err
}

// compactFirst is the result of a call whose prompt would pass the threshold.
func compactFirst() contract.CallModelOut {
	return contract.CallModelOut{Outcome: contract.OutcomeNeedsCompaction, Compact: domain.CompactAuto}
}

// limitReached returns the result that ends the loop before its next model call: by the
// number of its calls, or by what the session has used of its budget. Without an outcome
// no limit is reached.
func limitReached(key domain.TurnKey, profile domain.Profile, tokens int64, cost domain.Cost) (out contract.CallModelOut) {
	if key.LoopID == domain.RootLoop && key.Step > profile.MaxSteps {
		return contract.CallModelOut{
			Outcome: contract.OutcomeLimitReached, Reason: domain.FinishMaxSteps,
			Message: fmt.Sprintf("the chat made %d model calls, which is the limit", profile.MaxSteps),
		}
	}

	if why := profile.Budget.Exhausted(tokens, cost); why != "" {
		return contract.CallModelOut{Outcome: contract.OutcomeLimitReached, Reason: domain.FinishBudgetExhausted, Message: why}
	}

	return out
}

// pendingCalls sends the run back to the turn before, for the calls of it that were
// held back and then allowed.
func (a *Activities) pendingCalls(ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn) (contract.CallModelOut, error) {
	calls, asked, err := a.Turns.FinishedCalls(ctx, turn.EntryID)

	return contract.CallModelOut{
		EntryID: turn.EntryID, Outcome: contract.OutcomePendingCalls, Asked: asked,
		Calls: a.scheduled(ctx, turn.Session, a.Tools.For(ctx, a.scopeOfTurn(key, turn)), calls), Parallel: a.ParallelTools,
	}, err
}

// stuck describes a loop that makes the same calls over and over, with the same
// results; empty: it does not.
func (m *modelCall) stuck(calls []domain.RequestedCall) string {
	most := m.scope.Profile.StuckAfter
	if len(calls) == 0 || most <= 0 || domain.Repeats(m.transcript.Turns, calls) < most {
		return ""
	}

	return fmt.Sprintf("the same tool calls had the same results %d times in a row", most)
}

// permit applies the permission rules to a call that could be carried out. One that
// the user has to allow is held back by a question, which is a call beside it; in
// headless chats it is rejected.
func (m *modelCall) permit(ctx context.Context, call domain.PlannedCall, arguments json.RawMessage) []domain.PlannedCall {
	rules := m.scope.Profile.Permissions
	decision := domain.Decide(rules, call.ToolName, arguments)

	access := m.neededAccess(ctx, call.ToolName, arguments)
	if access != nil && decision == domain.PermissionAllow {
		decision = domain.PermissionAsk // a new domain is never taken for granted
	}

	if decision == domain.PermissionAllow {
		return []domain.PlannedCall{call}
	}

	if decision == domain.PermissionAsk && m.skipsConfirmations() && access == nil {
		return []domain.PlannedCall{call, m.granted(call, arguments)}
	}

	if decision == domain.PermissionDeny || m.scope.Headless {
		refusal := "Not carried out: a permission rule of this session denies calls like this one."
		if decision == domain.PermissionAsk {
			refusal = "Not carried out: a permission rule has the user asked about calls like this one, and no user is there to answer."
		}

		if access != nil && decision == domain.PermissionAsk {
			refusal = "Denied: no user is there to allow it, and no network rule does. Go on without these domains."
		}

		call.Settled, call.Fork = &domain.Settlement{Status: domain.CallError, Result: refusal}, nil

		return []domain.PlannedCall{call}
	}

	allows := domain.AllowingRules(rules, call.ToolName, arguments)

	asked := questions.PermissionQuestion(call.ID, m.tools.About(call.ToolName, arguments), len(allows) > 0)
	if access != nil {
		allows, asked = networkRules(access.Rules), questions.AccessQuestion(call.ID, access)
	}

	question := domain.PlannedCall{
		ID: domain.NewToolCallID(), ToolName: tools.AskUserQuestion, DisplayName: domain.PermissionDisplayName,
		Arguments: string(asked), Guards: call.ID, Allows: allows,
	}
	m.planQuestion(&question, asked)

	call.Guarded = true

	return []domain.PlannedCall{call, question}
}

// skipsConfirmations reports whether no user answers, and the owner wants the chat to go
// on without answers.
func (m *modelCall) skipsConfirmations() bool {
	return m.scope.Headless && m.scope.Session.Setup.SkipConfirmations
}

// granted is the record of a permission that was granted because the owner skips
// confirmations.
func (m *modelCall) granted(call domain.PlannedCall, arguments json.RawMessage) domain.PlannedCall {
	return domain.PlannedCall{
		ID: domain.NewToolCallID(), ToolName: tools.AskUserQuestion, DisplayName: domain.PermissionDisplayName,
		Arguments: string(questions.PermissionQuestion(call.ID, m.tools.About(call.ToolName, arguments), false)),
		Settled:   &domain.Settlement{Status: domain.CallDone, Result: questions.GrantedByPolicy},
	}
}

// neededAccess returns the domains that the user must allow before a call is carried out;
// nil: none.
func (m *modelCall) neededAccess(ctx context.Context, name string, arguments json.RawMessage) *tools.Access {
	tool, _ := m.tools.Lookup(name)
	if tool.Access == nil {
		return nil
	}

	return tool.Access(ctx, m.key.SessionID, arguments)
}

// networkRules returns the rules that a yes to a question for domains adds.
func networkRules(rules []domain.NetworkRule) (allows []domain.PermissionRule) {
	for _, rule := range rules {
		allows = append(allows, domain.PermissionRule{Tool: domain.NetworkTool, Pattern: rule.String(), Decision: domain.PermissionAllow})
	}

	return allows
}
