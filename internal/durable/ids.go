package durable

import (
	"strings"

	"go.temporal.io/sdk/temporal"
)

// SessionWorkflowID is the run that carries a session's chats, one after another.
func SessionWorkflowID(sessionID string) string { return "session/" + sessionID }

// TaskWorkflowID is the run of one background task.
func TaskWorkflowID(taskID string) string { return "task/" + taskID }

// ForkWorkflowID is the run of one sub-agent of a chat, by the call that owns it.
func ForkWorkflowID(chatID, toolCallID string) string { return "fork/" + chatID + "/" + toolCallID }

// ReplayWorkflowID is the run that plays the recorded events of a replay session.
func ReplayWorkflowID(sessionID string) string { return "replay/" + sessionID }

// CompactionWorkflowID is the run of one compaction that a client has asked for.
func CompactionWorkflowID(compactionID string) string { return "compact/" + compactionID }

// Search attributes by which operators find runs. They are registered with the
// namespace by infra/temporal.
var (
	SessionID  = temporal.NewSearchAttributeKeyKeyword("SessionId")
	OwnerID    = temporal.NewSearchAttributeKeyKeyword("OwnerId")
	SolutionID = temporal.NewSearchAttributeKeyKeyword("SolutionId")
	Kind       = temporal.NewSearchAttributeKeyKeyword("Kind")
	ChatStatus = temporal.NewSearchAttributeKeyKeyword("ChatStatus")
)

const (
	maxSummary = 200  // runes of an activity's summary
	maxMessage = 2000 // runes of an error's text in a history
)

// cut shortens text to n runes.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "�")
	for i := range text {
		if n == 0 {
			return text[:i] + "…"
		}
		n--
	}
	return text
}
