package temporal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"everloop/internal/durable"
)

// attributesWait is the maximum time until the server's caches contain a new search attribute.
const attributesWait = 30 * time.Second

// registerAttributes registers the search attributes that the namespace lacks, and returns when
// queries and workflows can use all of them. Without the permission to register, the error names
// the command.
func registerAttributes(ctx context.Context, c client.Client, namespace string) error {
	err := useAttributes(ctx, c, namespace)
	if _, invalid := errors.AsType[*serviceerror.InvalidArgument](err); err != nil && !invalid {
		return fmt.Errorf("query Temporal's namespace %s: %w", namespace, err)
	} else if err == nil {
		return nil
	}

	return awaitAttributes(ctx, c, namespace)
}

// useAttributes sends a query with all attributes: InvalidArgument when one is missing.
func useAttributes(ctx context.Context, c client.Client, namespace string) error {
	var terms []string
	for _, key := range durable.AttributeKeys {
		terms = append(terms, key.GetName()+" = 'none'")
	}

	_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: namespace, Query: strings.Join(terms, " AND "),
	})

	return err
}

func addAttributes(ctx context.Context, c client.Client, namespace string) error {
	known, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return refused(namespace, durable.AttributeKeys[0].GetName(), err)
	}

	for _, key := range durable.AttributeKeys {
		name := key.GetName()

		kind, exists := known.GetCustomAttributes()[name]
		if exists && kind != enumspb.INDEXED_VALUE_TYPE_KEYWORD {
			return fmt.Errorf("search attribute %s of Temporal's namespace %s must be a Keyword, and is %v", name, namespace, kind)
		}

		if exists {
			continue
		}

		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: namespace, SearchAttributes: map[string]enumspb.IndexedValueType{name: enumspb.INDEXED_VALUE_TYPE_KEYWORD},
		})
		if _, denied := errors.AsType[*serviceerror.PermissionDenied](err); denied {
			return refused(namespace, name, err)
		}

		if _, denied := errors.AsType[*serviceerror.Unimplemented](err); denied {
			return refused(namespace, name, err)
		}
		// Any other error can mean that another process registers it at the same time.
	}

	return nil
}

func refused(namespace, name string, err error) error {
	return fmt.Errorf("Temporal's namespace %s lacks a search attribute, and its server refuses to register it: run temporal operator "+
		"search-attribute create --namespace %s --name %s --type Keyword, and the same for the other attributes of "+
		"docs/operators/temporal.md: %w", namespace, namespace, name, err)
}

// awaitAttributes registers attributes until the server's caches contain all of them: a concurrent
// change of the namespace can prevent that.
func awaitAttributes(ctx context.Context, c client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, attributesWait)
	defer cancel()

	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()

	for {
		if err := addAttributes(ctx, c, namespace); err != nil {
			return err
		}

		err := useAttributes(ctx, c, namespace)
		if err == nil {
			return nil
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the search attributes of Temporal's namespace %s: %w", namespace, err)
		case <-tick.C:
		}
	}
}
