package sessiondetail

import (
	"context"

	"everloop/domain"
	"everloop/domain/toolserver"
	"everloop/service/toolservers"
)

// ToolServers reads the tool servers of sessions.
type ToolServers struct {
	Servers *toolservers.Store
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
