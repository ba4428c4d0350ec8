package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"everloop/activities/tools"
	"everloop/activities/tools/questions"
	"everloop/domain"
	"everloop/domain/permission"
)

// judge returns the decision of the session's rules about a call.
func (a *Activities) judge(ctx context.Context, scope tools.Scope, tool string, arguments json.RawMessage) domain.PermissionDecision {
	return permission.Decide(scope.Profile.Permissions, permission.Call{
		Tool: tool, Arguments: arguments,
		Resolve: func(path string) string { return a.resolve(ctx, scope.Session, path) },
	})
}

// resolve returns the path below the workspace that a path leads to. A part that does not
// exist, or that leaves the workspace, is returned as it is: the tool refuses it.
func (a *Activities) resolve(ctx context.Context, session domain.Session, name string) string {
	dir, err := a.Workspaces.Root(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return name
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return name
	}

	defer func() { _ = root.Close() }()

	return followLinks(root, name)
}

// maxLinks bounds the links of a path, as the kernel does.
const maxLinks = 40

// followLinks replaces the links of a path within a directory by what they lead to.
func followLinks(root *os.Root, name string) string {
	var (
		at    = "."
		left  = strings.Split(path.Clean(name), "/")
		links = 0
	)

	for len(left) > 0 {
		next := path.Join(at, left[0])
		left = left[1:]

		target, err := root.Readlink(next)
		if err != nil {
			at = next // not a link
			continue
		}

		if links++; links > maxLinks {
			return name
		}

		if inside, ok := strings.CutPrefix(path.Clean(target)+"/", "/workspace/"); ok {
			at, target = ".", inside
		}

		left = append(strings.Split(path.Clean("./"+target), "/"), left...)
	}

	return at
}

// allowingRules are the rules which, put before the others, allow exactly this call the
// next time it is made.
func allowingRules(tool string, arguments json.RawMessage, about string) []domain.PermissionRule {
	return []domain.PermissionRule{{
		Tool: tool, Decision: domain.PermissionAllow, Digest: permission.Digest(tool, arguments), Call: about,
	}}
}

// refusedNow returns why a call that was planned is not carried out now: a rule denies it
// that did not when it was planned, or the user was not asked. Empty: it is carried out.
func (a *Activities) refusedNow(ctx context.Context, scope tools.Scope, call domain.LedgerCall, arguments json.RawMessage) (string, error) {
	if !slices.ContainsFunc(scope.Profile.Permissions, func(r domain.PermissionRule) bool { return r.Decision != domain.PermissionAllow }) {
		return "", nil
	}

	switch a.judge(ctx, scope, call.ToolName, arguments) {
	case domain.PermissionDeny:
		return deniedByRule, nil
	case domain.PermissionAsk:
		if scope.Headless && scope.Session.Setup.SkipConfirmations {
			return "", nil
		}

		allowed, shown, err := a.Ledger.Permission(ctx, call.ID)
		if err != nil {
			return "", err
		}

		if allowed {
			return changedSince(shown, a.digests(ctx, call.Session, slices.Collect(maps.Keys(shown)))), nil
		}

		return "Not carried out: the permission rules have changed, and the user is asked about calls like this one now. " +
			"Make the call again.", nil
	default:
		return "", nil
	}
}

// changedSince returns why an answer does not cover the call: a file that it names has
// changed. Empty: none has.
func changedSince(shown, now map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if now[name] != shown[name] {
			return fmt.Sprintf("Not carried out: %s has changed since the user was asked, so the answer does not cover this call. "+
				"Make the call again, and the user is asked again.", tools.Quote(name))
		}
	}

	return ""
}

// maxDigested bounds the files whose content is compared, in bytes. Larger ones are
// compared by size and time.
const maxDigested = 16 << 20

// digests returns the digests of the files that exist in the workspace, and of a file that
// does not exist the digest of nothing.
func (a *Activities) digests(ctx context.Context, session domain.Session, names []string) map[string]string {
	if len(names) == 0 {
		return nil
	}

	dir, err := a.Workspaces.Root(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return nil
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}

	defer func() { _ = root.Close() }()

	digests := make(map[string]string, len(names))
	for _, name := range names {
		digests[name] = digestOf(root, name)
	}

	return digests
}

func digestOf(root *os.Root, name string) string {
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}

	if info.Size() > maxDigested {
		return fmt.Sprintf("%d bytes of %d", info.Size(), info.ModTime().UnixNano())
	}

	// What was a regular file can be a pipe by now, which must not block.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}

	defer func() { _ = file.Close() }()

	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(file, maxDigested)); err != nil {
		return ""
	}

	return hex.EncodeToString(hash.Sum(nil))
}

// shownFiles returns the digests of the files that a call names. Of a command, words that
// are not files do not count.
func (m *modelCall) shownFiles(ctx context.Context, tool string, arguments json.RawMessage) map[string]string {
	names := slices.DeleteFunc(permission.Files(permission.Call{Tool: tool, Arguments: arguments}), func(name string) bool {
		return strings.ContainsRune(name, 0) // no file has such a name, and no column takes it
	})

	files := m.digests(ctx, m.scope.Session, names)
	if tool == "Bash" {
		maps.DeleteFunc(files, func(_, digest string) bool { return digest == "" })
	}

	return files
}

const deniedByRule = "Not carried out: a permission rule of this session denies calls like this one."

// permit applies the permission rules to a call that could be carried out. One that
// the user has to allow is held back by a question, which is a call beside it; in
// headless chats it is rejected.
func (m *modelCall) permit(ctx context.Context, call domain.PlannedCall, arguments json.RawMessage) []domain.PlannedCall {
	decision := m.judge(ctx, m.scope, call.ToolName, arguments)
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
		refusal := deniedByRule
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
	if m.judge(ctx, scope, tool, arguments) == domain.PermissionAllow {
		return false
	}

	reads, err := m.Ledger.ReadsOutside(ctx, m.key.ChatID)

	return reads || err != nil
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
