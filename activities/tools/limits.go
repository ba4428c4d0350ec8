package tools

import "time"

// Limits are the bounds of tool calls that an operator can change
// (docs/configuration.md#tools). Fields left out take the defaults.
type Limits struct {
	Result      int           // characters that one call gives to the model; MaxResult
	BashTimeout time.Duration // of a command that names none; DefaultBashTimeout
	BashMost    time.Duration // that a command may name; MaxBashTimeout
}

// The defaults of Limits.
const (
	MaxResult          = 100_000
	DefaultBashTimeout = 2 * time.Minute
	MaxBashTimeout     = 10 * time.Minute
)

// OrDefault fills in what is left out.
func (l Limits) OrDefault() Limits {
	if l.Result == 0 {
		l.Result = MaxResult
	}

	if l.BashTimeout == 0 {
		l.BashTimeout = DefaultBashTimeout
	}

	if l.BashMost == 0 {
		l.BashMost = MaxBashTimeout
	}

	return l
}
