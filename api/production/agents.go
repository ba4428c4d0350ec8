package production

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/infra/solutions"
	"everloop/service/accounts"
	"everloop/service/agents"
)

// ProdAgentRef is the path of an operation on one production agent.
type ProdAgentRef struct {
	RecordID string `path:"record_id" maxLength:"128" doc:"The production agent." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
}

// ProdAgentFields are the fields of a production agent that its owner sets. A change sets
// all of them: what is left out is the default.
type ProdAgentFields struct {
	Name            string                `json:"name" minLength:"1" maxLength:"128" doc:"Its name." example:"Reviewer"`
	Icon            *string               `json:"icon,omitempty" nullable:"true" maxLength:"64" doc:"Its icon; default none." example:"magnifier"`
	SolutionID      string                `json:"solution_id" minLength:"1" maxLength:"128" doc:"The solution of its sessions." example:"software_factory"`
	BizRoleID       string                `json:"biz_role_id" minLength:"1" maxLength:"128" doc:"The role of its sessions." example:"reviewer"`
	AgentTemplate   *string               `json:"agent_template,omitempty" nullable:"true" maxLength:"200000" doc:"Who the agent is; added to the system prompt."`
	InitialMode     *string               `json:"initial_mode,omitempty" nullable:"true" enum:"executing,planning," doc:"The mode of its sessions; null or empty: executing."`
	Skills          []string              `json:"skills,omitempty" nullable:"true" maxItems:"200" doc:"Skills that its sessions are offered first: ids, org/name or names."`
	SkillsData      map[string]any        `json:"skills_data,omitempty" nullable:"true" doc:"Data for the skills, at most 100,000 bytes as JSON; added to the system prompt." example:"{}"`
	InitScript      *string               `json:"init_script,omitempty" nullable:"true" maxLength:"200000" doc:"Commands of Bash that each session runs once, before its first chat." example:"npm ci"`
	LayoutType      *string               `json:"layout_type,omitempty" nullable:"true" maxLength:"64" doc:"The layout that front ends use for its sessions; default default." example:"default"`
	PreviewURLs     []domain.PreviewURL   `json:"preview_urls,omitempty" nullable:"true" maxItems:"200" doc:"Pages that front ends show beside its sessions."`
	RuntimeProvider *string               `json:"runtime_provider,omitempty" nullable:"true" maxLength:"256" doc:"The provider of the runtimes of its instances; empty: the built-in one."`
	Visibility      *prodagent.Visibility `json:"visibility,omitempty" nullable:"true" maxLength:"32" doc:"Who sees it beside its owner: workspace (the default; also when empty), the members of the workspaces; private and any other word, no other user." example:"workspace"`
	Instructions    *string               `json:"instructions,omitempty" nullable:"true" maxLength:"200000" doc:"What the agent is to do; added to the system prompt." example:"Review each change for errors."`
}

func (f ProdAgentFields) agent(ownerID string) prodagent.Agent {
	made := prodagent.Agent{
		Summary: prodagent.Summary{
			OwnerID:         ownerID,
			Name:            f.Name,
			Icon:            fields.Value(f.Icon),
			SolutionID:      f.SolutionID,
			BizRoleID:       f.BizRoleID,
			Skills:          fields.OrEmpty(f.Skills),
			LayoutType:      "default",
			RuntimeProvider: fields.Value(f.RuntimeProvider),
			Visibility:      prodagent.VisibilityWorkspace,
		},
		AgentTemplate: fields.Value(
			f.AgentTemplate,
		),
		Instructions: fields.Value(f.Instructions),
		SkillsData:   f.SkillsData,
		InitScript:   fields.Value(f.InitScript),
		PreviewURLs:  fields.OrEmpty(f.PreviewURLs),
	}
	if mode := domain.Mode(fields.Value(f.InitialMode)); mode != "" {
		made.InitialMode = &mode
	}

	if made.SkillsData == nil {
		made.SkillsData = map[string]any{}
	}

	fields.Set(&made.LayoutType, fields.OrNil(f.LayoutType))
	fields.Set(&made.Visibility, fields.OrNil(f.Visibility))

	return made
}

type newProdAgent struct {
	AgentID *string `json:"agent_id,omitempty" nullable:"true" maxLength:"128" pattern:"^([A-Za-z0-9][A-Za-z0-9._-]*)?$" doc:"Its name for programs, which DAGs use; unique among your agents. Left out: the service makes one." example:"reviewer"`
	ProdAgentFields
}

type prodAgentResult struct {
	RecordID  string    `json:"record_id" doc:"The production agent." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	AgentID   string    `json:"agent_id" doc:"Its name for programs." example:"reviewer"`
	Version   int       `json:"version" doc:"Grows with each change." example:"1"`
	CreatedAt time.Time `json:"created_at" doc:"Creation time."`
	UpdatedAt time.Time `json:"updated_at" doc:"Time of the last change."`
}

