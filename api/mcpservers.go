package api

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// MCPServers keeps the configured tool servers. One that there is not, or that
// the caller cannot see, is mcp_server_not_found.
type MCPServers interface {
	CreateMCPServer(ctx context.Context, s domain.MCPServerRecord) (domain.MCPServerRecord, error)
	MCPServers(ctx context.Context, userID string) ([]domain.MCPServerRecord, error)
	MCPServer(ctx context.Context, caller domain.User, id string) (domain.MCPServerRecord, error)
	ChangeMCPServer(ctx context.Context, caller domain.User, id string, change func(*domain.MCPServerRecord) error) (domain.MCPServerRecord, error)
	DeleteMCPServer(ctx context.Context, caller domain.User, id string, may func(domain.MCPServerRecord) error) error
	SessionMCPServers(ctx context.Context, sessionID string) ([]domain.MCPServerRecord, error)
	MCPConnections(ctx context.Context, sessionID string) ([]domain.MCPConnection, error)
}

// MCPWorkers are the workers, which hold the connections with tool servers.
type MCPWorkers interface {
	// Look has a session connected with its servers, and waits a moment.
	Look(ctx context.Context, sessionID string) error
	ServerChanged(ctx context.Context, serverID string) error
	UserDeleted(ctx context.Context, userID string) error
}

// masked stands for a value that is not told. Sent back, it leaves the value as
// it is.
const masked = "********"

// mcpServer is a tool server as it is shown.
type mcpServer struct {
	ID         string            `json:"id"`
	Scope      domain.MCPScope   `json:"scope" enum:"service,solution,session"`
	SolutionID *string           `json:"solution_id"`
	SessionID  *string           `json:"session_id"`
	OwnerID    string            `json:"owner_id"`
	Name       string            `json:"name"`
	Transport  string            `json:"transport" enum:"stdio,http"`
	Command    string            `json:"command"`
	Args       []string          `json:"args"`
	Env        map[string]string `json:"env" doc:"The values are masked."`
	URL        string            `json:"url"`
	Headers    map[string]string `json:"headers" doc:"The values are masked."`
	Tools      []string          `json:"tools" doc:"The only tools that are offered; empty: all."`
	Timeout    int               `json:"timeout_s" doc:"Seconds that one call may take."`
	Enabled    bool              `json:"enabled"`
	TrustHints bool              `json:"trust_hints" doc:"Whether the server is believed which of its tools only read or may be called again."`
	CreatedAt  time.Time         `json:"created_at"`
	UpdatedAt  time.Time         `json:"updated_at"`
}

