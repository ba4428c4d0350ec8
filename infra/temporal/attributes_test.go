package temporal_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"everloop/infra/temporal"
	"everloop/internal/durable"
)

// dial connects and closes the connection again.
func dial(t *testing.T, options client.Options) error {
	t.Helper()

	reached, err := temporal.Dial(t.Context(), options, slog.New(slog.DiscardHandler))
	if err == nil {
		reached.Close()
	}

	return err
}

func TestDial_registersSearchAttributes(t *testing.T) {
	t.Parallel()
	options := bareNamespace(t)

	var (
		processes sync.WaitGroup
		errs      [3]error
	)

	for i := range errs { // an api and two workers start at the same time
		processes.Go(func() { errs[i] = dial(t, options) })
	}

	processes.Wait()

	for _, err := range errs {
		require.NoError(t, err)
	}

	reached, err := temporal.Dial(t.Context(), options, slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	defer reached.Close()

	_, err = reached.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		TaskQueue: "no-worker", TypedSearchAttributes: durable.Attributes{Kind: "chat", ParentRun: "task/t"}.Typed(),
	}, "Chat")
	require.NoError(t, err)
}

// Temporal Cloud and servers with their own authorizer refuse to register attributes.
func TestDial_mayNotRegisterSearchAttributes(t *testing.T) {
	t.Parallel()

	bare := bareNamespace(t)
	refusing := func(options client.Options, method string, code codes.Code) client.Options {
		options.ConnectionOptions.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, called string, in, out any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
				more ...grpc.CallOption,
			) error {
				if strings.HasSuffix(called, "/"+method) {
					return status.Error(code, "refused")
				}

				return call(ctx, called, in, out, conn, more...)
			},
		)}

		return options
	}

	for method, code := range map[string]codes.Code{
		"AddSearchAttributes": codes.PermissionDenied, "ListSearchAttributes": codes.Unimplemented,
	} {
		err := dial(t, refusing(bare, method, code))
		require.ErrorContains(
			t,
			err,
			"temporal operator search-attribute create --namespace "+bare.Namespace+" --name SessionId --type Keyword",
		)
	}

	registered := bareNamespace(t)
	require.NoError(t, dial(t, registered))
	require.NoError(t, dial(t, refusing(registered, "ListSearchAttributes", codes.PermissionDenied)))

	registered.Namespace = "missing"
	require.ErrorContains(t, dial(t, registered), "Temporal's namespace missing")
}
