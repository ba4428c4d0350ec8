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
	Triggers      Scope = "triggers"
	Solutions     Scope = "solutions"
	Workspaces    Scope = "workspaces"
	Skills        Scope = "skills"
	SkillsWrite   Scope = "skills:write"
	Admin         Scope = "admin"
)

// Requirements of an operation that are not scopes of the list.
const (
	AnyScope     Scope = ""             // every signed-in caller
	Unrestricted Scope = "unrestricted" // no restricted key: it could extend its rights
)

// Check rejects a caller whose key does not have the scope of an operation.
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

// CodeScopeMissing is the code of a rejection by scope, over either edge.
const CodeScopeMissing = "scope_missing"

// Allows reports whether the caller's key has the scope of an operation. Writing sessions
// includes reading them; writing skills includes reading skills.
func Allows(caller domain.Caller, scope Scope) bool {
	if len(caller.Scopes) == 0 || scope == AnyScope {
		return true
	}

	has := func(s Scope) bool { return slices.Contains(caller.Scopes, string(s)) }

	return has(scope) ||
		scope == SessionsRead && has(SessionsWrite) ||
		scope == Skills && has(SkillsWrite)
}
