package domain

import "encoding/json"

// How a question for permission is shown and answered. It is put to the user as
// an AskUserQuestion call of its own, beside the call that it holds back.
const (
	PermissionDisplayName = "Permission"

	PermissionAllowOnce    = "Allow"
	PermissionAllowSession = "Allow for this session"
	PermissionRefuse       = "Deny"
)

// AsksPermission reports whether the call is a question for permission, which the
// service asked and not the model.
func (c ToolCall) AsksPermission() bool { return c.DisplayName == PermissionDisplayName }

// PermissionVerdict reads the recorded answer to a question for permission. Only
// a clear yes allows; what the user wrote instead is the reason of a refusal.
func PermissionVerdict(answer string) (decision PermissionDecision, session bool, reason string) {
	var given struct {
		Answers []struct {
			Selected []string `json:"selected"`
			Custom   string   `json:"custom"`
		} `json:"answers"`
	}
	if json.Unmarshal([]byte(answer), &given) != nil || len(given.Answers) != 1 {
		return PermissionDeny, false, ""
	}
	one := given.Answers[0]
	if len(one.Selected) == 1 && one.Selected[0] != PermissionRefuse {
		return PermissionAllow, one.Selected[0] == PermissionAllowSession, ""
	}
	return PermissionDeny, false, one.Custom
}
