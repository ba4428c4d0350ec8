package companion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"

	"everloop/companions/credentials"
	"everloop/companions/edge"
	"everloop/companions/githost"
	"everloop/internal/app/flags"
	"everloop/internal/hosts"
	"everloop/internal/lifecycle"
)

// openGit takes the directory of the repositories, below the data directory; front says
// what clients and the disk allow.
func openGit(ctx context.Context, dataDir, registryURL, agent, key string, front githost.Config) (*githost.Service, error) {
	front.Dir, front.RegistryURL = filepath.Join(dataDir, "git"), registryURL
	front.Credentials, front.Log = credentials.New(agent, key), slog.Default()

	service, err := githost.Open(ctx, front)
	if err != nil {
		return nil, fmt.Errorf("open git hosting: %w", err)
	}

	return service, nil
}

func gitService(service *githost.Service, front net.Listener) lifecycle.Service {
	return lifecycle.Func("git hosting", func(ctx context.Context) error { return service.Serve(ctx, front) })
}

// gitCompanion returns the git hosting service next to the agent.
func gitCompanion() companion {
	return companion{
		label: "Git hosting", variable: "GIT_ADDR",
		address: func(s *Settings) string { return s.GitAddr },
		open: func(ctx context.Context, b *Beside, agent Agent, front net.Listener) (lifecycle.Service, error) {
			s := b.settings

			service, err := openGit(ctx, agent.DataDir, agent.RegistryURL, s.agentURL(agent), s.RegistryKey, githost.Config{
				Hosts:   agent.Hosts.Allowed(),
				Proxies: agent.Proxies.Trusted(),
				Room:    flags.CheckReserve(filepath.Join(agent.DataDir, "git")),
			})
			if errors.Is(err, githost.ErrNoGit) {
				slog.Warn("git hosting is not available: the program git is not installed")
				return withoutGit(front, agent.Hosts.Allowed()), nil
			}

			if err != nil {
				return nil, err
			}

			return gitService(service, front), nil
		},
	}
}

// withoutGit answers instead of git hosting on a machine that has no git: all else
// works there.
func withoutGit(front net.Listener, allowed hosts.List) lifecycle.Service {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		edge.Write(w, edge.Refuse(http.StatusServiceUnavailable, "git_missing", "%s", githost.ErrNoGit))
	})
	service := edge.Service{Name: "git hosting", Handler: refuse, Hosts: allowed, Log: slog.Default()}

	return lifecycle.Func("git hosting", func(ctx context.Context) error { return service.Serve(ctx, front) })
}

// Git serves git hosting alone.
type Git struct {
	Addr        string `default:"127.0.0.1:30030" env:"GIT_ADDR" help:"Where git hosting listens."`
	DataDir     string `default:"./data" env:"DATA_DIR" type:"path" help:"Data directory; the repositories are in git below it."`
	RegistryURL string `env:"REGISTRY_URL" help:"The skill registry, where pushes to main are published."`
	AgentURL    string `env:"AGENT_URL" help:"The agent, which is asked whether credentials are valid."`
	RegistryKey string `env:"REGISTRY_KEY" help:"Token by which machines administer the skill registry, accepted here too; none when unset."`

	flags.Hosts   `embed:""`
	flags.Proxies `embed:""`
}

// Run implements the command.
func (c *Git) Run(ctx context.Context) error {
	faults := []error{
		flags.CheckAddress("GIT_ADDR", c.Addr), c.Hosts.Check(), c.Proxies.Check(),
	}
	if err := credentials.CheckKey(c.RegistryKey); err != nil {
		faults = append(faults, fmt.Errorf("REGISTRY_KEY %w", err))
	}

	if c.RegistryURL == "" || c.AgentURL == "" && c.RegistryKey == "" {
		faults = append(faults, errors.New("git hosting needs REGISTRY_URL, and AGENT_URL (or REGISTRY_KEY)"))
	}

	faults = append(faults, flags.CheckURL("REGISTRY_URL", c.RegistryURL), flags.CheckURL("AGENT_URL", c.AgentURL))
	if err := errors.Join(faults...); err != nil {
		return err
	}

	front, err := flags.Listen("GIT_ADDR", c.Addr)
	if err != nil {
		return err
	}
	defer front.Close()

	service, err := openGit(ctx, c.DataDir, c.RegistryURL, c.AgentURL, c.RegistryKey, githost.Config{
		Hosts: c.Allowed(), Proxies: c.Trusted(), Room: flags.CheckReserve(filepath.Join(c.DataDir, "git")),
	})
	if err != nil {
		return err
	}

	return lifecycle.Run(ctx, lifecycle.Layer{gitService(service, front)})
}
