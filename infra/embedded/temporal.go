package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

// Namespace is the Temporal namespace of the embedded server.
const Namespace = "everloop"

// TemporalConfig configures the Temporal server.
type TemporalConfig struct {
	// Frontend is where clients and workers connect. The server knows no
	// authentication: keep it on loopback.
	Frontend Listen
	// DatabaseURL is a postgres:// URL of a server in which the databases temporal
	// and temporal_visibility are kept. Empty means the embedded PostgreSQL.
	DatabaseURL string

	// external is set when the server of DatabaseURL is not this process's own, so
	// that another process could be running Temporal on it.
	external bool
}

// Temporal is a Temporal server with all its services in this process.
type Temporal struct {
	server  temporal.Server
	address string
	logger  *temporalLogger
	done    chan struct{}
	claim   *pgx.Conn // holds the advisory lock on an external database
}

// StartTemporal brings the schema up to date, starts the server and returns once
// the namespace "everloop" with its search attributes can be used.
func StartTemporal(ctx context.Context, cfg TemporalConfig, logger *slog.Logger) (*Temporal, error) {
	ip, port, err := cfg.Frontend.split()
	if err != nil {
		return nil, err
	}
	if !ip.IsLoopback() {
		logger.Warn("Temporal has no authentication and listens beyond this machine", "address", cfg.Frontend.Addr)
	}
	t := &Temporal{logger: newTemporalLogger(logger), done: make(chan struct{})}
	if cfg.external {
		if err := createTemporalDatabases(ctx, cfg.DatabaseURL); err != nil {
			return nil, err
		}
		if t.claim, err = claimTemporalDatabase(ctx, cfg.DatabaseURL); err != nil {
			return nil, err
		}
	}
	if err := t.start(ctx, cfg, ip.String(), dialHost(ip), port); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil, errors.Join(err, t.Stop(stop))
	}
	t.logger.ready.Store(true)
	return t, nil
}

func (t *Temporal) start(ctx context.Context, cfg TemporalConfig, bindIP, dialHost string, port int) error {
	if err := updateTemporalSchema(cfg.DatabaseURL, t.logger); err != nil {
		return err
	}
	// History, matching and worker, and the frontend when its port is left open.
	ports, err := freePorts(4)
	if err != nil {
		return err
	}
	if port == 0 {
		port = ports[3]
	}
	hosts := temporalHosts{bindIP: bindIP, dialHost: dialHost, frontend: port, history: ports[0], matching: ports[1], worker: ports[2]}
	t.address = joinHostPort(dialHost, port)

	server, err := temporal.NewServer(
		temporal.WithConfig(temporalServerConfig(hosts, cfg.DatabaseURL)),
		temporal.ForServices(temporal.DefaultServices),
		// One host a service: no gossip, no membership ports.
		temporal.WithStaticHosts(map[primitives.ServiceName]static.Hosts{
			primitives.FrontendService: static.SingleLocalHost(t.address),
			primitives.HistoryService:  static.SingleLocalHost(loopback(hosts.history)),
			primitives.MatchingService: static.SingleLocalHost(loopback(hosts.matching)),
			primitives.WorkerService:   static.SingleLocalHost(loopback(hosts.worker)),
		}),
		temporal.WithDynamicConfigClient(temporalDynamicConfig()),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler),
		temporal.WithLogger(t.logger),
	)
	if err != nil {
		return fmt.Errorf("configure server: %w", err)
	}
	t.server = server
	if err := server.Start(); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	go func() {
		select {
		case <-t.logger.fatal:
			close(t.done)
		case <-t.logger.quiet:
		}
	}()
	return t.prepareNamespace(ctx)
}

func (t *Temporal) prepareNamespace(ctx context.Context) error {
	c, err := client.DialContext(ctx, client.Options{
		HostPort: t.address, Namespace: Namespace, Logger: sdkLogger{},
		// The library's five seconds are too few for the first answer on a busy machine.
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: namespaceWait},
	})
	if err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	defer c.Close()
	return ensureNamespace(ctx, c)
}

// Address is where clients on this machine connect, host:port.
func (t *Temporal) Address() string { return t.address }

// Done is closed when the server reported a fault it cannot survive.
func (t *Temporal) Done() <-chan struct{} { return t.done }

// Err is that fault; valid once Done is closed.
func (t *Temporal) Err() error { return t.logger.fatalError() }

// temporalStopTime bounds the stop of the server, which usually takes one second but
// waits for calls in flight, some of which are long polls.
const temporalStopTime = 5 * time.Second

// Stop ends the server. Clients and workers of this process must be closed before,
// or they complain. A server that takes longer than five seconds is left to the end
// of the process: its state in the database is consistent at every moment.
func (t *Temporal) Stop(ctx context.Context) error {
	t.logger.silence()
	if t.claim != nil {
		defer t.claim.Close(context.WithoutCancel(ctx))
	}
	if t.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, temporalStopTime)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- t.server.Stop() }()
	select {
	case err := <-stopped:
		if err != nil {
			return fmt.Errorf("stop Temporal: %w", err)
		}
		return nil
	case <-ctx.Done():
		t.logger.to.Warn("the server still waits for calls in flight; leaving it")
		return nil
	}
}

func loopback(port int) string { return joinHostPort("127.0.0.1", port) }
