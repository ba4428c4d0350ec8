package library

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// pinState describes how far the definition of a tool is accepted.
type pinState string

const (
	pinAccepted pinState = "accepted"
	pinChanged  pinState = "changed"
	pinNew      pinState = "new"
)

// toolDefinition is what a server says of a tool, its texts cleaned and cut.
type toolDefinition struct {
	Title       string         `json:"title" doc:"Its title." example:"Read a ticket"`
	Description string         `json:"description" doc:"The description that the model reads." example:"Returns a ticket."`
	Schema      map[string]any `json:"schema" doc:"The JSON Schema of its arguments." example:"{\"type\": \"object\"}"`
	ReadOnly    bool           `json:"read_only" doc:"Whether the server says that it only reads."`
	Idempotent  bool           `json:"idempotent" doc:"Whether the server says that it may be called again."`
	Digest      string         `json:"digest" doc:"Distinguishes definitions." example:"5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"`
}

// pinnedTool is a tool of a server with its accepted and its proposed definition.
type pinnedTool struct {
	Name       string          `json:"name" doc:"Its name, as the server calls it." example:"read_ticket"`
	State      pinState        `json:"state" enum:"accepted,changed,new" doc:"Sessions are offered accepted tools only."`
	Accepted   *toolDefinition `json:"accepted" doc:"The accepted definition; null: the tool is new."`
	Proposed   *toolDefinition `json:"proposed" doc:"The definition that waits for acceptance; null: none."`
	ProposedAt *time.Time      `json:"proposed_at" doc:"When the server listed it first."`
}

func definitionBody(t *toolserver.Tool) *toolDefinition {
	if t == nil {
		return nil
	}

	out := toolDefinition{
		Title: t.Title, Description: t.Description, Schema: map[string]any{}, ReadOnly: t.ReadOnly, Idempotent: t.Idempotent,
		Digest: t.Digest(),
	}
	_ = json.Unmarshal(t.Schema, &out.Schema) // it is an object

	return &out
}

func pinnedToolBody(pin toolserver.Pin) pinnedTool {
	out := pinnedTool{
		Name: pin.Tool, State: pinAccepted, Accepted: definitionBody(pin.Accepted), Proposed: definitionBody(pin.Proposed),
		ProposedAt: pin.ProposedAt,
	}

	switch {
	case pin.Accepted == nil:
		out.State = pinNew
	case pin.Proposed != nil:
		out.State = pinChanged
	}

	return out
}

// registerTools adds the operations on the definitions of a server's tools.
func (a *ToolServersAPI) registerTools(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-mcp-server-tools", Method: fiber.MethodGet, Path: "/api/mcp-servers/{id}/tools", Tag: "Tool servers",
		Summary: "List the tools of a tool server, with changes that wait for acceptance",
		Scope:   auth.SessionsRead,
		Errors:  httpx.Codes{http.StatusNotFound: "mcp_server_not_found"},
	}, func(ctx context.Context, in *MCPServerRef) (*httpx.Body[fields.List[pinnedTool]], error) {
		if _, err := a.Servers.MCPServer(ctx, httpx.CallerOf(ctx).User, in.ID); err != nil {
			return nil, err
		}

		pins, err := a.Servers.MCPTools(ctx, in.ID)
		items := []pinnedTool{}

		for _, pin := range pins {
			items = append(items, pinnedToolBody(pin))
		}

		return httpx.Answer(fields.ListOf(items), err)
	})
	httpx.Register(r, httpx.Operation{
		ID:      "accept-mcp-server-tools",
		Method:  fiber.MethodPost,
		Path:    "/api/mcp-servers/{id}/tools/accept",
		Tag:     "Tool servers",
		Summary: "Accept changed or new definitions of a tool server's tools",
		Description: "Accepts all of the named definitions or none. A digest is that of the proposed definition, " +
			"so that nothing is accepted that was not shown.",
		Scope: auth.SessionsWrite,
		Errors: httpx.Codes{
			http.StatusForbidden: "administrator_required forbidden", http.StatusNotFound: "mcp_server_not_found",
			http.StatusConflict: "tool_definition_changed",
		},
		Example: `{"tools": {"read_ticket": "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"}}`,
	}, a.acceptTools)
}

func (a *ToolServersAPI) acceptTools(ctx context.Context, in *struct {
	MCPServerRef
	Body struct {
		Tools map[string]string `json:"tools" minProperties:"1" maxProperties:"1024" doc:"The digests of proposed definitions, by the name of the tool."`
	}
},
) (*httpx.Body[mcpServer], error) {
	caller := httpx.CallerOf(ctx)

	server, err := a.Servers.AcceptMCPTools(ctx, caller.User, in.ID, in.Body.Tools, func(r toolserver.Record) error {
		return mayChangeMCPServer(caller, r)
	})
	if err != nil {
		return nil, err
	}

	a.mcpServerChanged(ctx, "mcp_server.accept_tools", server)

	return httpx.Answer(mcpServerBody(server, caller.User), nil)
}

// refusal is a model whose server has refused the tools of a tool server.
type refusal struct {
	Model     string    `json:"model" doc:"The model." example:"local-large"`
	RefusedAt time.Time `json:"refused_at" doc:"When its server refused them."`
}

// refusalsOf returns the models whose servers refuse the tools of a tool server.
func refusalsOf(server string, all []domain.ModelRefusal) []refusal {
	out := []refusal{}

	for _, r := range all {
		if r.Server == server {
			out = append(out, refusal{r.Model, r.RefusedAt})
		}
	}

	return out
}
