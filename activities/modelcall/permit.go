package modelcall

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"everloop/activities/toolrun"
	"everloop/activities/tools"
	"everloop/activities/tools/questions"
	"everloop/domain"
	"everloop/domain/permission"
)

// allowingRules returns the rules which, put before the others, allow exactly this call the
// next time it is made.
func allowingRules(tool string, arguments json.RawMessage, about string) []domain.PermissionRule {
	return []domain.PermissionRule{{
		Tool: tool, Decision: domain.PermissionAllow, Digest: permission.Digest(tool, arguments), Call: about,
	}}
}

// shownFiles returns the digests of the files that a call names. Of a command, words that
// are not files do not count.
func (m *modelCall) shownFiles(ctx context.Context, tool string, arguments json.RawMessage) map[string]string {
	names := slices.DeleteFunc(permission.Files(permission.Call{Tool: tool, Arguments: arguments}), func(name string) bool {
		return strings.ContainsRune(name, 0) // no file has such a name, and no column takes it
	})

	files := m.Plans.Permissions.Digests(ctx, m.scope.Session, names)
	if tool == "Bash" {
		maps.DeleteFunc(files, func(_, digest string) bool { return digest == "" })
	}

	return files
}

// permit applies the permission rules to a call that could be carried out. One that
// the user has to allow is held back by a question, which is a call next to it; in
// headless chats it is rejected.
func (m *modelCall) permit(ctx context.Context, call domain.PlannedCall, arguments json.RawMessage) []domain.PlannedCall {
	decision := m.Plans.Permissions.Decide(ctx, m.scope, call.ToolName, arguments)
	if decision == domain.PermissionAllow && m.asksToRemember(ctx, call.ToolName, arguments) {
		decision = domain.PermissionAsk
	}

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
		refusal := toolrun.DeniedByRule
		if decision == domain.PermissionAsk {
			refusal = "Not carried out: a permission rule has the user asked about calls like this one, and no user is there to answer."
		}

		if access != nil && decision == domain.PermissionAsk {
			refusal = "Denied: no user is there to allow it, and no network rule does. Go on without these domains."
		}

		call.Settled, call.Fork = &domain.Settlement{Status: domain.CallError, Result: refusal}, nil

		return []domain.PlannedCall{call}
	}

	allows := allowingRules(call.ToolName, arguments, m.tools.About(call.ToolName, arguments))

	asked := questions.PermissionQuestion(call.ID, m.tools.About(call.ToolName, arguments), len(allows) > 0)
	if access != nil {
		allows, asked = networkRules(access.Rules), questions.AccessQuestion(call.ID, access)
	}

	question := domain.PlannedCall{
		ID: domain.NewToolCallID(), ToolName: tools.AskUserQuestion, DisplayName: domain.PermissionDisplayName,
		Arguments: string(asked), Guards: call.ID, Allows: allows, Files: m.shownFiles(ctx, call.ToolName, arguments),
	}
	m.planQuestion(&question, asked)

	call.Guarded = true

	return []domain.PlannedCall{call, question}
}

// asksToRemember reports whether the user is asked about a memory: the chat has read content
// from outside, whose author may want it remembered, and no rule allows the call. Where no
// user can be asked, the memory waits to be enabled.
func (m *modelCall) asksToRemember(ctx context.Context, tool string, arguments json.RawMessage) bool {
	if tool != "Memory" || m.scope.Headless {
		return false
	}

	var in struct {
		Action string `json:"action"`
	}
	if json.Unmarshal(arguments, &in) != nil || in.Action == "search" {
		return false
	}

	scope := m.scope

	scope.Profile.Permissions = append(slices.Clone(scope.Profile.Permissions), domain.PermissionRule{
		Tool: "*", Decision: domain.PermissionAsk,
	})
	if m.Plans.Permissions.Decide(ctx, scope, tool, arguments) == domain.PermissionAllow {
		return false
	}

	reads, err := m.Store.ReadsOutside(ctx, m.key.ChatID)

	return reads || err != nil
}

// skipsConfirmations reports whether no user answers, and the owner wants the chat to go
// on without answers.
func (m *modelCall) skipsConfirmations() bool {
	return m.scope.Headless && m.scope.Session.Setup.SkipConfirmations
}

// granted returns the record of a permission that was granted because the owner skips
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
