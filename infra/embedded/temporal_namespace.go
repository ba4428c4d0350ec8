package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
)

// DefaultTemporalRetention is how long closed runs are visible to operators. Users never see
// them, and each step of a chat adds several events to them.
const DefaultTemporalRetention = 6 * time.Hour

// Limits of the retention: the server rejects less; more would fill the database of a small
// machine.
const (
	MinTemporalRetention = time.Hour
	MaxTemporalRetention = 90 * 24 * time.Hour
)

// searchAttributes are the attributes for filtering workflows; all are keywords.
var searchAttributes = []string{"SessionId", "OwnerId", "SolutionId", "Kind", "ChatStatus"}

// namespaceWait is the maximum time until the server's caches contain a new namespace.
const namespaceWait = 30 * time.Second

// ensureNamespace registers the namespace and its search attributes when missing, sets the
// retention, and returns when the server accepts requests for them.
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

	missing, err := missingAttributes(ctx, c)
	if err != nil {
		return err
	}

	if len(missing) == 0 {
		return nil
	}

	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: Namespace, SearchAttributes: missing,
	})
	if err != nil {
		return fmt.Errorf("add search attributes: %w", err)
	}

	return awaitAttributes(ctx, c)
}

// missingAttributes returns the search attributes to add. It retries while the server's cache
// does not contain a new namespace yet.
func missingAttributes(ctx context.Context, c client.Client) (map[string]enumspb.IndexedValueType, error) {
	var known *operatorservice.ListSearchAttributesResponse

	err := poll(ctx, func() (err error) {
		known, err = c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: Namespace})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list search attributes: %w", err)
	}

	missing := map[string]enumspb.IndexedValueType{}

	for _, name := range searchAttributes {
		switch kind, exists := known.GetCustomAttributes()[name]; {
		case !exists:
			missing[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
		case kind != enumspb.INDEXED_VALUE_TYPE_KEYWORD:
			return nil, fmt.Errorf("search attribute %s has type %v, Keyword is needed", name, kind)
		}
	}

	return missing, nil
}

// awaitAttributes returns when a query can use every attribute: the server's caches contain a
// change after some seconds.
func awaitAttributes(ctx context.Context, c client.Client) error {
	for _, name := range searchAttributes {
		err := poll(ctx, func() error {
			_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
				Namespace: Namespace, Query: name + ` = "none"`,
			})

			return err
		})
		if err != nil {
			return fmt.Errorf("wait for search attribute %s: %w", name, err)
		}
	}

	return nil
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
