package library

import (
	"context"
	"log/slog"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// masked stands for a value that is not shown. Sent back, it leaves the value as
// it is.
const masked = "********"

// mcpServer is a tool server as it is shown.
type mcpServer struct {
	ID            string            `json:"id" doc:"Its id." example:"01a1ff63-410c-7339-a0ab-68ceb76ed05e"`
	Scope         toolserver.Scope  `json:"scope" enum:"service,solution,session" doc:"Its scope."`
	SolutionID    *string           `json:"solution_id" doc:"The solution."`
	SessionID     *domain.SessionID `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	OwnerID       string            `json:"owner_id" doc:"The owner." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	Name          string            `json:"name" doc:"Its name." example:"tickets"`
	Preset        *string           `json:"preset" enum:"browser" nullable:"true" doc:"The preset that says how it is started; null: none."`
	Transport     string            `json:"transport" enum:"stdio,http" doc:"The transport."`
	Command       string            `json:"command" doc:"The command."`
	Args          []string          `json:"args" doc:"Arguments of the command."`
	Env           map[string]string `json:"env" doc:"The values are masked."`
	URL           string            `json:"url" doc:"Its address." example:"https://tickets.example/mcp"`
	Headers       map[string]string `json:"headers" doc:"The values are masked." example:"{\"Authorization\": \"********\"}"`
	Tools         []string          `json:"tools" doc:"The only tools that are offered; empty: all."`
	Timeout       int               `json:"timeout_s" doc:"Seconds that one call may take." example:"60"`
	Enabled       bool              `json:"enabled" doc:"Whether it is enabled."`
	TrustHints    bool              `json:"trust_hints" doc:"Whether the server is believed which of its tools only read or may be called again."`
	ProposedTools int               `json:"proposed_tools" doc:"Tools whose definition waits for acceptance, so that they are not offered."`
	CreatedAt     time.Time         `json:"created_at" doc:"Creation time."`
	UpdatedAt     time.Time         `json:"updated_at" doc:"Time of the last change."`
}

// mcpServerBody shows a server to a caller. How a server of the service is
// reached is shown to administrators only.
func mcpServerBody(s toolserver.Record, caller domain.User) mcpServer {
	out := mcpServer{
		ID: s.ID, Scope: s.Scope, SolutionID: s.SolutionID, SessionID: s.SessionID, OwnerID: s.OwnerID, Name: s.Name,
		Transport: s.Transport, Args: []string{}, Env: map[string]string{}, Headers: map[string]string{}, Tools: fields.OrEmpty(s.Tools),
		Timeout: s.TimeoutS, Enabled: s.Enabled, TrustHints: s.TrustHints, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
		ProposedTools: s.ProposedTools,
	}
	if s.OfPreset() {
		out.Preset = &s.Preset
	}

	if s.Scope == toolserver.OfService && !caller.Administrator {
		return out
	}

	out.Command, out.Args, out.URL = s.Command, fields.OrEmpty(s.Args), s.URL
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
	ID string `path:"id" doc:"The tool server." example:"01a1fd9e-08c4-7d0a-a3b5-2f9c4d1e6a77"`
}

// MCPSettings are what can be said of a tool server; what is left out keeps its
// value, or takes its default.
type MCPSettings struct {
	Name       *string            `json:"name,omitempty" pattern:"^[a-z0-9_-]{1,64}$" patternDescription:"1 to 64 of a-z, 0-9, _ and -" doc:"Its name." example:"tickets"`
	Preset     *string            `json:"preset,omitempty" enum:"browser" doc:"How it is started, in place of command, args, env, url and headers."`
	Transport  *string            `json:"transport,omitempty" enum:"stdio,http" doc:"The transport."`
	Command    *string            `json:"command,omitempty" maxLength:"4096" doc:"The program of a stdio server, in a sandbox."`
	Args       *[]string          `json:"args,omitempty" nullable:"true" maxItems:"256" doc:"Arguments of the command."`
	Env        *map[string]string `json:"env,omitempty" nullable:"true" doc:"Its environment; a server of the scope session gets that of the session too."`
	URL        *string            `json:"url,omitempty" maxLength:"4096" doc:"The address of a server with streamable HTTP." example:"https://tickets.example/mcp"`
	Headers    *map[string]string `json:"headers,omitempty" nullable:"true" doc:"Sent with every request to it." example:"{\"authorization\": \"Bearer 123\"}"`
	Tools      *[]string          `json:"tools,omitempty" nullable:"true" maxItems:"256" doc:"The tools that are enabled; empty: all."`
	Timeout    *int               `json:"timeout_s,omitempty" minimum:"1" maximum:"3600" doc:"Timeout of a call in seconds." example:"30"`
	Enabled    *bool              `json:"enabled,omitempty" doc:"Whether it is enabled."`
	TrustHints *bool              `json:"trust_hints,omitempty" doc:"Whether the server's hints about read-only and idempotent tools are trusted."`
}

// ToolServersAPI configures tool servers.
type ToolServersAPI struct {
	access.Sessions
	sessiondetail.ToolServers
	Workers sessiondetail.MCPWorkers
	Auditor *auth.Auditor
	Logger  *slog.Logger
}

// Register adds the operations of the area to the interface.
func (a *ToolServersAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "create-mcp-server", Method: fiber.MethodPost, Path: "/api/mcp-servers", Tag: "Tool servers",
		Summary: "Configure a tool server",
		Scope:   auth.SessionsWrite,
		Errors: httpx.Codes{
			403: "administrator_required forbidden",
			409: "mcp_server_name_taken too_many_mcp_servers",
			404: "session_not_found",
		},
		Example: `{"session_id": "01a1ff63-2e0c-7d30-8650-39ac67aaafb7", "name": "tickets", "transport": "http", ` +
			`"url": "https://tickets.example/mcp", "headers": {"authorization": "Bearer 123"}}`,
	}, a.createMCPServer)
	httpx.Register(r, httpx.Operation{
		ID: "list-mcp-servers", Method: fiber.MethodGet, Path: "/api/mcp-servers", Tag: "Tool servers",
		Summary: "List the tool servers of the service and of the caller",
		Scope:   auth.SessionsRead,
	}, a.listMCPServers)
	httpx.Register(r, httpx.Operation{
		ID: "get-mcp-server", Method: fiber.MethodGet, Path: "/api/mcp-servers/{id}", Tag: "Tool servers",
		Summary:     "Get a tool server",
		Description: "Connection details of global servers are visible to administrators only.",
		Scope:       auth.SessionsRead,
		Errors:      httpx.Codes{404: "mcp_server_not_found"},
	}, func(ctx context.Context, in *MCPServerRef) (*httpx.Body[mcpServer], error) {
		found, err := a.Servers.MCPServer(ctx, httpx.CallerOf(ctx).User, in.ID)
		return httpx.Answer(mcpServerBody(found, httpx.CallerOf(ctx).User), err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "change-mcp-server", Method: fiber.MethodPatch, Path: "/api/mcp-servers/{id}", Tag: "Tool servers",
		Summary: "Update a tool server",
		Description: "Replaces the fields that it names. A change of transport, url, command, args or preset needs env and headers in " +
			"clear, or {} to drop the stored ones: they do not follow to another receiver.",
		Scope: auth.SessionsWrite,
		Errors: httpx.Codes{
			403: "administrator_required forbidden", 404: "mcp_server_not_found", 409: "mcp_server_name_taken", 422: "secrets_required",
		},
		Example: `{"timeout_s": 30, "enabled": false}`,
	}, a.changeMCPServer)
	httpx.Register(r, httpx.Operation{
		ID: "delete-mcp-server", Method: fiber.MethodDelete, Path: "/api/mcp-servers/{id}", Tag: "Tool servers",
		Summary: "Delete a tool server",
		Scope:   auth.SessionsWrite,
		Errors:  httpx.Codes{403: "administrator_required forbidden", 404: "mcp_server_not_found"},
	}, a.deleteMCPServer)
	httpx.Register(r, httpx.Operation{
		ID: "list-session-mcp-servers", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/mcp-servers", Tag: "Tool servers",
		Summary:     "List the tool servers of a session, with their status",
		Description: "When the owner calls this, the session first connects to its servers, which may take a moment.",
		Scope:       auth.SessionsRead,
	}, a.sessionMCPServers)
	a.registerTools(r)
}

