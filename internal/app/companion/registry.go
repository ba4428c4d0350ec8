package companion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"everloop/companions/credentials"
	"everloop/companions/registry"
	"everloop/internal/app/engine"
	"everloop/internal/app/flags"
	"everloop/internal/lifecycle"
)

// registrySettings are those of the skill registry in every role that serves it.
type registrySettings struct {
	RegistryKey string `name:"registry-key" env:"REGISTRY_KEY" help:"Token by which machines administer the skill registry, of at least 16 characters; none when unset."`
	AgentURL    string `name:"agent-url" env:"AGENT_URL" help:"The agent, which the skill registry asks whether credentials are valid."`
}

func (s *registrySettings) check() error {
	var faults []error
	if err := credentials.CheckKey(s.RegistryKey); err != nil {
		faults = append(faults, fmt.Errorf("REGISTRY_KEY %w", err))
	}

	faults = append(faults, flags.CheckURL("AGENT_URL", s.AgentURL))

	return errors.Join(faults...)
}

// openRegistry makes the registry on the engines, which are started; front says what
// clients and the disk allow.
func (s *registrySettings) openRegistry(
	ctx context.Context, database string, objects engine.ObjectsSettings, agent string, front registry.Config,
) (*registry.Service, error) {
	front.DatabaseURL, front.Log = database, slog.Default()
	front.Credentials = credentials.New(agent, s.RegistryKey)
	front.Packages = registry.Bucket{
		Endpoint: objects.S3Endpoint, Name: objects.S3Bucket, AccessKey: objects.S3AccessKey, SecretKey: objects.S3SecretKey,
		UseTLS: objects.S3UseTLS, Transport: objects.Transport(),
	}

	return registry.Open(ctx, front)
}

func registryService(service *registry.Service, front net.Listener) lifecycle.Service {
	return lifecycle.Func("skill registry", func(ctx context.Context) error { return service.Serve(ctx, front) })
}

// registryCompanion returns the skill registry next to the agent.
func registryCompanion() companion {
	return companion{
		label: "Registry", variable: "REGISTRY_ADDR",
		address: func(s *Settings) string { return s.RegistryAddr },
		open: func(ctx context.Context, b *Beside, agent Agent, front net.Listener) (lifecycle.Service, error) {
			service, err := b.settings.openRegistry(ctx, agent.Database, agent.Objects, b.settings.agentURL(agent), registry.Config{
				Hosts: agent.Hosts.Allowed(), Proxies: agent.Proxies.Trusted(), Room: flags.CheckReserve(agent.DataDir),
			})
			if err != nil {
				return nil, err
			}

			return registryService(service, front), nil
		},
	}
}

// Registry serves the skill registry alone.
type Registry struct {
	Addr             string `default:"127.0.0.1:8010" env:"REGISTRY_ADDR" help:"Where the skill registry listens."`
	DatabaseURL      string `env:"DATABASE_URL" help:"PostgreSQL 15 or newer; the registry uses the schema registry of it."`
	registrySettings `embed:""`

	engine.ObjectsSettings `embed:""`
	flags.Hosts            `embed:""`
	flags.Proxies          `embed:""`
}

// Run implements the command.
func (c *Registry) Run(ctx context.Context) error {
	faults := []error{
		flags.CheckAddress("REGISTRY_ADDR", c.Addr), c.registrySettings.check(), c.Hosts.Check(), c.Proxies.Check(),
		c.ObjectsSettings.Check(),
	}
	if c.DatabaseURL == "" || c.S3Endpoint == "" || c.AgentURL == "" && c.RegistryKey == "" {
		faults = append(faults, errors.New("the registry needs DATABASE_URL, S3_ENDPOINT, and AGENT_URL (or "+
			"REGISTRY_KEY)"))
	}

	if err := errors.Join(faults...); err != nil {
		return err
	}

	front, err := flags.Listen("REGISTRY_ADDR", c.Addr)
	if err != nil {
		return err
	}
	defer front.Close()

	opening, cancel := context.WithTimeout(ctx, engine.ConnectTimeout)
	defer cancel()

	service, err := c.openRegistry(opening, c.DatabaseURL, c.ObjectsSettings, c.AgentURL, registry.Config{
		Hosts: c.Allowed(), Proxies: c.Trusted(),
	})
	if err != nil {
		return err
	}

	return lifecycle.Run(ctx, lifecycle.Layer{registryService(service, front)})
}
