package app

import (
	"errors"
	"fmt"
	"time"

	"everloop/activities/tools"
	"everloop/domain"
)

// limitSettings bound what one chat and one tool call may do.
type limitSettings struct {
	MaxSteps      int           `default:"200" env:"MAX_STEPS" help:"Model calls of one chat, unless its session or solution says otherwise."`
	ParallelTools int           `default:"32" env:"PARALLEL_TOOLS" help:"Tool calls of one turn that run at once."`
	BashTimeout   time.Duration `default:"2m" env:"BASH_TIMEOUT" help:"Time of a command that names none."`
	ToolResult    int           `name:"tool-result-characters" default:"100000" env:"TOOL_RESULT_CHARACTERS" help:"Characters of a tool's result that a model gets; the rest is kept as a file."`
}

const (
	maxParallelTools = 1000
	// maxBash is the longest time that a command may name; a longer one is a background
	// task. It is below the 15 minutes of a tool call (tools.DefaultTimeLimit).
	maxBash = 10 * time.Minute
	// userCallsPerDay bounds the model calls of all sessions of one user on one day (UTC):
	// a stop for a loop that no budget of a session holds.
	userCallsPerDay = 200_000

	leastToolResult = 1000
	maxToolResult   = 10_000_000
)

func (s limitSettings) check() error {
	var faults []error
	if s.MaxSteps < 1 || s.MaxSteps > domain.MostSteps {
		faults = append(faults, fmt.Errorf("MAX_STEPS must be from 1 to %d", domain.MostSteps))
	}

	if s.ParallelTools < 1 || s.ParallelTools > maxParallelTools {
		faults = append(faults, fmt.Errorf("PARALLEL_TOOLS must be from 1 to %d", maxParallelTools))
	}

	if s.BashTimeout < time.Second || s.BashTimeout > maxBash {
		faults = append(faults, fmt.Errorf("BASH_TIMEOUT must be from 1s to %s", maxBash))
	}

	if s.ToolResult < leastToolResult || s.ToolResult > maxToolResult {
		faults = append(faults, fmt.Errorf("TOOL_RESULT_CHARACTERS must be from %d to %d", leastToolResult, maxToolResult))
	}

	return errors.Join(faults...)
}

func (s limitSettings) toolLimits() tools.Limits {
	return tools.Limits{Result: s.ToolResult, BashTimeout: s.BashTimeout, BashMost: maxBash}
}
