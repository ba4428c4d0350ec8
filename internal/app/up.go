package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"everloop/infra/embedded"
	"everloop/internal/app/companion"
	"everloop/internal/app/engine"
	"everloop/internal/app/flags"
	"everloop/internal/lifecycle"
	"everloop/internal/release"
)

// Up starts everything on one machine: the engines that no setting points
// elsewhere, the agent's API, a worker, and the companions.
type Up struct {
	settings   `embed:""`
	debugFlags `embed:""`

	TemporalAddr      string        `default:"127.0.0.1:7233" env:"TEMPORAL_ADDR" help:"Where the embedded Temporal listens."`
	TemporalUIAddr    string        `name:"temporal-ui-addr" default:"127.0.0.1:8233" env:"TEMPORAL_UI_ADDR" help:"Where Temporal's web UI listens."`
	TemporalRetention time.Duration `name:"temporal-retention" default:"168h" help:"How long the embedded Temporal keeps closed runs for operators to look at."`
	PostgresBinDir    string        `type:"path" help:"PostgreSQL bin directory; auto-detected when unset."`

	companion.Settings `embed:""`

	administrators *engine.Administrators // open the embedded Temporal
	debug          lifecycle.Service      // nil: there is none
}

// Run implements the command.
func (c *Up) Run(ctx context.Context) error {
	if err := errors.Join(
		c.check(),
		c.Settings.Check(),
		engine.CheckRetention(c.TemporalRetention),
	); err != nil {
		return err
	}

	var err error
	if c.debug, err = c.debugFlags.service(); err != nil {
		return err
	}

	c.administrators = &engine.Administrators{}
	began := time.Now()
	screen := newScreen(os.Stdout)

	// Ports first: one that is taken is known before anything was started.
	front, err := flags.Listen("AGENT_ADDR", c.AgentAddr)
	if err != nil {
		return err
	}
	defer front.Close()

	beside, err := c.Settings.Listen()
	if err != nil {
		return err
	}

	defer func() { _ = beside.Close() }()

	inside := c.Embedded()

	engines, err := embedded.Start(ctx, c.engines(inside, screen))
	if err != nil {
		return err
	}

	for _, e := range inside {
		e.Adopt(engines)
	}

	sum := summary{began: began, inside: inside, ui: embedded.Of[*embedded.TemporalUI](engines)}
	served := c.serveAll(ctx, engines, front, beside, screen, sum)

	return errors.Join(served, engine.Stop(engines))
}

// engines returns how those that are embedded are started.
func (c *Up) engines(inside []engine.Engine, screen *screen) embedded.Config {
	cfg := embedded.Config{Dir: c.DataDir, Progress: screen.engine}
	for _, e := range inside {
		cfg.Engines = append(cfg.Engines, e.Embed(c.embedding())...)
	}

	return cfg
}

func (c *Up) embedding() engine.Embedding {
	return engine.Embedding{
		PostgresBinDir: c.PostgresBinDir,
		Temporal: embedded.TemporalConfig{
			Frontend: embedded.Listen{
				Addr:     c.TemporalAddr,
				Variable: "TEMPORAL_ADDR",
			},
			DatabaseURL:    c.DatabaseURL,
			Retention:      c.TemporalRetention,
			Administrators: c.administrators,
		},
		TemporalUI: &embedded.TemporalUIConfig{
			Listen: embedded.Listen{Addr: c.TemporalUIAddr, Variable: "TEMPORAL_UI_ADDR"}, Hosts: c.Allowed(),
		},
	}
}

