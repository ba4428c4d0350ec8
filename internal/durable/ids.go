package durable

import "strings"

// SessionWorkflowID returns the id of the workflow that runs a session's chats sequentially.
func SessionWorkflowID(sessionID string) string { return "session/" + sessionID }

// TaskWorkflowID returns the id of the workflow of a background task.
func TaskWorkflowID(taskID string) string { return "task/" + taskID }

// ForkWorkflowID returns the id of the workflow of a chat's sub-agent, by the call that owns it.
func ForkWorkflowID(chatID, toolCallID string) string { return "fork/" + chatID + "/" + toolCallID }

// ReplayWorkflowID returns the id of the workflow that plays the recorded events of a replay
// session.
func ReplayWorkflowID(sessionID string) string { return "replay/" + sessionID }

// CompactionWorkflowID returns the id of the workflow of a compaction that a client has
// requested.
func CompactionWorkflowID(compactionID string) string { return "compact/" + compactionID }

// DeletionWorkflowID returns the id of the workflow that removes the data of a deleted session.
func DeletionWorkflowID(sessionID string) string { return "delete/" + sessionID }

// ImportWorkflowID returns the id of the workflow that creates a session from an archive.
func ImportWorkflowID(sessionID string) string { return "import/" + sessionID }

// HistoryWorkflowID returns the id of the workflow of a rewind, change of branch or what-if.
func HistoryWorkflowID(sessionID, operationID string) string {
	return "history/" + sessionID + "/" + operationID
}

// ArchiveWorkflowID is the id of the workflow that archives the events of finished chats; at most
// one is open.
const ArchiveWorkflowID = "archive"

// ScheduleID returns the id of the Schedule of a scheduled task.
func ScheduleID(taskID string) string { return "task/" + taskID }

// ScheduledRunWorkflowID returns the id of the workflow of a scheduled task's run. With the id of
// a task it is the id in the action of its Schedule: Temporal appends the nominal time, which
// makes it the id of a run.
func ScheduledRunWorkflowID(runID string) string { return "schedule-run/" + runID }

// IssueRunWorkflowID returns the id of the workflow of an agent's work on an issue.
func IssueRunWorkflowID(runID string) string { return "issue-run/" + runID }

// TriggerWorkflowID returns the id of the workflow of a delivery of a trigger.
func TriggerWorkflowID(triggerID, deliveryID string) string {
	return "trigger/" + triggerID + "/" + deliveryID
}

const (
	maxSummary = 200  // maximum runes of an activity's summary
	maxMessage = 2000 // maximum runes of an error's text in a history
)

// cut truncates text to n runes.
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

// DAGRunWorkflowID returns the id of the workflow of a run of a production solution's DAG.
func DAGRunWorkflowID(solutionID, runID string) string { return "dag/" + solutionID + "/" + runID }

// KindOfWorkflow returns the kind of run of a workflow id, and the id of its subject. Empty: the
// id does not belong to the service.
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
	case "trigger":
		_, delivery, _ := strings.Cut(rest, "/")
		return "trigger", delivery
	case ArchiveWorkflowID:
		return "archive", ""
	}

	return "", ""
}

// SolutionOfDAGRun returns the id of the production solution in the workflow id of a DAG run.
func SolutionOfDAGRun(workflowID string) string {
	solution, _, _ := strings.Cut(strings.TrimPrefix(workflowID, "dag/"), "/")
	return solution
}

// DatabaseWorkflowID is the id of the run that records the database of the namespace. It is never
// executed.
const DatabaseWorkflowID = "database"
