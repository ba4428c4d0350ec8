package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"everloop/infra/postgres"
	"everloop/internal/app/flags"
	"everloop/internal/clients"
	"everloop/internal/lifecycle"
)

// open takes the port of a role whose engines are elsewhere, and connects to
// them. The caller closes both.
func (s *settings) open(ctx context.Context, variable, addr string) (net.Listener, *backend, error) {
	if err := errors.Join(s.check(), s.external(), flags.CheckAddress(variable, addr)); err != nil {
		return nil, nil, err
	}

	front, err := flags.Listen(variable, addr)
	if err != nil {
		return nil, nil, err
	}

	b, err := dial(ctx, *s)
	if err != nil {
		_ = front.Close()
		return nil, nil, err
	}

	return front, b, nil
}

// API serves the agent's API alone; workers run elsewhere.
type API struct {
	settings `embed:""`
}

// Run implements the command.
func (c *API) Run(ctx context.Context) error {
	front, b, err := c.open(ctx, "AGENT_ADDR", c.AgentAddr)
	if err != nil {
		return err
	}
	defer front.Close()
	defer b.close()

	edge, err := newAgent(ctx, b)
	if err != nil {
		return err
	}

	key, err := firstKey(ctx, edge, c.settings)
	if err != nil {
		return err
	}

	if key != "" {
		fmt.Println("First API key (shown once, kept in DATA_DIR/bootstrap-key):", key) //nolint:forbidigo // the output of the command
	}

	slog.Info("API server started", "addr", front.Addr().String())

	return lifecycle.Run(ctx, b.publisher(), edge.services(front))
}

// Worker carries out chats; the API is served elsewhere.
type Worker struct {
	settings        `embed:""`
	versionSettings `embed:""`

	MetricsAddr string `default:"127.0.0.1:8021" env:"WORKER_ADDR" help:"Where /readyz and /metrics of the worker listen."`
}

// Run implements the command.
func (c *Worker) Run(ctx context.Context) error {
	if err := c.versionSettings.complete(); err != nil {
		return err
	}

	front, b, err := c.open(ctx, "WORKER_ADDR", c.MetricsAddr)
	if err != nil {
		return err
	}
	defer front.Close()
	defer b.close()

	build, err := c.versionSettings.supported(ctx, b.deployment())
	if err != nil {
		return err
	}

	worker, err := newWork(ctx, b, build)
	if err != nil {
		return err
	}

	slog.Info("worker started", "build_id", build.BuildID, "sandbox", worker.sandbox.Describe(), "health", front.Addr().String())

	return lifecycle.Run(ctx, b.publisher(), lifecycle.Layer{worker, httpService("health server", front, b.health())})
}

// healthConnections bounds the connections of one client address to a listener that asks for
// no key.
const healthConnections = 64

// httpService serves HTTP on a listener until its context ends.
func httpService(name string, listener net.Listener, handler http.Handler) lifecycle.Service {
	return lifecycle.Func(name, func(ctx context.Context) error {
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		bound := clients.NewConnections(healthConnections, nil).Listen(listener, clients.Refusal)

		defer context.AfterFunc(ctx, func() { _ = server.Close() })()

		if err := server.Serve(bound); !errors.Is(err, http.ErrServerClosed) {
			return err
		}

		return nil
	})
}

// Migrate brings the database up to date and ends.
type Migrate struct {
	DatabaseURL string `required:"" env:"DATABASE_URL" help:"PostgreSQL 15 or newer."`
}

// Run implements the command.
func (c *Migrate) Run(ctx context.Context) error {
	return postgres.Migrate(ctx, c.DatabaseURL)
}
