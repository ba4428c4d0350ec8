package schedule

import (
	"fmt"
	"strings"
	"time"

	"everloop/domain"
)

// Bounds of the outcome contract of a scheduled task.
const (
	MaxOutcomeFiles    = 20
	MaxOutcomeCommands = 10
	OutcomeCommandTime = 5 * time.Minute // of one command
	MaxCheckOutput     = 4000            // characters of a command's output in the record
)

// Kinds of checks after a run.
const (
	CheckFile    = "file"
	CheckCommand = "command"
)

// RunCheck is the result of checking one part of an outcome contract after a run.
type RunCheck struct {
	Kind       string `json:"kind" enum:"file,command" doc:"What was checked."`
	Subject    string `json:"subject" doc:"The pattern of the file, or the command." example:"report/*.md"`
	Met        bool   `json:"met" doc:"Whether a file exists, or the command ended with exit code 0."`
	Reason     string `json:"reason,omitempty" doc:"Why it is not met; left out: it is." example:"exit code 1"`
	ExitCode   *int   `json:"exit_code,omitempty" doc:"Exit code of the command; left out: it has none."`
	Output     string `json:"output,omitempty" doc:"What the command wrote, shortened in its middle to 4,000 characters."`
	DurationMS int64  `json:"duration_ms" doc:"Duration in milliseconds." example:"120"`
}

// RunNext is the next action for a scheduled run.
type RunNext string

// It waits for its chat, its outcome must be checked, or it has finished.
const (
	RunWaits  RunNext = "waits"
	RunChecks RunNext = "checks"
	RunOver   RunNext = "over"
)

// OutcomeRun is a run whose chat has ended and whose outcome must be checked.
type OutcomeRun struct {
	RunID     string
	Session   domain.Session
	Files     []string
	Commands  []string
	Cancelled bool // no further checks are needed
}

// HasOutcome reports whether the task has conditions to check after a run, in addition to the
// schema of its result.
func (s TaskSpec) HasOutcome() bool { return len(s.Files)+len(s.Commands) > 0 }

// EndOfChecks returns the end of a run whose chat was completed and whose outcome was checked.
func EndOfChecks(checks []RunCheck) domain.RunEnd {
	var missing []string

	for _, c := range checks {
		if c.Met {
			continue
		}

		subject := c.Subject
		if runes := []rune(subject); len(runes) > 100 {
			subject = string(runes[:99]) + "…"
		}

		missing = append(missing, fmt.Sprintf("%s %q: %s", c.Kind, subject, c.Reason))
	}

	if len(missing) == 0 {
		return domain.RunEnd{Status: domain.RunCompleted}
	}

	return domain.RunEnd{
		Status: domain.RunFailed, Reason: ReasonOutcomeNotMet, Counts: true,
		Error: "the outcome contract is not met: " + strings.Join(missing, "; "),
	}
}
