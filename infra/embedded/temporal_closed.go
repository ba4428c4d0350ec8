package embedded

import (
	"context"
	"errors"
	"log/slog"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// maxClosedRuns is the maximum number of closed runs that the server keeps, whatever the
// retention: a run takes some 45 KB (docs/operators/disk.md), so they take some 4.5 GB.
const maxClosedRuns = 100_000

const (
	closedPeriod  = 10 * time.Minute
	maxDeletions  = 10_000 // per period
	deletionsPage = 500
)

// keepClosedRuns deletes closed runs above maxClosedRuns until ctx is cancelled.
func keepClosedRuns(ctx context.Context, options client.Options, logger *slog.Logger) error {
	options.Namespace, options.Logger = Namespace, sdkLogger{}
	options.ConnectionOptions.GetSystemInfoTimeout = namespaceWait

	c, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}

	go func() {
		defer c.Close()

		tick := time.NewTicker(closedPeriod)
		defer tick.Stop()

		for {
			if deleted, err := pruneClosedRuns(ctx, c, maxClosedRuns); err != nil && ctx.Err() == nil {
				logger.Warn("failed to delete closed runs above the limit", "error", err)
			} else if deleted > 0 {
				logger.Warn("deleted closed runs above the limit", "runs", deleted, "limit", maxClosedRuns)
			}

			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()

	return nil
}

// pruneClosedRuns deletes the runs that closed first, until at most limit closed runs are left,
// and returns the number of deletions. The server carries them out later.
func pruneClosedRuns(ctx context.Context, c client.Client, limit int64) (deleted int64, err error) {
	count, err := countClosed(ctx, c, time.Now())
	if err != nil || count <= limit {
		return 0, err
	}

	until, err := closedFirst(ctx, c, min(count-limit, maxDeletions))
	if err != nil {
		return 0, err
	}

	var page []byte

	for {
		list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: Namespace, PageSize: deletionsPage, NextPageToken: page, Query: closedBefore(until),
		})
		if err != nil {
			return deleted, err
		}

		for _, run := range list.GetExecutions() {
			_, err := c.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
				Namespace: Namespace, WorkflowExecution: &commonpb.WorkflowExecution{
					WorkflowId: run.GetExecution().GetWorkflowId(), RunId: run.GetExecution().GetRunId(),
				},
			})
			if _, gone := errors.AsType[*serviceerror.NotFound](err); err != nil && !gone {
				return deleted, err
			}

			deleted++
		}

		if page = list.GetNextPageToken(); len(page) == 0 {
			return deleted, nil
		}
	}
}

// closedFirst returns the latest time before which at most n runs closed, within a millisecond:
// the server cannot sort a list by it.
func closedFirst(ctx context.Context, c client.Client, n int64) (time.Time, error) {
	late := time.Now()
	early := late.Add(-MaxTemporalRetention)

	for late.Sub(early) > time.Millisecond {
		middle := early.Add(late.Sub(early) / 2)

		count, err := countClosed(ctx, c, middle)
		if err != nil {
			return early, err
		}

		if count <= n {
			early = middle
		} else {
			late = middle
		}
	}

	return early, nil
}

func countClosed(ctx context.Context, c client.Client, until time.Time) (int64, error) {
	count, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: Namespace, Query: closedBefore(until)})
	return count.GetCount(), err
}

func closedBefore(until time.Time) string {
	return "ExecutionStatus != 'Running' AND CloseTime < '" + until.UTC().Format(time.RFC3339Nano) + "'"
}
