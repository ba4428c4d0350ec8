package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"everloop/internal/lifecycle"
	"everloop/terminal/components"
)

// Check requests the health of every component of a deployment, in the order in which
// they start. Addresses are those at which the components listen, or URLs.
type Check struct {
	IdentityAddr string        `default:"127.0.0.1:19000" env:"IDENTITY_ADDR" help:"Where the identity service is."`
	RegistryAddr string        `default:"127.0.0.1:8010" env:"REGISTRY_ADDR" help:"Where the skill registry is."`
	AgentAddr    string        `default:"127.0.0.1:8020" env:"AGENT_ADDR" help:"Where the agent's API is."`
	DesktopAddr  string        `default:"127.0.0.1:80" env:"DESKTOP_ADDR" help:"Where the desktop is; port 8080 is tried where 80 has no answer."`
	GatewayAddr  string        `default:"127.0.0.1:30000" env:"GATEWAY_ADDR" help:"Where the model gateway is."`
	GitAddr      string        `default:"127.0.0.1:30030" env:"GIT_ADDR" help:"Where git hosting is."`
	MockAddr     string        `default:"127.0.0.1:30023" env:"MOCK_ADDR" help:"Where the mock service is."`
	Timeout      time.Duration `default:"10s" help:"How long one component may take."`
	JSON         bool          `name:"json" help:"Write the results as JSON."`
}

// Run implements the command. Exit code 1 reports that a component has a problem.
func (c *Check) Run(ctx context.Context) error {
	if c.Timeout <= 0 {
		return errors.New("--timeout must be above 0")
	}

	results := components.Check(ctx, c.components(), c.Timeout)
	c.retryDesktop(ctx, results)

	write := components.WriteText
	if c.JSON {
		write = components.WriteJSON
	}

	err := write(os.Stdout, results)
	if err == nil && components.Failed(results) {
		os.Exit(1)
	}

	return err
}

// desktopAt is the place of the desktop in the order of the components.
const desktopAt = 3

// components lists them in the order in which they start.
func (c *Check) components() []components.Component {
	list := []components.Component{
		identityComponent(c.IdentityAddr), registryComponent(c.RegistryAddr),
		{Name: "agent", Key: "agent", Container: "api", Variable: "AGENT_ADDR", URL: c.AgentAddr, Path: "/api/health", Status: true},
		{Name: "desktop", Key: "desktop", Container: "desktop", Variable: "DESKTOP_ADDR", URL: c.DesktopAddr, Path: "/"},
		gatewayComponent(c.GatewayAddr), gitComponent(c.GitAddr),
		{Name: "mock service", Key: "mock", Container: "mock", Variable: "MOCK_ADDR", URL: c.MockAddr, Path: "/health"},
	}
	for i := range list {
		list[i].URL = reachableURL(list[i].URL)
	}

	return list
}

func identityComponent(at string) components.Component {
	return components.Component{
		Name: "identity", Key: "identity", Container: "identity", Variable: "IDENTITY_ADDR", URL: at, Path: "/api/health",
		Needs: "/api/v1/pat/v3/default",
	}
}

func registryComponent(at string) components.Component {
	return components.Component{
		Name: "skill registry", Key: "registry", Container: "registry", Variable: "REGISTRY_ADDR", URL: at, Path: "/api/health",
	}
}

func gatewayComponent(at string) components.Component {
	return components.Component{
		Name: "model gateway", Key: "gateway", Container: "gateway", Variable: "GATEWAY_ADDR", URL: at, Path: "/health",
	}
}

func gitComponent(at string) components.Component {
	return components.Component{Name: "git hosting", Key: "git", Container: "git", Variable: "GIT_ADDR", URL: at, Path: "/"}
}

// retryDesktop tries the port that the desktop takes where it may not bind 80.
func (c *Check) retryDesktop(ctx context.Context, results []components.Result) {
	if results[desktopAt].Status != 0 || c.DesktopAddr != "127.0.0.1:80" {
		return
	}

	other := c.components()[desktopAt]
	other.URL = "http://127.0.0.1:8080"

	if result := components.Probe(ctx, other, c.Timeout); result.OK {
		results[desktopAt] = result
	}
}

// reachableURL returns the URL of a listen address: one that stands for all addresses of a
// machine is reached by its loopback.
func reachableURL(at string) string {
	if at == "" || strings.Contains(at, "://") {
		return at
	}

	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return "http://" + at
	}

	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}

	return "http://" + net.JoinHostPort(host, port)
}

// Pauses between the tries to reach a component that does not answer yet.
const (
	firstLook = time.Second
	lastLook  = time.Minute
)

// besides returns the components that the agent is configured to use.
func (b *backend) besides() []components.Component {
	gateway := gatewayComponent(b.settings.GatewayURL)
	gateway.Variable = "LLM_GATEWAY_URL"
	gateway.URL = strings.TrimSuffix(strings.TrimRight(gateway.URL, "/"), "/v1")

	identity, registry := identityComponent(b.settings.IdentityURL), registryComponent(b.settings.RegistryURL)
	git := gitComponent(b.settings.GitURL)
	identity.Variable, registry.Variable, git.Variable = "IDENTITY_URL", "REGISTRY_URL", "GIT_URL"

	return []components.Component{identity, registry, gateway, git}
}

// companionVersions checks, at the start, that the services next to the agent work with
// this version. They may start after the agent: each is asked until it answers.
func (b *backend) companionVersions() lifecycle.Service {
	return lifecycle.Task("component versions", func(ctx context.Context) {
		var all sync.WaitGroup

		for _, c := range b.besides() {
			if c.URL != "" {
				all.Go(func() { checkVersion(ctx, c, b.logger) })
			}
		}

		all.Wait()
	})
}

func checkVersion(ctx context.Context, c components.Component, logger *slog.Logger) {
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		result := components.Probe(ctx, c, versionTime)

		switch {
		case ctx.Err() != nil:
			return
		case result.Version == "" && c.Key == "gateway" && result.Status != 0:
			return // a model server of another make, which has no version of ours
		case result.OK:
			logger.Info("component is compatible", "component", c.Name, "version", result.Version, "url", result.URL)
			return
		case result.Status == 200:
			logger.Error("component is not compatible with this version of the agent", "component", c.Name, "version", result.Version,
				"variable", c.Variable, "url", result.URL, "problem", result.Problem, "hint", result.Hint)

			return
		case wait == firstLook:
			logger.Info("component does not answer yet, retrying", "component", c.Name, "variable", c.Variable, "problem", result.Problem)
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// versionTime bounds one look at a component.
const versionTime = 10 * time.Second
