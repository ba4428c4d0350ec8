package temporal_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"everloop/infra/temporal"
	"everloop/internal/testkit"
)

// TestDeployment_Refusal: a server that has no worker deployments is recognised, with
// its reason; one that cannot be asked is not taken for such a one.
func TestDeployment_Refusal(t *testing.T) {
	t.Parallel()

	server := testkit.Temporal(t)
	for name, c := range map[string]struct {
		answer  error
		refused bool
		failed  bool
	}{
		"the feature is there": {},
		"an older server":      {answer: status.Error(codes.Unimplemented, "unknown method DescribeWorkerDeployment"), refused: true},
		"disabled for the namespace": {answer: status.Error(codes.PermissionDenied, "Worker Deployment Versions are disabled on this "+
			"namespace."), refused: true},
		"a busy server":               {answer: status.Error(codes.ResourceExhausted, "too many requests")},
		"a server that fails to look": {answer: status.Error(codes.InvalidArgument, "no"), failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			options := server
			options.ConnectionOptions.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(
				func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
					more ...grpc.CallOption,
				) error {
					if c.answer != nil && strings.HasSuffix(method, "/DescribeWorkerDeployment") {
						return c.answer
					}

					return call(ctx, method, in, out, conn, more...)
				},
			)}
			reached, err := temporal.Dial(t.Context(), options, slog.New(slog.DiscardHandler))
			require.NoError(t, err)

			defer reached.Close()

			deployment := temporal.Deployment{Client: reached, Namespace: server.Namespace, Name: testkit.Prefix(t)}

			refusal, err := deployment.Refusal(t.Context())
			require.Equal(t, c.refused, refusal != nil, "%v", refusal)
			require.Equal(t, c.failed, err != nil, "%v", err)

			if c.failed || status.Code(c.answer) == codes.ResourceExhausted {
				return
			}

			look, err := deployment.Look(t.Context())
			require.NoError(t, err)
			require.Empty(t, look.Current)
			require.True(t, look.Fresh())
		})
	}
}
