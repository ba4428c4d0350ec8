package app

import (
	"errors"

	"everloop/domain"
)

// forkSettings bound the sub-agents of a chat.
type forkSettings struct {
	ForkDepth  int `name:"subagent-depth" default:"3" env:"SUBAGENT_DEPTH" help:"How deep sub-agents may be nested; 0: none."`
	ForkAtOnce int `name:"subagents-at-once" default:"10" env:"SUBAGENTS_AT_ONCE" help:"How many sub-agents of a chat work at once; further ones wait."`
}

func (s forkSettings) check() error {
	var faults []error
	if s.ForkDepth < 0 {
		faults = append(faults, errors.New("SUBAGENT_DEPTH must not be negative"))
	}

	if s.ForkAtOnce < 1 {
		faults = append(faults, errors.New("SUBAGENTS_AT_ONCE must be at least 1"))
	}

	return errors.Join(faults...)
}

func (s forkSettings) forkLimits() domain.ForkLimits {
	limits := domain.DefaultForkLimits
	limits.Depth, limits.MaxConcurrent = s.ForkDepth, s.ForkAtOnce

	return limits
}
