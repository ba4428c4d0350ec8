package sessiondetail

import (
	"context"

	"everloop/domain"
)

// MCPServers keeps the configured tool servers. One that there is not, or that
// the caller cannot see, is mcp_server_not_found.
type MCPServers interface {
	CreateMCPServer(ctx context.Context, s domain.MCPServerRecord) (domain.MCPServerRecord, error)
	MCPServers(ctx context.Context, userID string) ([]domain.MCPServerRecord, error)
	MCPServer(ctx context.Context, caller domain.User, id string) (domain.MCPServerRecord, error)
	ChangeMCPServer(
		ctx context.Context,
		caller domain.User,
		id string,
		change func(*domain.MCPServerRecord) error,
	) (domain.MCPServerRecord, error)
	DeleteMCPServer(ctx context.Context, caller domain.User, id string, may func(domain.MCPServerRecord) error) error
	SessionMCPServers(ctx context.Context, sessionID string) ([]domain.MCPServerRecord, error)
	MCPConnections(ctx context.Context, sessionID string) ([]domain.MCPConnection, error)
}

// ToolServers reads the tool servers of sessions.
type ToolServers struct {
	Servers MCPServers
	Profile func(domain.Session) domain.Profile
}

// ServersOf gives the tool servers that count for a session, by name, disabled
// ones included.
func (a *ToolServers) ServersOf(ctx context.Context, session domain.Session) ([]domain.MCPServerRecord, error) {
	var servers []domain.MCPServerRecord

	if !session.NoToolServers {
		var err error
		if servers, err = a.Servers.SessionMCPServers(ctx, session.ID); err != nil {
			return nil, err
		}
	}

	return domain.ConfiguredMCPServers(servers, a.Profile(session).MCPServers), nil
}

// MCPWorkers are the workers, which hold the connections with tool servers.
type MCPWorkers interface {
	// Look has a session connected with its servers, and waits a moment.
	Look(ctx context.Context, sessionID string) error
	ServerChanged(ctx context.Context, serverID string) error
	UserDeleted(ctx context.Context, userID string) error
}
