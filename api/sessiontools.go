package api

import (
	"context"

	"everloop/domain"
)

// SessionTools gives the names of the tools that the main loop of a session is
// offered in executing mode, those of its own (its skills, its tool servers as
// they were last known) included. It sends no request and is quick.
type SessionTools func(ctx context.Context, session domain.Session) []string

// toolsOf gives the part of a session's setup that is about tools.
func (a *sessionViews) toolsOf(ctx context.Context, session domain.Session) []string {
	if session.ID == "" {
		return []string{} // the answer is an error
	}

	return orEmpty(a.setup.Tools(ctx, session))
}

// setupMCPServer is a tool server in a session's setup; how its connection is,
// and what it offers, its own operation returns.
type setupMCPServer struct {
	ID        string          `json:"id" doc:"Empty for a server that the solution's files configure."`
	Name      string          `json:"name" doc:"Its name."`
	Scope     domain.MCPScope `json:"scope" enum:"service,solution,session" doc:"Its scope."`
	Transport string          `json:"transport" enum:"stdio,http" doc:"The transport."`
}

// mcpServersOf gives the tool servers that a session uses.
func (a *sessionViews) mcpServersOf(ctx context.Context, session domain.Session) []setupMCPServer {
	out := []setupMCPServer{}
	if session.ID == "" {
		return out
	}

	servers, err := a.serversOf(ctx, session)
	if err != nil {
		a.logger.Warn("tool servers of a session not shown", "session_id", session.ID, "error", err)
		return out
	}

	used, _ := domain.UsedMCPServers(servers)
	for _, r := range used {
		out = append(out, setupMCPServer{r.ID, r.Name, r.Scope, r.Transport})
	}

	return out
}
