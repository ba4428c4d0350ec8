package production

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain/prodagent"
	"everloop/service/agents"
)

// AgentInstanceRef is the path of an operation on one agent instance.
type AgentInstanceRef struct {
	ID string `path:"id" maxLength:"128" doc:"The agent instance." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb8"`
}

// InstanceOptions are the fields that a creation and a change have in common; left out or
// null: the default, or as before.
type InstanceOptions struct {
	Visibility         *prodagent.Visibility `json:"visibility,omitempty" nullable:"true" maxLength:"32" doc:"Who sees it beside its owner: workspace (the default; also when empty), the members of the workspaces in shared_with; private and any other word, no other user." example:"workspace"`
	SharedWith         []prodagent.Share     `json:"shared_with,omitempty" nullable:"true" maxItems:"100" doc:"The production workspaces whose members may assign issues to it, of which its owner must be a member; default none. A change replaces them."`
	Instructions       *string               `json:"instructions,omitempty" nullable:"true" maxLength:"200000" doc:"What the agent is to do; added to the system prompt." example:"Review each change for errors."`
	Description        *string               `json:"description,omitempty" nullable:"true" maxLength:"20000" doc:"The description."`
	Model              *string               `json:"model,omitempty" nullable:"true" maxLength:"256" doc:"The model of its sessions; empty: the service's default."`
	MaxConcurrentTasks *int                  `json:"max_concurrent_tasks,omitempty" nullable:"true" minimum:"1" maximum:"100" doc:"Issues that it works on at once; default 6." example:"6"`
	Env                map[string]string     `json:"env,omitempty" nullable:"true" doc:"Environment of the tools of its owner's sessions; never returned. Runs of issues get it as shared_with allows. A change replaces it." example:"{\"GREETING\": \"hello\"}"`
}

type newAgentInstance struct {
	Name      string `json:"name" minLength:"1" maxLength:"128" doc:"Its name." example:"Reviewer"`
	RuntimeID string `json:"runtime_id" minLength:"1" maxLength:"128" doc:"Its runtime." example:"builtin"`
	InstanceOptions
}

type agentInstanceChange struct {
	Name      *string `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"128" doc:"Its name." example:"Reviewer"`
	RuntimeID *string `json:"runtime_id,omitempty" nullable:"true" minLength:"1" maxLength:"128" doc:"Its runtime." example:"builtin"`
	InstanceOptions
	Archived *bool `json:"archived,omitempty" nullable:"true" doc:"true: it is archived, and can have no new sessions; false: it is not."`
}

type createdInstance struct {
	InstanceID string `json:"instance_id" doc:"The agent instance, as id." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb8"`
	prodagent.Instance
}

// AgentInstancesAPI manages agent instances and lists runtimes.
type AgentInstancesAPI struct {
	Agents *agents.Service
}

const (
	instanceTag = "Agent instances"
	onInstance  = "agent_instance_not_found"
)