func (c *Up) serveAll(
	ctx context.Context, engines *embedded.Engines, front net.Listener, beside *companion.Beside, screen *screen, sum summary,
) error {
	demo, err := c.useGateway(beside)
	if err != nil {
		return err
	}

	c.listening = append(beside.Addrs(), c.TemporalAddr, c.TemporalUIAddr)
	if c.SearchURL == "" {
		c.useDemoWeb(beside.Addr("MOCK_ADDR"))
	}

	c.IdentityURL = cmp.Or(c.IdentityURL, beside.URL("IDENTITY_ADDR"))
	c.RegistryURL = cmp.Or(c.RegistryURL, beside.URL("REGISTRY_ADDR"))
	c.GitURL = cmp.Or(c.GitURL, beside.URL("GIT_ADDR"))

	b, err := dial(ctx, c.settings)
	if err != nil {
		return err
	}
	defer b.close()

	b.flags = *c

	edge, err := newAgent(ctx, b)
	if err != nil {
		return err
	}

	c.administrators.Use(edge.auth)

	key, err := firstKey(ctx, edge, c.settings)
	if err != nil {
		return err
	}

	worker, err := newWork(ctx, b, versionSettings{}) // one process: what a new binary finds it takes over at once
	if err != nil {
		return err
	}

	companions, err := beside.Open(ctx, c.agent())
	if err != nil {
		return err
	}

	top := slices.Concat(edge.services(front), companions, lifecycle.Layer{worker, lifecycle.Func("engines", engines.Wait)})
	if c.debug != nil {
		top = append(top, c.debug)
	}

	sum.agent, sum.companions, sum.sandbox = front.Addr().String(), beside, worker.sandbox.Describe()
	sum.demo, sum.settings, sum.key = demo, c.settings, key
	screen.ready(sum)

	defer context.AfterFunc(ctx, screen.stopping)()

	return lifecycle.Run(ctx, b.publisher(), top)
}

// useGateway makes the embedded gateway, and the agent its client unless another model
// server is set. The key of such a server does not open the embedded gateway. It
// reports whether the agent has only the demo model.
func (c *Up) useGateway(beside *companion.Beside) (demo bool, err error) {
	own, key := c.GatewayURL == "", ""
	if own {
		key = c.GatewayKey
	}

	key, err = beside.OpenGateway(c.agent(), key)
	if err != nil || !own {
		return false, err
	}

	c.GatewayURL, c.GatewayKey = "http://"+beside.Addr("GATEWAY_ADDR"), key

	return beside.DemoOnly(), nil
}

// agent returns what the companions share with the agent.
func (c *Up) agent() companion.Agent {
	return companion.Agent{
		Addr: c.AgentAddr, DataDir: c.DataDir, Database: c.DatabaseURL, Objects: c.ObjectsSettings,
		EncryptionKey: c.EncryptionKey, Keys: c.Keys, Hosts: c.Hosts, Proxies: c.Proxies, Origins: c.AllowedOrigins,
		IdentityURL: c.IdentityURL, RegistryURL: c.RegistryURL,
	}
}

// firstKey makes the first administrator; the key is returned only by the start
// that made it.
func firstKey(ctx context.Context, a *agent, s settings) (string, error) {
	_, key, err := a.auth.EnsureBootstrap(ctx, s.BootstrapKey)
	if err != nil || key == "" {
		return "", err
	}

	if err := os.MkdirAll(s.DataDir, 0o711); err != nil {
		return "", err
	}

	return key, keepBootstrapKey(s.DataDir, key)
}

// summary is what the end of a start shows.
type summary struct {
	began    time.Time
	inside   []engine.Engine      // those that are embedded
	ui       *embedded.TemporalUI // nil: it is not served
	agent    string
	sandbox  string
	demo     bool
	settings settings
	key      string

	companions *companion.Beside
}

func (s summary) lines() []string {
	lines := []string{
		line("Agent API", "http://"+s.agent+"   docs: /api/docs"),
		line("Socket.IO", "http://"+s.agent+"/socket.io/"),
	}
	if s.ui != nil {
		lines = append(lines, line("Temporal UI", s.ui.URL()+"   sign in with an administrator's API key"))
	}

	for _, e := range s.settings.Engines() {
		inside := slices.ContainsFunc(s.inside, func(other engine.Engine) bool { return other.Name == e.Name })
		lines = append(lines, line(strings.ToUpper(e.Label[:1])+e.Label[1:], e.Where(inside)))
	}

	for _, one := range s.companions.Listeners() {
		lines = append(lines, line(one.Label, "http://"+one.Addr))
	}

	lines = append(lines, line("Sandbox", s.sandbox))
	if s.demo {
		lines = append(lines, line("Model", "DEMO: scripted by the mock service; give the gateway a source for a real one, or set "+
			"LLM_GATEWAY_URL"))
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

// screen is where a start shows how far it is.
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

// stopping reports that the end was asked for: running tools have some seconds for theirs.
func (s *screen) stopping() {
	fmt.Fprintln(s.out, "\n  Stopping. What was acknowledged continues at the next start; a second Ctrl-C ends everything at once.")
}

func (s *screen) ready(sum summary) {
	fmt.Fprintf(
		s.out,
		"\nEverloop %s is ready (%.1f s)\n\n%s\n\n",
		release.Version,
		time.Since(sum.began).Seconds(),
		strings.Join(sum.lines(), "\n"),
	)
}
