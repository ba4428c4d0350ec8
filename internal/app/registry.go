package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"

	"everloop/companions/credentials"
	"everloop/companions/registry"
	"everloop/internal/lifecycle"
)

// registrySettings are those of the skill registry in every role that serves it.
type registrySettings struct {
	RegistryDatabaseURL string `name:"registry-database-url" env:"REGISTRY_DATABASE_URL" help:"PostgreSQL of the skill registry; DATABASE_URL when unset."`
	RegistryKey         string `name:"registry-key" env:"REGISTRY_KEY" help:"Token by which machines administer the skill registry, of at least 16 characters; none when unset."`
	AgentURL            string `name:"agent-url" env:"AGENT_URL" help:"The agent, which the skill registry asks whether credentials are valid."`
}

func (s *registrySettings) checkRegistry() error {
	var faults []error
	if err := credentials.CheckKey(s.RegistryKey); err != nil {
		faults = append(faults, fmt.Errorf("REGISTRY_KEY %w", err))
	}

	if s.AgentURL != "" {
		at, err := url.Parse(s.AgentURL)
		if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
			faults = append(faults, errors.New("AGENT_URL must start with http:// or https://"))
		}
	}

	if s.RegistryDatabaseURL != "" && databaseURL(s.RegistryDatabaseURL) != nil {
		faults = append(faults, errors.New("REGISTRY_DATABASE_URL must be as postgres://user:password@host:5432/database"))
	}

	return errors.Join(faults...)
}

// openRegistry makes the registry on the engines, which are started; front says what
// clients and the disk allow.
func (s *registrySettings) openRegistry(
	ctx context.Context, database string, objects objectsSettings, agent string, front registry.Config,
) (*registry.Service, error) {
	front.DatabaseURL, front.Log = cmp.Or(s.RegistryDatabaseURL, database), slog.Default()
	front.Credentials = credentials.New(agent, s.RegistryKey)
	front.Packages = registry.Bucket{
		Endpoint: objects.S3Endpoint, Name: objects.S3Bucket, AccessKey: objects.S3AccessKey, SecretKey: objects.S3SecretKey,
		UseTLS: objects.S3UseTLS, Transport: objects.s3Transport,
	}

	return registry.Open(ctx, front)
}

func registryService(service *registry.Service, front net.Listener) lifecycle.Service {
	return lifecycle.Func("skill registry", func(ctx context.Context) error { return service.Serve(ctx, front) })
}

// registryCompanion is the skill registry beside the agent.
func registryCompanion() companion {
	return companion{
		label: "Registry", variable: "REGISTRY_ADDR",
		address: func(c *Up) string { return c.RegistryAddr },
		open: func(ctx context.Context, c *Up, front net.Listener) (lifecycle.Service, error) {
			service, err := c.openRegistry(
				ctx,
				c.DatabaseURL,
				c.objectsSettings,
				c.agentURL(),
				registry.Config{Hosts: c.allowed(), Proxies: c.proxies(), Room: c.room(c.DataDir)},
			)
			if err != nil {
				return nil, err
			}

			return registryService(service, front), nil
		},
	}
}

// useOwnRegistry makes the registry of this process the agent's, unless another one is
// configured.
func (c *Up) useOwnRegistry(addr string) {
	if c.RegistryURL == "" {
		c.RegistryURL = "http://" + reachable(addr)
	}
}

// ownURL is the address by which services of this process reach the agent.
func (c *Up) ownURL() string { return "http://" + reachable(c.AgentAddr) }

// agentURL is where services of this process ask whether credentials are valid.
func (c *Up) agentURL() string { return cmp.Or(c.registrySettings.AgentURL, c.ownURL()) }

// reachable gives a listener's address as one to connect to.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}

	return addr
}

// Registry serves the skill registry alone.
type Registry struct {
	Addr             string `default:"127.0.0.1:8010" env:"REGISTRY_ADDR" help:"Where the skill registry listens."`
	DatabaseURL      string `env:"DATABASE_URL" help:"PostgreSQL 15 or newer, where REGISTRY_DATABASE_URL is unset."`
	registrySettings `embed:""`
	objectsSettings  `embed:""`
	hostSettings     `embed:""`
	proxySettings    `embed:""`
}

// Run implements the command.
func (c *Registry) Run(ctx context.Context) error {
	faults := []error{address("REGISTRY_ADDR", c.Addr), c.checkRegistry(), c.hostSettings.check(), c.proxySettings.check()}
	all := settings{engineSettings: engineSettings{objectsSettings: c.objectsSettings}}

	faults = append(faults, objectsEngine().options(&all))
	if c.DatabaseURL == "" && c.RegistryDatabaseURL == "" || c.S3Endpoint == "" || c.AgentURL == "" && c.RegistryKey == "" {
		faults = append(faults, errors.New("the registry needs DATABASE_URL (or REGISTRY_DATABASE_URL), S3_ENDPOINT, and AGENT_URL (or "+
			"REGISTRY_KEY)"))
	}

	if err := errors.Join(faults...); err != nil {
		return err
	}

	front, err := listen("REGISTRY_ADDR", c.Addr)
	if err != nil {
		return err
	}
	defer front.Close()

	opening, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()

	service, err := c.openRegistry(opening, c.DatabaseURL, all.objectsSettings, c.AgentURL, registry.Config{
		Hosts: c.allowed(), Proxies: c.proxies(),
	})
	if err != nil {
		return err
	}

	return lifecycle.Run(ctx, lifecycle.Layer{registryService(service, front)})
}
