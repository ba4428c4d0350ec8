package auth

import (
	"slices"

	"everloop/domain"
)

// Scope is a part of a user's rights. A key without scopes has all rights of its user; scopes
// only restrict.
type Scope string

// The scopes that a key can be restricted to.
const (
	SessionsRead  Scope = "sessions:read"
	SessionsWrite Scope = "sessions:write"
	Chat          Scope = "chat"
	Files         Scope = "files"
	Schedules     Scope = "schedules"
	Solutions     Scope = "solutions"
	Workspaces    Scope = "workspaces"
	Skills        Scope = "skills"
	SkillsWrite   Scope = "skills:write"
	Admin         Scope = "admin"
)

// What an operation can ask for in addition to a scope of the list.
const (
	AnyScope     Scope = ""             // every signed-in caller
	Unrestricted Scope = "unrestricted" // no key with scopes: one could lend itself more
)

// Check refuses a caller whose key may not be used for an operation of this scope.
func Check(caller domain.Caller, scope Scope) error {
	switch {
	case Allows(caller, scope):
		return nil
	case scope == Unrestricted:
		return domain.Newf(domain.Forbidden, CodeScopeMissing, "a key that is restricted to scopes cannot do this")
	default:
		return domain.Newf(domain.Forbidden, CodeScopeMissing, "the key lacks the scope %s", scope)
	}
}

// CodeScopeMissing is the code of a refusal by scope, over either edge.
const CodeScopeMissing = "scope_missing"

// Allows reports whether the caller's key may be used for an operation of this
// scope. Writing sessions includes reading them, writing skills reading those.
func Allows(caller domain.Caller, scope Scope) bool {
	if len(caller.Scopes) == 0 || scope == AnyScope {
		return true
	}

	has := func(s Scope) bool { return slices.Contains(caller.Scopes, string(s)) }

	return has(scope) ||
		scope == SessionsRead && has(SessionsWrite) ||
		scope == Skills && has(SkillsWrite)
}
