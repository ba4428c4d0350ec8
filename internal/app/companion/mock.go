package companion

import (
	"context"
	"log/slog"
	"net"

	"everloop/companions/mock"
	"everloop/internal/app/flags"
	"everloop/internal/hosts"
	"everloop/internal/lifecycle"
)

// mockCompanion returns the mock service next to the agent.
func mockCompanion() companion {
	return companion{
		label: "Mock service", variable: "MOCK_ADDR",
		address: func(s *Settings) string { return s.MockAddr },
		open: func(_ context.Context, b *Beside, agent Agent, front net.Listener) (lifecycle.Service, error) {
			service := mock.New(b.settings.mockSettings.config(agent.Hosts.Allowed()))
			return lifecycle.Func("mock service", func(ctx context.Context) error { return service.Serve(ctx, front) }), nil
		},
	}
}

// Mock serves the mock service alone.
type Mock struct {
	Addr         string `default:"127.0.0.1:30023" env:"MOCK_ADDR" help:"Where the mock service listens."`
	OpenControl  bool   `help:"Let other machines use /control/, whose log, where it is on, holds what users wrote."`
	mockSettings `embed:""`
	flags.Hosts  `embed:""`
}

// mockSettings are those of the mock service in every role that serves it.
type mockSettings struct {
	RequestLog bool `name:"mock-request-log" help:"Keep the last requests to the demo model in memory, for tests; /control/requests of the mock service shows them."`
}

// config returns the mock service's, for people: with pauses as of a real model.
func (s mockSettings) config(allowed hosts.List) mock.Config {
	return mock.Config{Pace: mock.DefaultPace, Log: slog.Default(), KeepRequests: s.RequestLog, Hosts: allowed}
}

// Run implements the command.
func (c *Mock) Run(ctx context.Context) error {
	if err := c.Hosts.Check(); err != nil {
		return err
	}

	front, err := flags.Listen("MOCK_ADDR", c.Addr)
	if err != nil {
		return err
	}

	cfg := c.mockSettings.config(c.Allowed())
	cfg.OpenControl = c.OpenControl

	return mock.New(cfg).Serve(ctx, front)
}