func resultOf(a prodagent.Agent) prodAgentResult {
	return prodAgentResult{a.RecordID, a.AgentID, a.Version, a.CreatedAt, a.UpdatedAt}
}

type prodAgentBody struct {
	Provider string             `json:"provider" doc:"The provider of the runtimes of its instances." example:"builtin"`
	Runtime  *prodagent.Runtime `json:"runtime" doc:"The runtime of new instances; null: none of the provider has announced itself."`
	Agent    prodagent.Agent    `json:"agent" doc:"The production agent."`

	InitScriptDigest string `json:"init_script_digest" doc:"The SHA-256 of its init script, in hexadecimal; empty: it has none." example:"b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c"`
}

// ScriptConsent lets the init script of another user's agent run for the caller.
type ScriptConsent struct {
	InitScriptDigest *string `json:"init_script_digest,omitempty" nullable:"true" maxLength:"64" doc:"For the agent of another user whose init script the caller has read: init_script_digest of the agent. It is needed once, and again when the script changed."`
}

type instantiated struct {
	InstanceID string                   `json:"instance_id" doc:"The agent instance." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb8"`
	AgentID    string                   `json:"agent_id" doc:"The production agent's name for programs." example:"reviewer"`
	RuntimeID  string                   `json:"runtime_id" doc:"Its runtime." example:"builtin"`
	Status     prodagent.InstanceStatus `json:"status" enum:"idle,working,blocked,error,offline" doc:"What it is doing."`
	SessionID  *domain.SessionID        `json:"session_id" nullable:"true" doc:"Its first session, of the caller; null: start_session was not set."`
}

