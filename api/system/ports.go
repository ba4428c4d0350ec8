package system

import (
	"context"
)

// Degraded is an error of a dependency that still serves, and soon may not.
type Degraded struct{ Err error }

// Error implements error.
func (d Degraded) Error() string { return d.Err.Error() }

// Readiness checks the dependencies: by name, nil or the error; Degraded for a
// dependency that does not keep the process from serving.
type Readiness func(ctx context.Context) map[string]error
