package main

import (
	"context"

	"everloop/activities/tools"
	"everloop/infra/mcp"
	"everloop/infra/toolbox"
)

// mcpSettings say what tool servers may do.
type mcpSettings struct {
	MCPAllow []string `name:"mcp-allow" env:"MCP_ALLOW" help:"Hosts that tool servers of users may be on although they are not public: host or host:port."`
}

// toolServers keeps the configured tool servers.
func (b *backend) toolServers() mcp.Vault { return mcp.Vault{SealedRecords: b.db, Box: b.buckets.Box} }

// newToolServers connects the worker's sessions with their tool servers.
func (b *backend) newToolServers(ctx context.Context, registry *tools.Registry, files toolbox.Files, shell toolbox.Shell) (*mcp.Manager, error) {
	manager := mcp.NewManager(mcp.Config{
		Records: b.toolServers(), Launcher: shell, Roots: files, HTTP: mcp.NewGuard(b.settings.MCPAllow),
		Environment: b.buckets, Profile: b.Profile, Version: version, Logger: b.logger,
	})
	if err := manager.Listen(ctx, b.nats); err != nil {
		manager.Close()
		return nil, err
	}
	registry.Provide(manager)
	return manager, nil
}
