package companion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"syscall"

	"everloop/companions/desktop"
	"everloop/internal/app/flags"
	"everloop/internal/lifecycle"
	"everloop/web"
)

// Ports of the desktop: the usual one of web pages, and the one for processes that may not
// bind it.
const (
	desktopPort      = "80"
	desktopOtherPort = "8080"
)

// desktopCompanion returns the desktop next to the agent.
func desktopCompanion() companion {
	return companion{
		label: "Desktop", variable: "DESKTOP_ADDR", listen: listenDesktop,
		address: func(s *Settings) string { return s.DesktopAddr },
		open: func(_ context.Context, b *Beside, agent Agent, front net.Listener) (lifecycle.Service, error) {
			return openDesktop(agent.url(), agent.IdentityURL, b.settings.DesktopURL, agent.Hosts, front)
		},
	}
}

// listenDesktop takes the port, or the other one where this process may not bind port 80.
func listenDesktop(variable, addr string) (net.Listener, error) {
	return listenDesktopBy(flags.Listen, variable, addr)
}

func listenDesktopBy(
	listen func(variable, addr string) (net.Listener, error), variable, addr string,
) (net.Listener, error) {
	front, err := listen(variable, addr)

	host, port, _ := net.SplitHostPort(addr)
	if port != desktopPort || !errors.Is(err, syscall.EACCES) {
		return front, err
	}

	slog.Warn("port 80 may not be bound: the desktop listens on port 8080", "variable", variable)

	return listen(variable, net.JoinHostPort(host, desktopOtherPort))
}

// openDesktop makes the desktop of an agent. Without an identity service, API keys alone
// sign in; own is where that service sends browsers back to.
func openDesktop(agent, identity, own string, names flags.Hosts, front net.Listener) (lifecycle.Service, error) {
	cfg := desktop.Config{Hosts: names.Allowed(), Log: slog.Default()}

	var built bool
	if cfg.Files, built = web.Desktop(); !built {
		slog.Warn("the desktop was not built into this program: make build does it")
	}

	var err error
	if cfg.Agent, err = serviceURL("AGENT_URL", agent); err != nil {
		return nil, err
	}

	if identity != "" {
		if cfg.Identity, err = serviceURL("IDENTITY_URL", identity); err != nil {
			return nil, err
		}
	}

	if own != "" && own != "none" {
		if cfg.Own, err = serviceURL("DESKTOP_URL", own); err != nil {
			return nil, err
		}
	}

	service, err := desktop.New(cfg)
	if err != nil {
		return nil, err
	}

	return lifecycle.Func("desktop", func(ctx context.Context) error { return service.Serve(ctx, front) }), nil
}

// serviceURL reads the address of another role.
func serviceURL(variable, value string) (*url.URL, error) {
	at, err := url.Parse(value)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, fmt.Errorf("%s must start with http:// or https://", variable)
	}

	return at, nil
}

// Desktop serves the desktop alone.
type Desktop struct {
	Addr        string `default:"127.0.0.1:80" env:"DESKTOP_ADDR" help:"Where the desktop listens; port 8080 where 80 may not be bound."`
	AgentURL    string `name:"agent-url" default:"http://127.0.0.1:8020" env:"AGENT_URL" help:"The agent that it shows."`
	IdentityURL string `name:"identity-url" env:"IDENTITY_URL" help:"The identity service, where people sign in with a password; API keys alone when unset."`
	DesktopURL  string `name:"desktop-url" default:"http://127.0.0.1:8080" env:"DESKTOP_URL" help:"URL of this desktop, as the identity service has it: there it offers sign-in by OpenID Connect; none: nowhere."`
	flags.Hosts `embed:""`
}

// Run implements the command.
func (c *Desktop) Run(ctx context.Context) error {
	_, agent := serviceURL("AGENT_URL", c.AgentURL)

	var identity error
	if c.IdentityURL != "" {
		_, identity = serviceURL("IDENTITY_URL", c.IdentityURL)
	}

	if err := errors.Join(flags.CheckAddress("DESKTOP_ADDR", c.Addr), agent, identity, c.Hosts.Check()); err != nil {
		return err
	}

	front, err := listenDesktop("DESKTOP_ADDR", c.Addr)
	if err != nil {
		return err
	}
	defer front.Close()

	service, err := openDesktop(c.AgentURL, c.IdentityURL, c.DesktopURL, c.Hosts, front)
	if err != nil {
		return err
	}

	return lifecycle.Run(ctx, lifecycle.Layer{service})
}
