package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"everloop/companions/mock"
	"everloop/infra/embedded"
)

// upCmd starts everything on one machine: the engines that no setting points
// elsewhere, the agent's API, a worker and the mock service.
type upCmd struct {
	settings   `embed:""`
	debugFlags `embed:""`

	MockAddr       string `default:"127.0.0.1:30023" env:"MOCK_ADDR" help:"Where the mock service listens."`
	TemporalAddr   string `default:"127.0.0.1:7233" env:"TEMPORAL_ADDR" help:"Where the embedded Temporal listens."`
	TemporalUIAddr string `name:"temporal-ui-addr" default:"127.0.0.1:8233" env:"TEMPORAL_UI_ADDR" help:"Where Temporal's web UI listens."`
	PostgresBinDir string `type:"path" env:"POSTGRES_BIN_DIR" help:"Directory with the programs of PostgreSQL; found by itself when unset."`
}

// Run implements the command.
func (c *upCmd) Run(ctx context.Context) error {
	if err := errors.Join(c.check(), address("MOCK_ADDR", c.MockAddr)); err != nil {
		return err
	}
	if err := c.debugFlags.serve(ctx); err != nil {
		return err
	}
	began := time.Now()
	screen := newScreen(os.Stdout)

	// Ports first: one that is taken is known before anything was started.
	front, err := listen("AGENT_ADDR", c.AgentAddr)
	if err != nil {
		return err
	}
	defer front.Close()
	mockFront, err := listen("MOCK_ADDR", c.MockAddr)
	if err != nil {
		return err
	}
	defer mockFront.Close()

	engines, err := embedded.Start(ctx, c.engines(screen))
	if err != nil {
		return err
	}
	served := c.serveAll(ctx, engines, front, mockFront, screen, began)
	return errors.Join(served, stopEngines(engines))
}

// engines says which engines are embedded: those that nothing points elsewhere.
func (c *upCmd) engines(screen *screen) embedded.Config {
	cfg := embedded.Config{Dir: c.DataDir, Progress: screen.engine}
	if c.DatabaseURL == "" {
		cfg.Postgres = &embedded.PostgresConfig{BinDir: c.PostgresBinDir}
	}
	if c.TemporalAddress == "" {
		cfg.Temporal = &embedded.TemporalConfig{
			Frontend: embedded.Listen{Addr: c.TemporalAddr, Variable: "TEMPORAL_ADDR"}, DatabaseURL: c.DatabaseURL,
		}
		cfg.UI = &embedded.TemporalUIConfig{Listen: embedded.Listen{Addr: c.TemporalUIAddr, Variable: "TEMPORAL_UI_ADDR"}}
	}
	if c.NATSURL == "" {
		cfg.Events = &embedded.EventsConfig{}
	}
	if c.S3Endpoint == "" {
		cfg.Objects = &embedded.ObjectsConfig{}
	}
	return cfg
}

// adopt points the settings at the engines that were started.
func (c *upCmd) adopt(engines *embedded.Engines) (connect func() (*nats.Conn, error)) {
	if engines.Postgres != nil {
		c.DatabaseURL = engines.Postgres.URL("everloop")
	}
	if engines.Temporal != nil {
		c.TemporalAddress, c.TemporalNamespace = engines.Temporal.Address(), embedded.Namespace
	}
	if engines.Objects != nil {
		c.S3Endpoint, c.S3Bucket = engines.Objects.Endpoint(), embedded.Bucket
		c.S3AccessKey, c.S3SecretKey = engines.Objects.AccessKey(), engines.Objects.SecretKey()
	}
	if engines.Events != nil {
		return func() (*nats.Conn, error) { return engines.Events.Connect() }
	}
	return c.connectNATS
}

// connectNATS reaches an external NATS server, and again whenever it was lost.
func (s *settings) connectNATS() (*nats.Conn, error) {
	return nats.Connect(s.NATSURL, nats.Name("everloop"), nats.MaxReconnects(-1))
}

