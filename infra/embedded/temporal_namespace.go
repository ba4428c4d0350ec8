package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
)

// DefaultTemporalRetention is how long closed runs are visible to operators, unless there are more
// than maxClosedRuns.
const DefaultTemporalRetention = 7 * 24 * time.Hour

// Limits of the retention: the server rejects less; more would fill the database of a small
// machine.
const (
	MinTemporalRetention = time.Hour
	MaxTemporalRetention = 90 * 24 * time.Hour
)

// namespaceWait is the maximum time until the server's caches contain a new namespace.
const namespaceWait = 30 * time.Second

// ensureNamespace registers the namespace when missing, sets the retention, and returns when the
// server accepts requests for it.
func ensureNamespace(ctx context.Context, c client.Client, retention time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, namespaceWait)
	defer cancel()

	found, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: Namespace})
	if absent := (*serviceerror.NamespaceNotFound)(nil); errors.As(err, &absent) {
		_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace:                        Namespace,
			Description:                      "Everloop's chats, forks, tasks and schedules",
			WorkflowExecutionRetentionPeriod: durationpb.New(retention),
		})
	} else if err == nil && found.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration() != retention {
		_, err = c.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
			Namespace: Namespace, Config: &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(retention)},
		})
	}

	if err != nil {
		return fmt.Errorf("register namespace %s: %w", Namespace, err)
	}

	return poll(ctx, func() error { // the server's caches contain a new namespace after some seconds
		_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: Namespace})
		return err
	})
}

// poll repeats f until it succeeds or ctx is cancelled; it returns f's last error.
func poll(ctx context.Context, f func() error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()

	for {
		err := f()
		if err == nil {
			return nil
		}

		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
