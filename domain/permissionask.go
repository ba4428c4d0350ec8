package domain

import "encoding/json"

// How a question for permission is shown and answered. It is put to the user as
// an AskUserQuestion call of its own, beside the call that it holds back.
const (
	PermissionDisplayName = "Permission"

	PermissionAllowOnce    = "Allow"
	PermissionAllowSession = "Allow for this session"
	PermissionAllowAlways  = "Always allow"
	PermissionRefuse       = "Deny"
)

// PermissionExtent is what an answer to a question for permission holds for.
type PermissionExtent int

// The call that was asked about; the same in its session; the same in all sessions of
// the user.
const (
	PermittedOnce PermissionExtent = iota
	PermittedInSession
	PermittedAlways
)

// AsksPermission reports whether the call is a question for permission, which the
// service asked and not the model.
func (c ToolCall) AsksPermission() bool { return c.DisplayName == PermissionDisplayName }

var extents = map[string]PermissionExtent{PermissionAllowSession: PermittedInSession, PermissionAllowAlways: PermittedAlways}

// PermissionVerdict reads the recorded answer to a question for permission. Only
// a clear yes allows; what the user wrote instead is the reason of a refusal.
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