func (c *upCmd) serveAll(ctx context.Context, engines *embedded.Engines, front, mockFront net.Listener, screen *screen, began time.Time) error {
	connect := c.adopt(engines)
	demo := c.GatewayURL == ""
	if demo {
		c.GatewayURL = "http://" + mockFront.Addr().String()
	}
	c.listening = []string{mockFront.Addr().String(), c.TemporalAddr, c.TemporalUIAddr}
	if c.SearchURL == "" {
		c.useDemoWeb(mockFront.Addr().String())
	}
	b, err := dial(ctx, c.settings, connect)
	if err != nil {
		return err
	}
	defer b.close()
	b.flags = *c
	doors, err := newAgent(ctx, b)
	if err != nil {
		return err
	}
	key, err := firstKey(ctx, doors, c.settings)
	if err != nil {
		return err
	}
	hands, err := newWork(ctx, b)
	if err != nil {
		return err
	}
	// The parts end together; the first error is the one that counts. The worker
	// ends before the journal does, so that its last events are told.
	group, ctx := errgroup.WithContext(ctx)
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go b.journal.Run(background)
	group.Go(func() error {
		return mock.New(mock.Config{Pace: mock.DefaultPace, Log: slog.Default()}).Serve(ctx, mockFront)
	})
	group.Go(func() error { return hands.serve(ctx) })
	group.Go(func() error { return doors.serve(ctx, front) })
	group.Go(func() error {
		select {
		case err := <-engines.Dead():
			return err
		case <-ctx.Done():
			return nil
		}
	})
	screen.ready(summary{
		took: time.Since(began), agent: front.Addr().String(), mock: mockFront.Addr().String(), engines: engines,
		sandbox: hands.sandbox.Describe(), demo: demo, settings: c.settings, key: key,
	})
	return group.Wait()
}

// firstKey makes the first administrator; the key is returned only by the start
// that made it.
func firstKey(ctx context.Context, a *agent, s settings) (string, error) {
	_, key, err := a.auth.EnsureBootstrap(ctx, s.BootstrapKey)
	if err != nil || key == "" {
		return "", err
	}
	if err := os.MkdirAll(s.DataDir, 0o755); err != nil {
		return "", err
	}
	return key, keepBootstrapKey(s.DataDir, key)
}

// summary is what the end of a start tells.
type summary struct {
	took     time.Duration
	agent    string
	mock     string
	engines  *embedded.Engines
	sandbox  string
	demo     bool
	settings settings
	key      string
}

func (s summary) lines() []string {
	lines := []string{
		line("Agent API", "http://"+s.agent+"   docs: /api/docs"),
		line("Socket.IO", "http://"+s.agent+"/socket.io/"),
	}
	if s.engines.UI != nil {
		lines = append(lines, line("Temporal UI", s.engines.UI.URL()))
	}
	lines = append(lines,
		line("Temporal", s.settings.TemporalAddress+embeddedMark(s.engines.Temporal != nil)),
		line("PostgreSQL", place(s.engines.Postgres != nil, "DATABASE_URL")),
		line("NATS", place(s.engines.Events != nil, "NATS_URL")),
		line("Objects", s.settings.S3Endpoint+embeddedMark(s.engines.Objects != nil)),
		line("Mock service", "http://"+s.mock),
		line("Sandbox", s.sandbox),
	)
	if s.demo {
		lines = append(lines, line("Model", "DEMO: scripted by the mock service; set LLM_GATEWAY_URL for a real one"))
	} else {
		lines = append(lines, line("Model", s.settings.GatewayURL))
	}
	if s.settings.demoSearch {
		lines = append(lines, line("Web search", "DEMO: made up by the mock service; set SEARCH_URL for a real one"))
	}
	lines = append(lines, line("Data", s.settings.DataDir))
	if s.key != "" {
		lines = append(lines, "", "  First API key (shown once, kept in "+s.settings.DataDir+"/bootstrap-key):", "    "+s.key)
	}
	return lines
}

func line(name, value string) string {
	return fmt.Sprintf("  %-13s %s", name, value)
}

func place(embedded bool, variable string) string {
	if embedded {
		return "embedded"
	}
	return "external, by " + variable
}

func embeddedMark(embedded bool) string {
	if embedded {
		return "   embedded"
	}
	return "   external"
}

// screen is where a start tells how far it is.
type screen struct {
	out *os.File
}

func newScreen(out *os.File) *screen { return &screen{out: out} }

// engine shows the progress of one engine.
func (s *screen) engine(part, state string) {
	if state == "starting" || state == "initialising" {
		fmt.Fprintf(s.out, "  … %s %s\n", part, state)
	}
}

func (s *screen) ready(sum summary) {
	fmt.Fprintf(s.out, "\nEverloop %s is ready (%.1f s)\n\n%s\n\n", version, sum.took.Seconds(), strings.Join(sum.lines(), "\n"))
}
