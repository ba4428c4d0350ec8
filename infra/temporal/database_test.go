package temporal_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"everloop/domain"
	"everloop/domain/operator"
	"everloop/infra/temporal"
	"everloop/internal/testkit"
)

// bareNamespace registers a namespace without search attributes, and returns the options of its
// clients.
func bareNamespace(t *testing.T) client.Options {
	t.Helper()

	options := testkit.Temporal(t)
	options.Namespace = testkit.Prefix(t)

	reached, err := client.DialContext(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(reached.Close)

	_, err = reached.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: options.Namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)

	require.Eventually(t, func() bool { // the server's caches know it
		_, err := reached.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Namespace: options.Namespace})
		return err == nil
	}, time.Minute, 50*time.Millisecond)

	return options
}

// newNamespace registers a namespace of this test alone, in which it counts open runs.
func newNamespace(t *testing.T) temporal.Database {
	t.Helper()

	options := bareNamespace(t)

	reached, err := temporal.Dial(t.Context(), options, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(reached.Close)

	return temporal.Database{Client: reached, Namespace: options.Namespace, Logger: slog.New(slog.DiscardHandler)}
}

// start starts a run that no worker takes, and waits until the namespace counts it.
func start(t *testing.T, d temporal.Database) client.WorkflowRun {
	t.Helper()

	run, err := d.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "no-worker"}, "Chat")
	require.NoError(t, err)
	countsOpen(t, d, 1)

	return run
}

func countsOpen(t *testing.T, d temporal.Database, want int64) {
	t.Helper()

	require.Eventually(t, func() bool {
		open, err := temporal.CountOpen(t.Context(), d.Client, d.Namespace)
		return err == nil && open == want
	}, time.Minute, 50*time.Millisecond)
}

func TestDatabase_Claim(t *testing.T) {
	t.Parallel()

	d := newNamespace(t)
	restored, old := domain.NewID(), domain.NewID()

	// Processes that start for the first time, all at once.
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := d.Claim(t.Context(), old); err != nil {
				t.Error(err)
			}
		})
	}

	all.Wait()

	run := start(t, d)
	require.NoError(t, d.Claim(t.Context(), old), "a later start")

	// Restored in front of the namespace of the old database, rolled back, or another one.
	err := d.Claim(t.Context(), restored)
	require.ErrorContains(t, err, d.Namespace+" has 1 open runs that belong to another database")
	require.ErrorContains(t, err, "temporal workflow terminate --namespace "+d.Namespace)
	require.NoError(t, d.Claim(t.Context(), old), "the refused start changed nothing")

	// Nothing is left there that could work on this database.
	require.NoError(t, d.Client.TerminateWorkflow(t.Context(), run.GetID(), "", "restored"))
	countsOpen(t, d, 0)
	require.NoError(t, d.Claim(t.Context(), restored))

	run = start(t, d)
	require.NoError(t, d.Claim(t.Context(), restored))
	require.ErrorContains(t, d.Claim(t.Context(), old), "belong to another database")

	// The command of the error ends the note of the namespace, too.
	for _, id := range []string{run.GetID(), "database"} {
		require.NoError(t, d.Client.TerminateWorkflow(t.Context(), id, "", "restored"))
	}

	countsOpen(t, d, 0)
	require.NoError(t, d.Claim(t.Context(), old))
	start(t, d)
	require.ErrorContains(t, d.Claim(t.Context(), restored), "belong to another database")
}

// A server of Temporal that was lost and came back empty belongs to the first that asks.
func TestDatabase_Claim_emptyNamespaceWithRuns(t *testing.T) {
	t.Parallel()

	d := newNamespace(t)
	start(t, d)
	require.NoError(t, d.Claim(t.Context(), domain.NewID()), "runs of a version before the note")
	require.ErrorContains(t, d.Claim(t.Context(), domain.NewID()), "belong to another database")
}

// The run that marks the namespace is not a run of the service: administrators neither see nor end it.
func TestOperator_Runs_withoutTheMark(t *testing.T) {
	t.Parallel()

	d := newNamespace(t)
	require.NoError(t, d.Claim(t.Context(), domain.NewID()))

	var all *workflowservice.ListWorkflowExecutionsResponse

	require.Eventually(t, func() bool { // the list has it
		var err error

		all, err = d.Client.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: d.Namespace})
		return err == nil && len(all.GetExecutions()) == 1
	}, time.Minute, 50*time.Millisecond)

	o := temporal.Operator{Client: d.Client}
	runs, _, err := o.Runs(t.Context(), operator.RunQuery{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, runs)

	mark := all.GetExecutions()[0].GetExecution().GetWorkflowId()
	require.EqualValues(t, "run_not_found", domain.AsError(o.Cancel(t.Context(), mark)).Code)
}
