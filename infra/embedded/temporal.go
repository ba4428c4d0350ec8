package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/temporal"

	"everloop/internal/clients"
)

// Namespace is the Temporal namespace of the embedded server.
const Namespace = "everloop"

// connectionsOfAddress is the default maximum of connections per client address to a port of
// Temporal, counted before the key is checked. A worker has a few.
const connectionsOfAddress = 4000

// TemporalConfig configures the Temporal server.
type TemporalConfig struct {
	// Frontend is the address for clients of other processes. It requires a key; its traffic is
	// not encrypted.
	Frontend Listen
	// Administrators checks the API keys for the port; nil: no key is valid.
	Administrators Administrators
	// ServiceKey is the key for other processes of the service; empty: none.
	ServiceKey string
	// DatabaseURL is a postgres:// URL of the server for the databases temporal and
	// temporal_visibility. Empty: the embedded PostgreSQL.
	DatabaseURL string
	// Retention is the retention of closed runs; 0: DefaultTemporalRetention.
	Retention time.Duration
	// Connections is the maximum number of open connections per client address; 0: 4000.
	Connections int

	// external is set when DatabaseURL is not this process's own server, so that another process
	// could run Temporal on it.
	external bool
}

func (c TemporalConfig) name() string      { return "temporal" }
func (c TemporalConfig) title() string     { return "Temporal" }
func (c TemporalConfig) after() []string   { return []string{PostgresConfig{}.name()} }
func (c TemporalConfig) listens() []Listen { return []Listen{c.Frontend} }

func (c TemporalConfig) start(ctx context.Context, _ string, others *Engines, logger *slog.Logger) (Running, error) {
	if c.DatabaseURL != "" {
		c.external = true
		return StartTemporal(ctx, c, logger)
	}

	postgres := Of[*Postgres](others)
	if postgres == nil {
		return nil, errors.New("the embedded server needs a PostgreSQL server")
	}

	c.DatabaseURL = postgres.URL("postgres")

	return StartTemporal(ctx, c, logger)
}

// Temporal is a Temporal server with all its services in this process.
type Temporal struct {
	server    temporal.Server
	transport *processTransport
	access    temporalAccess
	address   string
	logger    *temporalLogger
	done      chan struct{}
	claim     *pgx.Conn // has locked the advisory lock of an external database

	stopRefresh func() // stops crashRefresh; nil: it does not run
	stopPruning context.CancelFunc
}

// StartTemporal updates the schema, starts the server and returns when the namespace "everloop" is
// usable. Clients of the service register its search attributes.
func StartTemporal(ctx context.Context, cfg TemporalConfig, logger *slog.Logger) (*Temporal, error) {
	ip, port, err := cfg.Frontend.split()
	if err != nil {
		return nil, err
	}

	if !ip.IsLoopback() {
		logger.Warn("Temporal listens beyond this machine and takes keys unencrypted", "address", cfg.Frontend.Addr)
	}

	t := &Temporal{
		access: temporalAccess{administrators: cfg.Administrators, serviceKey: cfg.ServiceKey, logger: logger},
		logger: newTemporalLogger(logger), done: make(chan struct{}),
	}
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

// start builds the server's configuration, starts the server and waits for its namespace.
func (t *Temporal) start(ctx context.Context, cfg TemporalConfig, bindIP, dialHost string, port int) error {
	if err := updateTemporalSchema(cfg.DatabaseURL, t.logger); err != nil {
		return err
	}

	if port == 0 {
		var err error
		if port, err = freePort(); err != nil {
			return err
		}
	}

	listener, err := net.Listen("tcp", joinHostPort(bindIP, port))
	if err != nil {
		return err
	}

	t.address = joinHostPort(dialHost, port)
	bound := clients.NewConnections(cmp.Or(cfg.Connections, connectionsOfAddress), nil)
	t.transport = newProcessTransport(bound.Listen(listener, clients.Refusal))

	server, err := temporal.NewServerFx(t.transport.module(),
		temporal.WithConfig(temporalServerConfig(cfg.DatabaseURL)),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(temporalHosts()), // one host per service: no gossip, no membership ports
		temporal.WithDynamicConfigClient(temporalDynamicConfig()),
		temporal.WithAuthorizer(t.access),
		temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler),
		temporal.WithLogger(t.logger),
	)
	if err != nil {
		return errors.Join(fmt.Errorf("configure server: %w", err), t.transport.frontend.Close())
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

	if err := prepareNamespace(ctx, t.ClientOptions(), cmp.Or(cfg.Retention, DefaultTemporalRetention)); err != nil {
		return err
	}

	if t.stopRefresh, err = startCrashRefresh(cfg.DatabaseURL, t.transport, t.logger.to); err != nil {
		return err
	}

	pruning, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stopPruning = stop

	return keepClosedRuns(pruning, t.ClientOptions(), t.logger.to)
}

func prepareNamespace(ctx context.Context, options client.Options, retention time.Duration) error {
	options.Namespace, options.Logger = Namespace, sdkLogger{}
	// The SDK's five seconds are too short for the first response on a busy machine.
	options.ConnectionOptions.GetSystemInfoTimeout = namespaceWait

	c, err := client.DialContext(ctx, options)
	if err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	defer c.Close()

	return ensureNamespace(ctx, c, retention)
}

// ClientOptions returns the options of clients inside this process: they need no key, and their
// calls do not use the network.
func (t *Temporal) ClientOptions() client.Options { return t.transport.clientOptions() }

// Address returns the host:port for clients of other processes on this machine.
func (t *Temporal) Address() string { return t.address }

// Done is closed when the server has reported a fatal error.
func (t *Temporal) Done() <-chan struct{} { return t.done }

// Err returns that error; valid once Done is closed.
func (t *Temporal) Err() error { return t.logger.fatalError() }

// temporalStopTime is the maximum duration of the server's stop, which usually takes one second
// but waits for calls in flight, including long polls.
const temporalStopTime = 5 * time.Second

// Stop stops the server. Clients and workers of this process must be closed before, or they log
// errors. After temporalStopTime it returns while the server still runs: its state in the
// database is consistent at every moment.
func (t *Temporal) Stop(ctx context.Context) error {
	t.logger.silence()

	if t.stopPruning != nil {
		t.stopPruning()
	}

	if t.stopRefresh != nil {
		t.stopRefresh()
	}

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
