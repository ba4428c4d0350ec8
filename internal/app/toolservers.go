package app

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"everloop/activities/tools"
	"everloop/infra/mcp"
	"everloop/infra/netguard"
	"everloop/infra/toolbox"
	"everloop/internal/release"
)

// mcpSettings say what tool servers may do.
type mcpSettings struct {
	MCPAllow []string `name:"mcp-allow" env:"MCP_ALLOW" help:"Non-public hosts that tool servers of users may be on: host, host:port, *.domain, a network."`
}

// mcpGuard checks where users' tool servers are; own is where this service listens.
// A connection to a server has no path, so that MCP_ALLOW names none.
func (s *mcpSettings) mcpGuard(own []string) (*netguard.Guard, error) {
	guard, err := guardWithoutPaths(s.MCPAllow, own)
	if err != nil {
		return nil, fmt.Errorf("MCP_ALLOW: %w", err)
	}

	return guard, nil
}

// guardWithoutPaths makes a guard for connections that are not for one path.
func guardWithoutPaths(allow, own []string) (*netguard.Guard, error) {
	for _, entry := range allow {
		if _, err := netip.ParsePrefix(entry); err != nil && strings.Contains(entry, "/") {
			return nil, fmt.Errorf("%q is neither a host, host:port, *.domain, an address nor a network", entry)
		}
	}

	return netguard.New(allow, own)
}

// newToolServers connects the worker's sessions with their tool servers.
func (b *backend) newToolServers(
	ctx context.Context,
	registry *tools.Registry,
	files toolbox.Files,
	shell toolbox.Shell,
) (*mcp.Manager, error) {
	guard, err := b.settings.mcpGuard(b.settings.ownAddresses())
	if err != nil {
		return nil, err
	}

	manager := mcp.NewManager(mcp.Config{
		Store:       b.toolServers,
		Launcher:    shell,
		Roots:       files,
		HTTP:        mcp.NewGuard(guard),
		Environment: b.buckets,
		Policies:    b,
		Presets:     b.settings.browserTools(),
		Profile:     b.Profile,
		Version:     release.Version,
		Logger:      b.logger,
	})
	if err := manager.Listen(ctx, b.NATS); err != nil {
		manager.Close()
		return nil, err
	}

	registry.Provide(manager)

	return manager, nil
}
