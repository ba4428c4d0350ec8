package embedded

import (
	"context"
	"errors"
	"sync"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/server/common"
	"go.temporal.io/server/common/backoff"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
	"go.temporal.io/server/common/primitives"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// systemClients creates the clients of the server's own workers. It replaces the server's
// sdk.ClientFactory, which can only dial an address.
type systemClients struct {
	options client.Options
	logger  log.Logger
	system  func() client.Client
}

func newSystemClients(options client.Options, logger log.Logger) *systemClients {
	options.Logger = log.NewSdkLogger(logger)
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, grpc.WithUnaryInterceptor(asServer))
	f := &systemClients{options: options, logger: logger}
	f.system = sync.OnceValue(f.dial)

	return f
}

// NewClient implements sdk.ClientFactory.
func (f *systemClients) NewClient(options client.Options) client.Client {
	c, err := client.NewClientFromExisting(f.system(), f.with(options))
	if err != nil {
		f.logger.Fatal("failed to make a client of the server", tag.Error(err))
	}

	return c
}

// GetSystemClient implements sdk.ClientFactory.
func (f *systemClients) GetSystemClient() client.Client { return f.system() }

// NewWorker implements sdk.ClientFactory.
func (f *systemClients) NewWorker(c client.Client, queue string, options sdkworker.Options) sdkworker.Worker {
	return sdkworker.New(c, queue, options)
}

func (f *systemClients) with(options client.Options) client.Options {
	options.HostPort, options.Logger, options.ConnectionOptions = f.options.HostPort, f.options.Logger, f.options.ConnectionOptions
	return options
}

// dial retries until the frontend, which starts concurrently with the workers, responds.
func (f *systemClients) dial() (c client.Client) {
	err := backoff.ThrottleRetry(func() (err error) {
		c, err = client.Dial(f.with(client.Options{Namespace: primitives.SystemLocalNamespace}))
		return err
	}, common.CreateSdkClientFactoryRetryPolicy(), func(err error) bool {
		unavailable := (*serviceerror.Unavailable)(nil)
		return common.IsContextDeadlineExceededErr(err) || errors.As(err, &unavailable)
	})
	if err != nil {
		f.logger.Fatal("failed to reach the frontend from the server's own workers", tag.Error(err))
	}

	return c
}

// asServer marks a request as the server's own.
func asServer(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	sent, ok := metadata.FromOutgoingContext(ctx)
	if !ok {
		sent = metadata.MD{}
	}

	sent = sent.Copy()
	sent.Set(headers.ClientNameHeaderName, headers.ClientNameServer)
	sent.Set(headers.ClientVersionHeaderName, headers.ServerVersion)

	return invoke(metadata.NewOutgoingContext(ctx, sent), method, req, reply, conn, options...)
}
