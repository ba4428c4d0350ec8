package tasks

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
)

// A background task that found no slot says so; other faults of the sandbox do not
// show themselves.
func TestEnded_refusedBySandbox(t *testing.T) {
	t.Parallel()

	refused := domain.Newf(domain.RateLimited, "too_many_commands", "the command did not run")
	end := ended(tools.Exit{}, refused, nil, Limits{})
	require.Equal(t, domain.TaskFailed, end.Status)
	require.Equal(t, "the command did not run", end.Reason)
	end = ended(tools.Exit{}, errors.New("no more pids"), nil, Limits{})
	require.Equal(t, "the sandbox failed", end.Reason)
}
