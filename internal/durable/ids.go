package durable

import (
	"strings"

	"go.temporal.io/sdk/temporal"
)

// SessionWorkflowID returns the run that carries a session's chats, one after another.
func SessionWorkflowID(sessionID string) string { return "session/" + sessionID }

// TaskWorkflowID returns the run of one background task.
func TaskWorkflowID(taskID string) string { return "task/" + taskID }

// ForkWorkflowID returns the run of one sub-agent of a chat, by the call that owns it.
func ForkWorkflowID(chatID, toolCallID string) string { return "fork/" + chatID + "/" + toolCallID }

// ReplayWorkflowID returns the run that plays the recorded events of a replay session.
func ReplayWorkflowID(sessionID string) string { return "replay/" + sessionID }

// CompactionWorkflowID returns the run of one compaction that a client has asked for.
func CompactionWorkflowID(compactionID string) string { return "compact/" + compactionID }

// DeletionWorkflowID returns the run that removes what a deleted session held.
func DeletionWorkflowID(sessionID string) string { return "delete/" + sessionID }

// ImportWorkflowID returns the run that makes a session of an archive.
func ImportWorkflowID(sessionID string) string { return "import/" + sessionID }

// HistoryWorkflowID returns the run of one rewind, change of branch or what-if.
func HistoryWorkflowID(sessionID, operationID string) string {
	return "history/" + sessionID + "/" + operationID
}

// ArchiveWorkflowID is the run that archives the events of chats that ended; one is
// open at a time.
const ArchiveWorkflowID = "archive"

// ScheduleID returns the Schedule of a scheduled task.
func ScheduleID(taskID string) string { return "task/" + taskID }

// ScheduledRunWorkflowID returns the run that carries one run of a scheduled task. With the id of a task it
// is that of the action of its Schedule: Temporal appends the nominal time, which makes it that of a run.
func ScheduledRunWorkflowID(runID string) string { return "schedule-run/" + runID }

// IssueRunWorkflowID returns the run that carries the work of an agent on an issue.
func IssueRunWorkflowID(runID string) string { return "issue-run/" + runID }

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

// DAGRunWorkflowID returns the run that carries one run of a production solution's DAG.
func DAGRunWorkflowID(solutionID, runID string) string { return "dag/" + solutionID + "/" + runID }

// KindOfWorkflow returns the kind of run that has the id of a workflow, with the id of what it
// carries. Empty: no run of the service has such an id.
func KindOfWorkflow(workflowID string) (kind, id string) {
	prefix, rest, _ := strings.Cut(workflowID, "/")
	switch prefix {
	case "session":
		return "chat", rest
	case "fork":
		_, call, _ := strings.Cut(rest, "/")
		return "fork", call
	case "task", "replay", "import":
		return prefix, rest
	case "compact":
		return "compaction", rest
	case "delete":
		return "deletion", rest
	case "history":
		_, operation, _ := strings.Cut(rest, "/")
		return "history", operation
	case "schedule-run":
		return "schedule", rest
	case "issue-run":
		return "issue", rest
	case "dag":
		_, run, _ := strings.Cut(rest, "/")
		return "dag", run
	case ArchiveWorkflowID:
		return "archive", ""
	}

	return "", ""
}

// SolutionOfDAGRun returns the production solution in the id of the workflow of a DAG run.
func SolutionOfDAGRun(workflowID string) string {
	solution, _, _ := strings.Cut(strings.TrimPrefix(workflowID, "dag/"), "/")
	return solution
}

// DatabaseWorkflowID is the run that says to which database the namespace belongs. It never
// does anything.
const DatabaseWorkflowID = "database"