// Register adds the operations of the area to the interface.
func (a *AgentInstancesAPI) Register(r *httpx.Server) {
	const base = "/api/agent-instances"

	httpx.Register(r, httpx.Operation{
		ID: "list-agent-runtimes", Method: fiber.MethodGet, Path: "/api/agent-runtimes", Tag: instanceTag,
		Summary: "List the runtimes of agent instances, the built-in one first",
		Description: "All workers that announce the same provider and name are one runtime. It is online while one of them takes work, " +
			"and draining while the last ones end what they have begun.",
		Scope: auth.Workspaces,
	}, func(ctx context.Context, in *struct {
		Offset int `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
		Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
	},
	) (*httpx.Body[fields.List[prodagent.Runtime]], error) {
		page, total, err := a.Agents.Runtimes(ctx, in.Limit, in.Offset)
		return httpx.Answer(fields.List[prodagent.Runtime]{Items: fields.OrEmpty(page), Total: total}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "create-agent-instance", Method: fiber.MethodPost, Path: base, Tag: instanceTag,
		Summary:     "Create an agent instance without a production agent",
		Description: "A general agent with its own instructions. To make one of a production agent, instantiate that.",
		Scope:       auth.Workspaces, Audit: "agent_instance.create",
		Errors:  httpx.Codes{404: onWorkspace, 409: "agent_instance_limit", 422: "runtime_not_found unknown_model"},
		Example: `{"name": "Reviewer", "runtime_id": "builtin", "instructions": "Review each change for errors."}`,
	}, a.create)
	httpx.Register(r, httpx.Operation{
		ID: "list-agent-instances", Method: fiber.MethodGet, Path: base, Tag: instanceTag,
		Summary: "List the agent instances that the caller may see, newest first",
		Scope:   auth.Workspaces,
	}, a.list)
	httpx.Register(r, httpx.Operation{
		ID: "get-agent-instance", Method: fiber.MethodGet, Path: base + "/{id}", Tag: instanceTag,
		Summary: "Get an agent instance",
		Scope:   auth.Workspaces, Errors: httpx.Codes{404: onInstance},
	}, func(ctx context.Context, in *AgentInstanceRef) (*httpx.Body[prodagent.Instance], error) {
		return httpx.Answer(a.Agents.Instance(ctx, httpx.CallerOf(ctx).User.ID, in.ID))
	})
	httpx.Register(r, httpx.Operation{
		ID: "update-agent-instance", Method: fiber.MethodPatch, Path: base + "/{id}", Tag: instanceTag,
		Summary:     "Update or archive an agent instance",
		Description: "Fields left out keep their values. Its sessions stay as they are; new ones are made as it is then.",
		Scope:       auth.Workspaces, Audit: "agent_instance.change",
		Errors:  httpx.Codes{403: "forbidden", 404: onInstance + " " + onWorkspace, 422: "runtime_not_found unknown_model"},
		Example: `{"max_concurrent_tasks": 2}`,
	}, a.update)
	httpx.Register(r, httpx.Operation{
		ID: "delete-agent-instance", Method: fiber.MethodDelete, Path: base + "/{id}", Tag: instanceTag,
		Summary:     "Delete an agent instance",
		Description: "Its sessions stay.",
		Scope:       auth.Workspaces, Audit: "agent_instance.delete",
		Errors: httpx.Codes{403: "forbidden", 404: onInstance},
	}, func(ctx context.Context, in *AgentInstanceRef) (*httpx.Body[fields.OkBody], error) {
		return httpx.Answer(fields.OkBody{OK: true}, a.Agents.DeleteInstance(ctx, httpx.CallerOf(ctx).User.ID, in.ID))
	})
}

func (a *AgentInstancesAPI) create(ctx context.Context, in *struct{ Body newAgentInstance }) (*httpx.Body[createdInstance], error) {
	b := in.Body

	env, err := fields.CleanEnv(b.Env)
	if err != nil {
		return nil, err
	}

	wanted := prodagent.Instance{
		OwnerID: httpx.CallerOf(ctx).User.ID, Name: b.Name, RuntimeID: b.RuntimeID, Description: fields.Value(b.Description),
		Instructions: fields.Value(b.Instructions), Visibility: prodagent.VisibilityWorkspace, Model: fields.OrNil(b.Model),
		SharedWith: fields.OrEmpty(b.SharedWith), MaxConcurrentTasks: prodagent.DefaultTasks, Env: env,
	}
	fields.Set(&wanted.Visibility, fields.OrNil(b.Visibility))
	fields.Set(&wanted.MaxConcurrentTasks, b.MaxConcurrentTasks)

	made, err := a.Agents.CreateInstance(ctx, wanted)
	if err == nil {
		httpx.Concerns(ctx, made.ID, nil)
	}

	return httpx.Answer(createdInstance{made.ID, made}, err)
}

func (a *AgentInstancesAPI) list(ctx context.Context, in *struct {
	Archived bool `query:"include_archived" default:"false" doc:"Whether archived ones are listed too."`
	Offset   int  `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
	Limit    int  `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[fields.List[prodagent.Instance]], error) {
	page, total, err := a.Agents.Instances(ctx, httpx.CallerOf(ctx).User.ID, in.Archived, in.Limit, in.Offset)
	return httpx.Answer(fields.List[prodagent.Instance]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *AgentInstancesAPI) update(ctx context.Context, in *struct {
	AgentInstanceRef
	Body agentInstanceChange
},
) (*httpx.Body[prodagent.Instance], error) {
	b := in.Body

	change := prodagent.InstanceChange{
		Name: b.Name, Description: b.Description, Instructions: b.Instructions, Visibility: fields.OrNil(b.Visibility), Model: b.Model,
		MaxConcurrentTasks: b.MaxConcurrentTasks, RuntimeID: b.RuntimeID, Archived: b.Archived, SharedWith: b.SharedWith,
	}
	if b.Env != nil {
		env, err := fields.CleanEnv(b.Env)
		if err != nil {
			return nil, err
		}

		change.Env = env
	}

	return httpx.Answer(a.Agents.ChangeInstance(ctx, httpx.CallerOf(ctx).User.ID, in.ID, change))
}