type startedSession struct {
	SessionID       domain.SessionID `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	RouteSolutionID string           `json:"route_solution_id" doc:"The solution whose page front ends open." example:"software_factory"`
}

// AgentsAPI manages production agents.
type AgentsAPI struct {
	Agents     *agents.Service
	Solutions  *solutions.Catalog
	RoleRights *accounts.Store
}

const (
	agentTag  = "Production agents"
	onAgent   = "prod_agent_not_found"
	agentBody = "solution_not_found biz_role_not_found"
)

// Register adds the operations of the area to the interface.
func (a *AgentsAPI) Register(r *httpx.Server) {
	const (
		base    = "/api/prod_agents"
		example = `"name": "Reviewer", "solution_id": "software_factory", "biz_role_id": "reviewer", ` +
			`"instructions": "Review each change for errors.", "init_script": "git clone https://git.example/app.git"}`
	)
	httpx.Register(r, httpx.Operation{
		ID: "create-prod-agent", Method: fiber.MethodPost, Path: base, Tag: agentTag,
		Summary:     "Create a production agent",
		Description: "A production agent is a template: sessions and agent instances are made of it.",
		Scope:       auth.Solutions, Audit: "prod_agent.create",
		Errors:  httpx.Codes{403: "biz_role_not_allowed", 409: "agent_id_taken prod_agent_limit", 422: agentBody},
		Example: `{"agent_id": "reviewer", ` + example,
	}, a.create)
	httpx.Register(r, httpx.Operation{
		ID: "list-prod-agents", Method: fiber.MethodGet, Path: base, Tag: agentTag,
		Summary:     "List the production agents that the caller may see, newest first",
		Description: "Without their texts. Those with the visibility workspace are seen by the members of their owner's workspaces.",
		Scope:       auth.Solutions,
	}, a.list)
	httpx.Register(r, httpx.Operation{
		ID: "get-solution-catalog", Method: fiber.MethodGet, Path: base + "/solution-catalog", Tag: agentTag,
		Summary: "List the solutions with the roles that the caller may give an agent",
		Scope:   auth.Solutions,
	}, a.catalog)
	httpx.Register(r, httpx.Operation{
		ID: "get-prod-agent", Method: fiber.MethodGet, Path: base + "/{record_id}", Tag: agentTag,
		Summary: "Get a production agent and the runtime of its new instances",
		Scope:   auth.Solutions, Errors: httpx.Codes{404: onAgent},
	}, func(ctx context.Context, in *ProdAgentRef) (*httpx.Body[prodAgentBody], error) {
		found, runtime, err := a.Agents.Get(ctx, httpx.CallerOf(ctx).User.ID, in.RecordID)

		provider := found.RuntimeProvider
		if provider == "" {
			provider = prodagent.BuiltinRuntime
		}

		return httpx.Answer(prodAgentBody{provider, runtime, found, found.Spec().ScriptDigest()}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "replace-prod-agent", Method: fiber.MethodPut, Path: base + "/{record_id}", Tag: agentTag,
		Summary:     "Replace all fields of a production agent but its agent_id",
		Description: "Fields left out get their defaults. Sessions and instances that were made of it stay as they are.",
		Scope:       auth.Solutions, Audit: "prod_agent.change",
		Errors:  httpx.Codes{403: "biz_role_not_allowed forbidden", 404: onAgent, 422: agentBody},
		Example: `{` + example,
	}, a.replace)
	httpx.Register(r, httpx.Operation{
		ID: "delete-prod-agent", Method: fiber.MethodDelete, Path: base + "/{record_id}", Tag: agentTag,
		Summary:     "Delete a production agent",
		Description: "Sessions and instances that were made of it stay as they are.",
		Scope:       auth.Solutions, Audit: "prod_agent.delete",
		Errors: httpx.Codes{403: "forbidden", 404: onAgent},
	}, func(ctx context.Context, in *ProdAgentRef) (*httpx.Body[fields.OkBody], error) {
		return httpx.Answer(fields.OkBody{OK: true}, a.Agents.Delete(ctx, httpx.CallerOf(ctx).User.ID, in.RecordID))
	})
	httpx.Register(r, httpx.Operation{
		ID:      "instantiate-prod-agent",
		Method:  fiber.MethodPost,
		Path:    base + "/{record_id}/instantiate",
		Tag:     agentTag,
		Summary: "Make an agent instance of a production agent",
		Description: "On a runtime of its provider, one that takes work before others. The instance keeps what the agent is now. With " +
			"start_session it has a session at once.",
		Scope: auth.Solutions,
		Audit: "agent_instance.create",
		Errors: httpx.Codes{
			403: "biz_role_not_allowed",
			404: onAgent,
			409: "agent_instance_limit no_runtime agent_unavailable init_script_unconfirmed",
		},
		Example: `{"start_session": true}`,
	}, a.instantiate)
	httpx.Register(r, httpx.Operation{
		ID: "start-prod-agent-session", Method: fiber.MethodPost, Path: base + "/{record_id}/start-session", Tag: agentTag,
		Summary: "Create a session of a production agent",
		Description: "The session has the agent's solution, role, mode, instructions and skills. Its init script starts at once, as the " +
			"background task that session_setup.init_script names; the first chat waits for its end.",
		Scope:   auth.Solutions,
		Errors:  httpx.Codes{403: "biz_role_not_allowed", 404: onAgent, 409: "agent_unavailable init_script_unconfirmed"},
		Example: `{}`,
	}, a.startSession)
}

func (a *AgentsAPI) create(ctx context.Context, in *struct{ Body newProdAgent }) (*httpx.Body[prodAgentResult], error) {
	wanted := in.Body.agent(httpx.CallerOf(ctx).User.ID)
	wanted.AgentID = fields.Value(in.Body.AgentID)

	made, err := a.Agents.Create(ctx, wanted)
	if err == nil {
		httpx.Concerns(ctx, made.RecordID, map[string]string{"agent_id": made.AgentID})
	}

	return httpx.Answer(resultOf(made), err)
}

func (a *AgentsAPI) list(ctx context.Context, in *struct {
	Offset int `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[fields.List[prodagent.Summary]], error) {
	page, total, err := a.Agents.List(ctx, httpx.CallerOf(ctx).User.ID, in.Limit, in.Offset)
	return httpx.Answer(fields.List[prodagent.Summary]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *AgentsAPI) catalog(ctx context.Context, _ *struct{}) (*httpx.Body[fields.List[access.SolutionBody]], error) {
	all := a.Solutions.All()

	out := fields.List[access.SolutionBody]{Items: make([]access.SolutionBody, len(all)), Total: len(all)}
	for i, solution := range all {
		allowed, err := a.RoleRights.AllowedRoles(ctx, httpx.CallerOf(ctx).User.ID, solution.ID)
		if err != nil {
			return nil, err
		}

		out.Items[i] = access.SolutionOf(solution)
		out.Items[i].Roles = access.RolesOf(solution.Roles, &allowed)
	}

	return httpx.Answer(out, nil)
}

func (a *AgentsAPI) replace(ctx context.Context, in *struct {
	ProdAgentRef
	Body ProdAgentFields
},
) (*httpx.Body[prodAgentResult], error) {
	wanted := in.Body.agent(httpx.CallerOf(ctx).User.ID)
	wanted.RecordID = in.RecordID
	changed, err := a.Agents.Replace(ctx, wanted)

	return httpx.Answer(resultOf(changed), err)
}

func (a *AgentsAPI) instantiate(ctx context.Context, in *struct {
	ProdAgentRef
	Body *struct {
		ScriptConsent
		StartSession *bool `json:"start_session,omitempty" nullable:"true" doc:"true: the instance gets a session of the caller at once, and its init script runs there."`
	}
},
) (*httpx.Body[instantiated], error) {
	var (
		starts bool
		digest string
	)
	if in.Body != nil {
		starts, digest = fields.Value(in.Body.StartSession), fields.Value(in.Body.InitScriptDigest)
	}

	made, agent, session, err := a.Agents.Instantiate(ctx, httpx.CallerOf(ctx).User.ID, in.RecordID, digest, starts)
	if err == nil {
		httpx.Concerns(ctx, made.ID, map[string]string{"record_id": in.RecordID})
	}

	return httpx.Answer(instantiated{
		InstanceID: made.ID, AgentID: agent.AgentID, RuntimeID: made.RuntimeID, Status: made.Status, SessionID: session,
	}, err)
}

func (a *AgentsAPI) startSession(ctx context.Context, in *struct {
	ProdAgentRef
	Body *ScriptConsent
},
) (*httpx.Body[startedSession], error) {
	userID := httpx.CallerOf(ctx).User.ID

	agent, _, err := a.Agents.Get(ctx, userID, in.RecordID)
	if err != nil {
		return nil, err
	}

	made := startedSession{SessionID: domain.SessionID(domain.NewID()), RouteSolutionID: agent.SolutionID}
	start := prodagent.Start{SessionID: made.SessionID, RecordID: in.RecordID}

	if in.Body != nil {
		start.ScriptDigest = fields.Value(in.Body.InitScriptDigest)
	}

	err = a.Agents.StartSession(ctx, userID, start)

	return httpx.Answer(made, err)
}