func (a *ToolServersAPI) createMCPServer(ctx context.Context, in *struct {
	Body struct {
		MCPSettings
		Scope      *toolserver.Scope `json:"scope,omitempty" enum:"service,solution,session" doc:"Follows from the ids when it is left out."`
		SolutionID *string           `json:"solution_id,omitempty" nullable:"true" minLength:"1" maxLength:"128" doc:"The solution."`
		SessionID  *domain.SessionID `json:"session_id,omitempty" nullable:"true" minLength:"1" maxLength:"128" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	}
},
) (*httpx.Body[mcpServer], error) {
	caller := httpx.CallerOf(ctx)

	record := toolserver.Record{
		MCPServer: domain.MCPServer{TimeoutS: toolserver.DefaultTimeout, Enabled: true}, OwnerID: caller.User.ID,
		SolutionID: in.Body.SolutionID, SessionID: in.Body.SessionID, Scope: fields.Value(in.Body.Scope),
	}
	if err := placeMCPServer(&record); err != nil {
		return nil, err
	}

	if err := mayChangeMCPServer(caller, record); err != nil {
		return nil, err
	}

	record.TrustHints = caller.User.Administrator
	if record.Scope == toolserver.OfSession {
		if _, err := a.Store.OwnSession(ctx, caller.User, *record.SessionID); err != nil {
			return nil, err
		}
	}

	if err := applyMCPSettings(&record, in.Body.MCPSettings); err != nil {
		return nil, err
	}

	made, err := a.Servers.CreateMCPServer(ctx, record)
	if err != nil {
		return nil, err
	}

	a.mcpServerChanged(ctx, "mcp_server.create", made)

	return httpx.Answer(mcpServerBody(made, caller.User), nil)
}

// placeMCPServer finds the scope from what was given of it.
func placeMCPServer(r *toolserver.Record) error {
	if r.Scope == "" {
		switch {
		case r.SessionID != nil:
			r.Scope = toolserver.OfSession
		case r.SolutionID != nil:
			r.Scope = toolserver.OfSolution
		default:
			r.Scope = toolserver.OfService
		}
	}

	switch {
	case (r.Scope == toolserver.OfSession) != (r.SessionID != nil):
		return domain.Invalidf("body.session_id", "goes with the scope session, and only with it")
	case (r.Scope == toolserver.OfSolution) != (r.SolutionID != nil):
		return domain.Invalidf("body.solution_id", "goes with the scope solution, and only with it")
	}

	return nil
}

// mayChangeMCPServer reports whether the caller may make, change or remove a
// server: administrators those of the service, users their own.
func mayChangeMCPServer(caller domain.Caller, r toolserver.Record) error {
	switch {
	case r.Scope == toolserver.OfService && !auth.Allows(caller, auth.Admin):
		return auth.Check(caller, auth.Admin)
	case r.Scope == toolserver.OfService && !caller.User.Administrator:
		return domain.Newf(domain.Forbidden, "administrator_required", "only administrators may do this")
	case r.Scope != toolserver.OfService && r.OwnerID != caller.User.ID:
		return domain.Newf(domain.Forbidden, "forbidden", "only the owner of the tool server may change it")
	}

	return nil
}

// mcpServerChanged notifies the workers and records what was done.
func (a *ToolServersAPI) mcpServerChanged(ctx context.Context, action string, r toolserver.Record) {
	if err := a.Workers.ServerChanged(ctx, r.ID); err != nil {
		a.Logger.Warn("failed to notify workers of a changed tool server; they notice within seconds", "error", err)
	}

	details := map[string]string{"name": r.Name, "scope": string(r.Scope)}
	a.Auditor.Record(ctx, httpx.CallerOf(ctx).User.ID, action, r.ID, details)
}

func (a *ToolServersAPI) listMCPServers(ctx context.Context, in *struct {
	Scope      string           `query:"scope" enum:"service,solution,session" doc:"Only servers of this scope."`
	SolutionID string           `query:"solution_id" doc:"Only servers of this solution." example:"general"`
	SessionID  domain.SessionID `query:"session_id" doc:"Only servers of this session." example:"01a1fd9b-4f0b-74a3-bdbc-594f816ae116"`
},
) (*httpx.Body[fields.List[mcpServer]], error) {
	caller := httpx.CallerOf(ctx).User
	found, err := a.Servers.MCPServers(ctx, caller.ID)
	items := []mcpServer{}

	for _, r := range found {
		if in.Scope != "" && string(r.Scope) != in.Scope || in.SolutionID != "" && fields.Value(r.SolutionID) != in.SolutionID ||
			in.SessionID != "" && fields.Value(r.SessionID) != in.SessionID {
			continue
		}

		items = append(items, mcpServerBody(r, caller))
	}

	return httpx.Answer(fields.ListOf(items), err)
}

func (a *ToolServersAPI) changeMCPServer(ctx context.Context, in *struct {
	MCPServerRef
	Body MCPSettings
},
) (*httpx.Body[mcpServer], error) {
	caller := httpx.CallerOf(ctx)

	changed, err := a.Servers.ChangeMCPServer(ctx, caller.User, in.ID, func(r *toolserver.Record) error {
		if err := mayChangeMCPServer(caller, *r); err != nil {
			return err
		}

		return applyMCPSettings(r, in.Body)
	})
	if err != nil {
		return nil, err
	}

	a.mcpServerChanged(ctx, "mcp_server.change", changed)

	return httpx.Answer(mcpServerBody(changed, caller.User), nil)
}

func (a *ToolServersAPI) deleteMCPServer(ctx context.Context, in *MCPServerRef) (*httpx.Body[fields.OkBody], error) {
	caller := httpx.CallerOf(ctx)

	var gone toolserver.Record

	err := a.Servers.DeleteMCPServer(ctx, caller.User, in.ID, func(r toolserver.Record) error {
		gone = r
		return mayChangeMCPServer(caller, r)
	})
	if err != nil {
		return nil, err
	}

	a.mcpServerChanged(ctx, "mcp_server.delete", gone)

	return httpx.Answer(fields.OkBody{OK: true}, nil)
}
