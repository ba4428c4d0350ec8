package workflows_test

import (
	"time"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
)

// newEnvironment returns one of the SDK's, without its limits of real time, which a busy
// machine passes: 3 s without an answer of an activity, 1 s for a workflow to yield.
func newEnvironment() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite

	return suite.NewTestWorkflowEnvironment().
		SetTestTimeout(5 * time.Minute).
		SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 5 * time.Minute})
}
