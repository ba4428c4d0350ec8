package app

import (
	"errors"
	"time"

	"everloop/domain"
)

// forkSettings bound the sub-agents of a chat.
type forkSettings struct {
	ForkDepth  int           `name:"subagent-depth" default:"3" env:"SUBAGENT_DEPTH" help:"How deep sub-agents may be nested; 0: none."`
	ForkAtOnce int           `name:"subagents-at-once" default:"10" env:"SUBAGENTS_AT_ONCE" help:"How many sub-agents of a chat work at once; further ones wait."`
	ForkSteps  int           `name:"subagent-steps" default:"200" env:"SUBAGENT_STEPS" help:"Model calls that one sub-agent may make."`
	ForkTime   time.Duration `name:"subagent-time" default:"1h" env:"SUBAGENT_TIME" help:"How long one sub-agent may work."`
}

func (s forkSettings) check() error {
	var faults []error
	if s.ForkDepth < 0 {
		faults = append(faults, errors.New("SUBAGENT_DEPTH must not be negative"))
	}

	if s.ForkAtOnce < 1 {
		faults = append(faults, errors.New("SUBAGENTS_AT_ONCE must be at least 1"))
	}

	if s.ForkSteps < 1 {
		faults = append(faults, errors.New("SUBAGENT_STEPS must be at least 1"))
	}

	if s.ForkTime < time.Second {
		faults = append(faults, errors.New("SUBAGENT_TIME must be at least 1s"))
	}

	return errors.Join(faults...)
}

func (s forkSettings) forkLimits() domain.ForkLimits {
	return domain.ForkLimits{Depth: s.ForkDepth, MaxConcurrent: s.ForkAtOnce, Steps: s.ForkSteps, Time: s.ForkTime}
}
