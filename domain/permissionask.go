package domain

import "encoding/json"

// How a permission question is shown and answered. The user sees it as a separate
// AskUserQuestion call, next to the call that it blocks.
const (
	PermissionDisplayName = "Permission"

	PermissionAllowOnce    = "Allow"
	PermissionAllowSession = "Allow for this session"
	PermissionAllowAlways  = "Always allow"
	PermissionRefuse       = "Deny"
)

// PermissionExtent is the scope of an answer to a permission question.
type PermissionExtent int

// The call of the question; the same call in its session; the same call in all sessions of the
// user.
const (
	PermittedOnce PermissionExtent = iota
	PermittedInSession
	PermittedAlways
)

// AsksPermission reports whether the call is a permission question, which the service and not
// the model asks.
func (c ToolCall) AsksPermission() bool { return c.DisplayName == PermissionDisplayName }

var extents = map[string]PermissionExtent{PermissionAllowSession: PermittedInSession, PermissionAllowAlways: PermittedAlways}

// PermissionVerdict parses the recorded answer to a permission question. Only a clear yes
// allows; any other text of the user is the reason of a refusal.
func PermissionVerdict(answer string) (decision PermissionDecision, extent PermissionExtent, reason string) {
	var given struct {
		Answers []struct {
			Selected []string `json:"selected"`
			Custom   string   `json:"custom"`
		} `json:"answers"`
	}
	if json.Unmarshal([]byte(answer), &given) != nil || len(given.Answers) != 1 {
		return PermissionDeny, PermittedOnce, ""
	}

	one := given.Answers[0]
	if len(one.Selected) == 1 && one.Selected[0] != PermissionRefuse {
		return PermissionAllow, extents[one.Selected[0]], ""
	}

	return PermissionDeny, PermittedOnce, one.Custom
}