// mcpServerBody shows a server to a caller. How a server of the service is
// reached is told to administrators only.
func mcpServerBody(s domain.MCPServerRecord, caller domain.User) mcpServer {
	out := mcpServer{
		ID: s.ID, Scope: s.Scope, SolutionID: s.SolutionID, SessionID: s.SessionID, OwnerID: s.OwnerID, Name: s.Name,
		Transport: s.Transport, Args: []string{}, Env: map[string]string{}, Headers: map[string]string{}, Tools: orEmpty(s.Tools),
		Timeout: s.TimeoutS, Enabled: s.Enabled, TrustHints: s.TrustHints, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if s.Scope == domain.MCPOfService && !caller.Administrator {
		return out
	}
	out.Command, out.Args, out.URL = s.Command, orEmpty(s.Args), s.URL
	for name := range s.Env {
		out.Env[name] = masked
	}
	for name := range s.Headers {
		out.Headers[name] = masked
	}
	return out
}

// MCPServerRef is the path of an operation on one tool server.
type MCPServerRef struct {
	ID string `path:"id"`
}

// MCPSettings are what can be said of a tool server; what is left out keeps its
// value, or takes its default.
type MCPSettings struct {
	Name       *string            `json:"name,omitempty" pattern:"^[a-z0-9_-]{1,64}$" patternDescription:"1 to 64 of a-z, 0-9, _ and -"`
	Transport  *string            `json:"transport,omitempty" enum:"stdio,http"`
	Command    *string            `json:"command,omitempty" maxLength:"4096" doc:"The program of a stdio server, in the session's sandbox."`
	Args       *[]string          `json:"args,omitempty" nullable:"true" maxItems:"256"`
	Env        *map[string]string `json:"env,omitempty" nullable:"true" doc:"Its environment, besides that of the session."`
	URL        *string            `json:"url,omitempty" maxLength:"4096" doc:"The address of a server with streamable HTTP."`
	Headers    *map[string]string `json:"headers,omitempty" nullable:"true" doc:"Sent with every request to it."`
	Tools      *[]string          `json:"tools,omitempty" nullable:"true" maxItems:"256"`
	Timeout    *int               `json:"timeout_s,omitempty" minimum:"1" maximum:"3600"`
	Enabled    *bool              `json:"enabled,omitempty"`
	TrustHints *bool              `json:"trust_hints,omitempty"`
}

func (s *server) mcpRoutes() {
	const path, one, tag = "/api/mcp-servers", "/api/mcp-servers/{id}", "Tool servers"
	add(s, operation{
		id: "create-mcp-server", method: fiber.MethodPost, path: path, tag: tag, summary: "Configure a tool server",
		scope: auth.SessionsWrite,
	}, s.createMCPServer)
	add(s, operation{
		id: "list-mcp-servers", method: fiber.MethodGet, path: path, tag: tag, summary: "The service's tool servers and the caller's own",
		scope: auth.SessionsRead,
	}, s.listMCPServers)
	add(s, operation{
		id: "get-mcp-server", method: fiber.MethodGet, path: one, tag: tag, summary: "One tool server", scope: auth.SessionsRead,
	}, func(ctx context.Context, in *MCPServerRef) (*body[mcpServer], error) {
		found, err := s.MCP.MCPServer(ctx, callerOf(ctx).User, in.ID)
		return answer(mcpServerBody(found, callerOf(ctx).User), err)
	})
	add(s, operation{
		id: "change-mcp-server", method: fiber.MethodPatch, path: one, tag: tag, summary: "Change a tool server", scope: auth.SessionsWrite,
	}, s.changeMCPServer)
	add(s, operation{
		id: "delete-mcp-server", method: fiber.MethodDelete, path: one, tag: tag, summary: "Remove a tool server", scope: auth.SessionsWrite,
	}, s.deleteMCPServer)
	add(s, operation{
		id: "list-session-mcp-servers", method: fiber.MethodGet, path: "/api/sessions/{session_id}/mcp-servers", tag: tag,
		summary: "The tool servers that count for a session, and how they are", scope: auth.SessionsRead,
	}, s.sessionMCPServers)
}

func (s *server) createMCPServer(ctx context.Context, in *struct {
	Body struct {
		MCPSettings
		Scope      *domain.MCPScope `json:"scope,omitempty" enum:"service,solution,session" doc:"Follows from the ids when it is left out."`
		SolutionID *string          `json:"solution_id,omitempty" nullable:"true" minLength:"1" maxLength:"128"`
		SessionID  *string          `json:"session_id,omitempty" nullable:"true" minLength:"1" maxLength:"128"`
	}
},
) (*body[mcpServer], error) {
	caller := callerOf(ctx)
	record := domain.MCPServerRecord{
		MCPServer: domain.MCPServer{TimeoutS: domain.DefaultMCPTimeout, Enabled: true}, OwnerID: caller.User.ID, TrustHints: true,
		SolutionID: in.Body.SolutionID, SessionID: in.Body.SessionID, Scope: value(in.Body.Scope),
	}
	if err := placeMCPServer(&record); err != nil {
		return nil, err
	}
	if err := mayChangeMCPServer(caller, record); err != nil {
		return nil, err
	}
	if record.Scope == domain.MCPOfSession {
		if _, err := s.Store.OwnSession(ctx, caller.User, *record.SessionID); err != nil {
			return nil, err
		}
	}
	if err := applyMCPSettings(&record, in.Body.MCPSettings); err != nil {
		return nil, err
	}
	made, err := s.MCP.CreateMCPServer(ctx, record)
	if err != nil {
		return nil, err
	}
	s.mcpServerChanged(ctx, "mcp_server.create", made)
	return answer(mcpServerBody(made, caller.User), nil)
}

// placeMCPServer finds the scope from what was given of it.
func placeMCPServer(r *domain.MCPServerRecord) error {
	if r.Scope == "" {
		switch {
		case r.SessionID != nil:
			r.Scope = domain.MCPOfSession
		case r.SolutionID != nil:
			r.Scope = domain.MCPOfSolution
		default:
			r.Scope = domain.MCPOfService
		}
	}
	switch {
	case (r.Scope == domain.MCPOfSession) != (r.SessionID != nil):
		return domain.Invalidf("body.session_id", "goes with the scope session, and only with it")
	case (r.Scope == domain.MCPOfSolution) != (r.SolutionID != nil):
		return domain.Invalidf("body.solution_id", "goes with the scope solution, and only with it")
	}
	return nil
}

// mayChangeMCPServer says whether the caller may make, change or remove a
// server: administrators those of the service, everybody his own.
func mayChangeMCPServer(caller domain.Caller, r domain.MCPServerRecord) error {
	switch {
	case r.Scope == domain.MCPOfService && !caller.User.Administrator:
		return domain.Newf(domain.Forbidden, "administrator_required", "only administrators may do this")
	case r.Scope == domain.MCPOfService && !auth.Allows(caller, auth.Admin):
		return missingScope(auth.Admin)
	case r.Scope != domain.MCPOfService && r.OwnerID != caller.User.ID:
		return domain.Newf(domain.Forbidden, "forbidden", "only the owner of the tool server may change it")
	}
	return nil
}

// mcpServerChanged tells the workers, and keeps a record of what was done for
// everybody.
func (s *server) mcpServerChanged(ctx context.Context, action string, r domain.MCPServerRecord) {
	if err := s.MCPWorkers.ServerChanged(ctx, r.ID); err != nil {
		s.Logger.Warn("workers not told of a changed tool server; they notice within seconds", "error", err)
	}
	if r.Scope != domain.MCPOfService {
		return
	}
	if err := s.Store.Audit(ctx, callerOf(ctx).User.ID, action, r.ID, map[string]string{"name": r.Name}); err != nil {
		s.Logger.Warn("audit record not written", "action", action, "error", err)
	}
}

func (s *server) listMCPServers(ctx context.Context, in *struct {
	Scope      string `query:"scope" enum:"service,solution,session"`
	SolutionID string `query:"solution_id"`
	SessionID  string `query:"session_id"`
},
) (*body[list[mcpServer]], error) {
	caller := callerOf(ctx).User
	found, err := s.MCP.MCPServers(ctx, caller.ID)
	items := []mcpServer{}
	for _, r := range found {
		if in.Scope != "" && string(r.Scope) != in.Scope || in.SolutionID != "" && value(r.SolutionID) != in.SolutionID ||
			in.SessionID != "" && value(r.SessionID) != in.SessionID {
			continue
		}
		items = append(items, mcpServerBody(r, caller))
	}
	return answer(listOf(items), err)
}

func (s *server) changeMCPServer(ctx context.Context, in *struct {
	MCPServerRef
	Body MCPSettings
},
) (*body[mcpServer], error) {
	caller := callerOf(ctx)
	changed, err := s.MCP.ChangeMCPServer(ctx, caller.User, in.ID, func(r *domain.MCPServerRecord) error {
		if err := mayChangeMCPServer(caller, *r); err != nil {
			return err
		}
		return applyMCPSettings(r, in.Body)
	})
	if err != nil {
		return nil, err
	}
	s.mcpServerChanged(ctx, "mcp_server.change", changed)
	return answer(mcpServerBody(changed, caller.User), nil)
}

func (s *server) deleteMCPServer(ctx context.Context, in *MCPServerRef) (*body[okBody], error) {
	caller := callerOf(ctx)
	var gone domain.MCPServerRecord
	err := s.MCP.DeleteMCPServer(ctx, caller.User, in.ID, func(r domain.MCPServerRecord) error {
		gone = r
		return mayChangeMCPServer(caller, r)
	})
	if err != nil {
		return nil, err
	}
	s.mcpServerChanged(ctx, "mcp_server.delete", gone)
	return answer(okBody{true}, nil)
}
