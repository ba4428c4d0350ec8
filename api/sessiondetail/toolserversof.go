package sessiondetail

import (
	"context"

	"everloop/domain"
	"everloop/domain/toolserver"
)

// MCPServers keeps the configured tool servers. One that there is not, or that
// the caller cannot see, is mcp_server_not_found.
type MCPServers interface {
	CreateMCPServer(ctx context.Context, s toolserver.Record) (toolserver.Record, error)
	MCPServers(ctx context.Context, userID string) ([]toolserver.Record, error)
	MCPServer(ctx context.Context, caller domain.User, id string) (toolserver.Record, error)
	ChangeMCPServer(
		ctx context.Context,
		caller domain.User,
		id string,
		change func(*toolserver.Record) error,
	) (toolserver.Record, error)
	DeleteMCPServer(ctx context.Context, caller domain.User, id string, may func(toolserver.Record) error) error
	SessionMCPServers(ctx context.Context, sessionID domain.SessionID) ([]toolserver.Record, error)
	MCPConnections(ctx context.Context, sessionID domain.SessionID) ([]toolserver.Connection, error)
	ModelRefusals(ctx context.Context, sessionID domain.SessionID) ([]domain.ModelRefusal, error)
	MCPTools(ctx context.Context, serverID string) ([]toolserver.Pin, error)
	// AcceptMCPTools accepts proposed definitions of tools, by name and digest, all or none.
	AcceptMCPTools(
		ctx context.Context, caller domain.User, id string, digests map[string]string, may func(toolserver.Record) error,
	) (toolserver.Record, error)
}

// ToolServers reads the tool servers of sessions.
type ToolServers struct {
	Servers MCPServers
	Profile func(domain.Session) domain.Profile
}

// ServersOf returns the tool servers that count for a session, by name, disabled
// ones included.
func (a *ToolServers) ServersOf(ctx context.Context, session domain.Session) ([]toolserver.Record, error) {
	var servers []toolserver.Record

	if !session.NoToolServers {
		var err error
		if servers, err = a.Servers.SessionMCPServers(ctx, session.ID); err != nil {
			return nil, err
		}
	}

	return toolserver.WithConfigured(servers, a.Profile(session).MCPServers), nil
}

// MCPWorkers are the workers, which hold the connections with tool servers.
type MCPWorkers interface {
	// Look has a session connected with its servers, and waits a moment.
	Look(ctx context.Context, sessionID domain.SessionID) error
	ServerChanged(ctx context.Context, serverID string) error
	UserDeleted(ctx context.Context, userID string) error
}
