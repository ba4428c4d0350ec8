package library

import (
	"context"
	"fmt"
	"slices"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// sessionMCPServer is a tool server as a session sees it.
type sessionMCPServer struct {
	ID        string            `json:"id" doc:"Empty for a server that the solution's files configure." example:"01a1ff63-410c-7339-a0ab-68ceb76ed05e"`
	Name      string            `json:"name" doc:"Its name." example:"tickets"`
	Scope     toolserver.Scope  `json:"scope" enum:"service,solution,session" doc:"Its scope."`
	Transport string            `json:"transport" enum:"stdio,http" doc:"The transport."`
	Enabled   bool              `json:"enabled" doc:"Whether it is enabled."`
	Status    toolserver.Status `json:"status" enum:"connecting,connected,failed,disabled" doc:"Its status."`
	Error     *string           `json:"error" doc:"Why it is not connected, or what of its tools is not offered."`
	RefusedBy []refusal         `json:"refused_by" doc:"The models whose servers refused its tools. Requests of the session to them leave it out while its tools are the same."`
	Tools     []mcpTool         `json:"tools" doc:"The tools."`
}

type mcpTool struct {
	Name        string `json:"name" doc:"Its name."`
	Description string `json:"description" doc:"The description."`
	ReadOnly    bool   `json:"read_only" doc:"Whether it is read-only."`
}

// mcpDisabled is the status of a server that is not used; one with its name in a
// wider scope is then not used either.
const mcpDisabled toolserver.Status = "disabled"

func (a *ToolServersAPI) sessionMCPServers(ctx context.Context, in *access.SessionRef) (*httpx.Body[fields.List[sessionMCPServer]], error) {
	session, role, err := a.Readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	servers, err := a.ServersOf(ctx, session)
	if err != nil {
		return nil, err
	}

	used, left := toolserver.Used(servers)
	if len(used) > 0 && role != domain.ViewerViewer { // who only looks on starts nothing
		if err := a.Workers.Look(ctx, session.ID); err != nil {
			a.Logger.Info("no worker has looked at the tool servers of a session", "session_id", session.ID, "error", err)
		}
	}

	states, err := a.Servers.MCPConnections(ctx, session.ID)
	if err != nil {
		return nil, err
	}

	refusals, err := a.Servers.ModelRefusals(ctx, session.ID)
	if err != nil {
		return nil, err
	}

	items := []sessionMCPServer{}

	for _, r := range servers {
		item := sessionMCPServerBody(r, states, role)
		item.RefusedBy = refusalsOf(r.Name, refusals)

		if slices.ContainsFunc(left, func(l toolserver.Record) bool { return l.Name == r.Name }) {
			why := fmt.Sprintf("a session uses at most %d tool servers", toolserver.MaxOfSession)
			item.Status, item.Error, item.Tools = toolserver.Failed, &why, []mcpTool{}
		}

		items = append(items, item)
	}

	return httpx.Answer(fields.ListOf(items), nil)
}

func sessionMCPServerBody(r toolserver.Record, states []toolserver.Connection, role domain.ViewerRole) sessionMCPServer {
	out := sessionMCPServer{
		ID:        r.ID,
		Name:      r.Name,
		Scope:     r.Scope,
		Transport: r.Transport,
		Enabled:   r.Enabled,
		Status:    toolserver.Connecting,
		Tools:     []mcpTool{},
	}
	if !r.Enabled {
		out.Status = mcpDisabled
		return out
	}

	for _, state := range states {
		if state.Name != r.Name {
			continue
		}

		out.Status = state.Status
		if state.Error != "" && role != domain.ViewerViewer { // it may quote the server
			out.Error = &state.Error
		}

		for _, t := range state.Tools {
			if len(r.Tools) == 0 || slices.Contains(r.Tools, t.Name) {
				out.Tools = append(out.Tools, mcpTool{t.Name, t.Description, r.TrustHints && t.ReadOnly})
			}
		}
	}

	return out
}
