package app

import (
	"errors"

	"everloop/domain"
)

// forkSettings bound the sub-agents of a chat.
type forkSettings struct {
	ForkDepth int `name:"subagent-depth" default:"3" env:"SUBAGENT_DEPTH" help:"How deep sub-agents may be nested; 0: none."`
}

func (s forkSettings) check() error {
	if s.ForkDepth < 0 {
		return errors.New("SUBAGENT_DEPTH must not be negative")
	}

	return nil
}

func (s forkSettings) forkLimits() domain.ForkLimits {
	limits := domain.DefaultForkLimits
	limits.Depth = s.ForkDepth

	return limits
}
