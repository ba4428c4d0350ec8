package domain

// RunStatus is the progress of a scheduled run.
type RunStatus string

// The statuses of a scheduled run.
const (
	RunRunning   RunStatus = "running"
	RunCompleted RunStatus = "completed"
	RunFailed    RunStatus = "failed"
)

// Reasons of ends that several kinds of runs share.
const (
	ReasonCancelled   = "cancelled_by_next_run"
	ReasonNotAnswered = "question_not_answered"
)

// RunEnd is how a scheduled run ended. Counts reports that it counts as a failure of its task.
type RunEnd struct {
	Status RunStatus
	Reason string
	Error  string
	Counts bool
}

// EndOfRun returns the end of a run whose chat ended with the reason.
func EndOfRun(reason FinishReason, code, message string, cancelled bool) RunEnd {
	switch {
	case cancelled:
		return RunEnd{Status: RunFailed, Reason: ReasonCancelled, Error: "the run was stopped for the next one"}
	case reason == FinishCompleted:
		return RunEnd{Status: RunCompleted}
	case reason == FinishInterrupted:
		return RunEnd{Status: RunFailed, Reason: string(reason), Error: "the chat was stopped"}
	case reason == FinishAwaitingAnswer:
		return RunEnd{Status: RunFailed, Reason: ReasonNotAnswered, Error: "the chat was ended before its question was answered"}
	}

	end := RunEnd{Status: RunFailed, Reason: string(reason), Error: message, Counts: true}
	if code != "" {
		end.Reason = code
	}

	if end.Error == "" {
		end.Error = "the chat ended as " + string(reason)
	}

	return end
}

// Retried reports whether a run that ended this way is worth another attempt: it failed, and
// not because of its input, a limit or a person.
func (e RunEnd) Retried() bool {
	switch FinishReason(e.Reason) {
	case FinishMaxSteps, FinishStuckDetected, FinishContextOverflow, FinishBudgetExhausted, FinishOutputLimit, FinishContentFiltered,
		CodeModelQuota:
		return false
	default:
		return e.Status == RunFailed && e.Counts
	}
}

// RunChat is the chat of a run, with its session and the session's owner. The session may have
// other chats, of its owner or of other runs.
type RunChat struct {
	OwnerID   string
	SessionID SessionID
	ChatID    ChatID
}

// ChatWaiter is a workflow that waits for the end of a chat.
type ChatWaiter struct {
	ChatID     ChatID
	WorkflowID string
}
