package embedded

import (
	"context"
	"net"

	"go.temporal.io/sdk/client"
	"go.temporal.io/server/chasm"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/serialization"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/common/resource"
	"go.temporal.io/server/common/sdk"
	"go.temporal.io/server/service/frontend"
	"go.temporal.io/server/service/history"
	"go.temporal.io/server/service/history/replication"
	"go.temporal.io/server/service/matching"
	"go.temporal.io/server/service/worker"
	"go.temporal.io/server/temporal"
	"go.uber.org/fx"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// pipeBuffer is the size of an in-process connection's buffer per direction, in bytes. Larger
// messages pass in pieces.
const pipeBuffer = 64 << 10

// temporalTarget is the server's address for clients inside the process; their dialer ignores it.
const temporalTarget = "passthrough:///temporal"

// processTransport connects the four services of the server, and the clients of this process, in
// memory. Only the frontend also listens on a port.
type processTransport struct {
	pipes    map[primitives.ServiceName]*bufconn.Listener
	frontend net.Listener // in-process pipe and port
}

// newProcessTransport takes ownership of the frontend's port, which is closed with the server.
func newProcessTransport(port net.Listener) *processTransport {
	t := &processTransport{pipes: map[primitives.ServiceName]*bufconn.Listener{}}
	for _, service := range temporal.DefaultServices {
		t.pipes[primitives.ServiceName(service)] = bufconn.Listen(pipeBuffer)
	}

	t.frontend = newJoinedListener(port, t.pipes[primitives.FrontendService])

	return t
}

// insideProcess reports whether a connection was made by a dialer of this process.
func insideProcess(address net.Addr) bool {
	return address != nil && address.Network() == "bufconn"
}

// dialTo returns the dial option of clients of a service inside the process.
func (t *processTransport) dialTo(service primitives.ServiceName) grpc.DialOption {
	pipe := t.pipes[service]
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) })
}

// listener returns the listener of a service.
func (t *processTransport) listener(service primitives.ServiceName) net.Listener {
	if service == primitives.FrontendService {
		return t.frontend
	}

	return t.pipes[service]
}

// clientOptions returns the options of clients inside this process.
func (t *processTransport) clientOptions() client.Options {
	return client.Options{
		HostPort: temporalTarget,
		ConnectionOptions: client.ConnectionOptions{
			TLSDisabled: true, DialOptions: []grpc.DialOption{t.dialTo(primitives.FrontendService)},
		},
	}
}

// module is temporal.TopLevelModule with services that listen and dial through this transport:
// the server has no option for that.
func (t *processTransport) module() fx.Option {
	return fx.Options(
		fx.Provide(
			temporal.NewServerFxImpl,
			temporal.ServerOptionsProvider,
			resource.ArchivalMetadataProvider,
			temporal.TaskCategoryRegistryProvider,
			temporal.ApplyClusterMetadataConfigProvider,
			t.service(primitives.HistoryService, history.QueueModule, history.Module, replication.Module),
			t.service(primitives.MatchingService, matching.Module),
			t.frontendService,
			t.service(primitives.WorkerService, worker.Module),
		),
		dynamicconfig.Module,
		temporal.TraceExportModule,
		chasm.Module,
		serialization.Module,
		temporal.FxLogAdapter,
		fx.Invoke(temporal.ServerLifetimeHooks),
	)
}

// serviceProvider creates one service of the server.
type serviceProvider = func(temporal.ServiceProviderParamsCommon) (temporal.ServicesGroupOut, error)

// service returns the provider of one service of the server.
func (t *processTransport) service(name primitives.ServiceName, parts ...fx.Option) serviceProvider {
	return func(params temporal.ServiceProviderParamsCommon) (temporal.ServicesGroupOut, error) {
		app := fx.New(params.GetCommonServiceOptions(name), t.decorate(name), fx.Options(parts...))
		return temporal.NewService(app, name, params.Logger), app.Err()
	}
}

// frontendService returns the provider of the frontend.
func (t *processTransport) frontendService(params temporal.ServiceProviderParamsCommon) (temporal.ServicesGroupOut, error) {
	return t.service(primitives.FrontendService, fx.Supply(params.CustomFrontendInterceptors), frontend.Module)(params)
}

// decorate replaces the listener and dialer in the dependency graph of one service.
func (t *processTransport) decorate(name primitives.ServiceName) fx.Option {
	return fx.Decorate(
		func() net.Listener { return t.listener(name) },
		func(options map[primitives.ServiceName][]grpc.DialOption) map[primitives.ServiceName][]grpc.DialOption {
			all := map[primitives.ServiceName][]grpc.DialOption{
				primitives.InternalFrontendService: {t.dialTo(primitives.FrontendService)}, // the server's name for its own requests
			}
			for service := range t.pipes {
				all[service] = append(options[service], t.dialTo(service))
			}

			return all
		},
		func(logger log.SnTaggedLogger) sdk.ClientFactory { return newSystemClients(t.clientOptions(), logger) },
	)
}
