package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"everloop/companions/mock"
	"everloop/infra/postgres"
)

// open takes the port of a role whose engines are elsewhere, and connects to
// them. The caller closes both.
func (s *settings) open(ctx context.Context, variable, addr string) (net.Listener, *backend, error) {
	if err := errors.Join(s.check(), s.external(), address(variable, addr)); err != nil {
		return nil, nil, err
	}
	front, err := listen(variable, addr)
	if err != nil {
		return nil, nil, err
	}
	b, err := dial(ctx, *s, s.connectNATS)
	if err != nil {
		_ = front.Close()
		return nil, nil, err
	}
	return front, b, nil
}

// apiCmd serves the agent's API alone; workers run elsewhere.
type apiCmd struct {
	settings `embed:""`
}

// Run implements the command.
func (c *apiCmd) Run(ctx context.Context) error {
	front, b, err := c.open(ctx, "AGENT_ADDR", c.AgentAddr)
	if err != nil {
		return err
	}
	defer front.Close()
	defer b.close()
	doors, err := newAgent(ctx, b)
	if err != nil {
		return err
	}
	key, err := firstKey(ctx, doors, c.settings)
	if err != nil {
		return err
	}
	if key != "" {
		fmt.Println("First API key (shown once, kept in DATA_DIR/bootstrap-key):", key)
	}
	journal, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go b.journal.Run(journal)
	slog.Info("agent API listens", "addr", front.Addr().String())
	return doors.serve(ctx, front)
}

// workerCmd carries out chats; the API is served elsewhere.
type workerCmd struct {
	settings `embed:""`

	MetricsAddr string `default:"127.0.0.1:8021" env:"WORKER_ADDR" help:"Where /readyz and /metrics of the worker listen."`
}

// Run implements the command.
func (c *workerCmd) Run(ctx context.Context) error {
	front, b, err := c.open(ctx, "WORKER_ADDR", c.MetricsAddr)
	if err != nil {
		return err
	}
	defer front.Close()
	defer b.close()
	hands, err := newWork(ctx, b)
	if err != nil {
		return err
	}
	journal, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go b.journal.Run(journal)
	server := &http.Server{Handler: b.health(), ReadHeaderTimeout: 10 * time.Second}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return hands.serve(ctx) })
	group.Go(func() error {
		if err := server.Serve(front); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	slog.Info("worker runs", "sandbox", hands.sandbox.Describe(), "health", front.Addr().String())
	return group.Wait()
}

// mockCmd serves the mock service alone.
type mockCmd struct {
	Addr        string `default:"127.0.0.1:30023" env:"MOCK_ADDR" help:"Where the mock service listens."`
	OpenControl bool   `env:"MOCK_OPEN_CONTROL" help:"Let other machines use /control/, whose log holds what users wrote."`
}

// Run implements the command.
func (c *mockCmd) Run(ctx context.Context) error {
	return mock.New(mock.Config{Pace: mock.DefaultPace, OpenControl: c.OpenControl, Log: slog.Default()}).Run(ctx, c.Addr)
}

// migrateCmd brings the database up to date and ends.
type migrateCmd struct {
	DatabaseURL string `required:"" env:"DATABASE_URL" help:"PostgreSQL 15 or newer."`
}

// Run implements the command.
func (c *migrateCmd) Run(ctx context.Context) error {
	return postgres.Migrate(ctx, c.DatabaseURL)
}
