package app

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/server/service/worker/workerdeployment"
)

func TestPasses(t *testing.T) {
	t.Parallel()

	for _, passing := range []error{
		serviceerror.NewResourceExhausted(0, "busy"),
		serviceerror.NewDeadlineExceeded("slow"),
		context.DeadlineExceeded,
		serviceerror.NewFailedPreconditionf(workerdeployment.ErrCurrentVersionDoesNotHaveAllTaskQueues, "everloop:2"),
		fmt.Errorf(
			"promote: %w",
			serviceerror.NewFailedPreconditionf(workerdeployment.ErrRampingVersionDoesNotHaveAllTaskQueues, "everloop:2"),
		),
	} {
		require.True(t, passes(passing), passing)
	}

	for _, final := range []error{
		nil, errors.New("any"), serviceerror.NewFailedPrecondition("version not found"), serviceerror.NewNotFound("none"),
	} {
		require.False(t, passes(final), final)
	}
}
