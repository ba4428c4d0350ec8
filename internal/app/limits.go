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
	UserCalls     int64         `name:"user-calls-per-day" default:"200000" env:"USER_CALLS_PER_DAY" help:"Model calls of all sessions of a user on one day (UTC); 0: no limit."`
	ParallelTools int           `default:"32" env:"PARALLEL_TOOLS" help:"Tool calls of one turn that run at once."`
	BashTimeout   time.Duration `default:"2m" env:"BASH_TIMEOUT" help:"Time of a command that names none."`
	BashMost      time.Duration `name:"bash-max-timeout" default:"10m" env:"BASH_MAX_TIMEOUT" help:"Time that a command may name; longer ones are background tasks."`
	ToolResult    int           `name:"tool-result-characters" default:"100000" env:"TOOL_RESULT_CHARACTERS" help:"Characters of a tool's result that a model gets; the rest is kept as a file."`
}

// Bounds of the settings. A command is a tool call, which has 15 minutes
// (tools.DefaultTimeLimit): it ends by its own limit before.
const (
	maxParallelTools = 1000
	maxBash          = 14 * time.Minute
	leastToolResult  = 1000
	maxToolResult    = 10_000_000
)

func (s limitSettings) check() error {
	var faults []error
	if s.MaxSteps < 1 || s.MaxSteps > domain.MostSteps {
		faults = append(faults, fmt.Errorf("MAX_STEPS must be from 1 to %d", domain.MostSteps))
	}

	if s.UserCalls < 0 {
		faults = append(faults, errors.New("USER_CALLS_PER_DAY must be at least 0"))
	}

	if s.ParallelTools < 1 || s.ParallelTools > maxParallelTools {
		faults = append(faults, fmt.Errorf("PARALLEL_TOOLS must be from 1 to %d", maxParallelTools))
	}

	if s.BashMost < time.Second || s.BashMost > maxBash {
		faults = append(faults, fmt.Errorf("BASH_MAX_TIMEOUT must be from 1s to %s", maxBash))
	}

	if s.BashTimeout < time.Second || s.BashTimeout > s.BashMost {
		faults = append(faults, errors.New("BASH_TIMEOUT must be from 1s to BASH_MAX_TIMEOUT"))
	}

	if s.ToolResult < leastToolResult || s.ToolResult > maxToolResult {
		faults = append(faults, fmt.Errorf("TOOL_RESULT_CHARACTERS must be from %d to %d", leastToolResult, maxToolResult))
	}

	return errors.Join(faults...)
}

func (s limitSettings) toolLimits() tools.Limits {
	return tools.Limits{Result: s.ToolResult, BashTimeout: s.BashTimeout, BashMost: s.BashMost}
}
