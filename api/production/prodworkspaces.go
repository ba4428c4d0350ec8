package production

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/board"
	"everloop/domain/prodagent"
	"everloop/service/agents"
	boards "everloop/service/board"
)

// Boards are production workspaces, with their members, squads and issues. Those that the
// user is no member of do not exist for them: workspace_not_found.
type Boards interface {
	CreateWorkspace(ctx context.Context, userID string, in board.NewWorkspace) (board.Workspace, error)
	Workspaces(ctx context.Context, userID string, limit, offset int) (page []board.Workspace, total int, err error)
	Workspace(ctx context.Context, userID, id string) (board.Workspace, error)
	// WorkspaceAgents gives ids of agent instances.
	WorkspaceAgents(ctx context.Context, userID, id string, limit, offset int) (page []string, total int, err error)

	Members(ctx context.Context, userID, workspaceID string) ([]board.WorkspaceMembership, error)
	SetMember(ctx context.Context, callerID, workspaceID, user string, role board.WorkspaceRole) (board.WorkspaceMembership, error)
	RemoveMember(ctx context.Context, callerID, workspaceID, userID string) error
	WorkspaceInvitations(ctx context.Context, userID, workspaceID string) ([]board.WorkspaceMembership, error)
	// Invitations are the open ones of the user. AcceptInvitation and DeclineInvitation return
	// invitation_not_found for all others.
	Invitations(ctx context.Context, userID string) ([]board.Invitation, error)
	AcceptInvitation(ctx context.Context, userID, id string) (board.Workspace, error)
	DeclineInvitation(ctx context.Context, userID, id string) error
	Squads(ctx context.Context, userID, workspaceID string) ([]board.Squad, error)
	CreateSquad(ctx context.Context, userID, workspaceID string, in board.Squad) (board.Squad, error)
	// ChangeSquad and DeleteSquad give squad_not_found; a squad with a run that works stays.
	ChangeSquad(ctx context.Context, userID, workspaceID, id string, in board.SquadChange) (board.Squad, error)
	DeleteSquad(ctx context.Context, userID, workspaceID, id string) error

	// Assistant gives the session of a role; empty: there is none.
	Assistant(ctx context.Context, userID, workspaceID, roleID string) (sessionID domain.SessionID, err error)
	// SetAssistant gives the session that is bound then: without replace, that may be another one.
	SetAssistant(
		ctx context.Context,
		userID, workspaceID, roleID string,
		sessionID domain.SessionID,
		replace bool,
	) (bound domain.SessionID, err error)

	Issue(ctx context.Context, userID, workspaceID, id string) (board.Issue, error)
	DeleteIssue(ctx context.Context, userID, workspaceID, id string) error
	QueryIssues(ctx context.Context, userID, workspaceID string, q board.IssueQuery) (page []board.Issue, total int, err error)
	GroupIssues(
		ctx context.Context,
		userID, workspaceID string,
		q board.IssueQuery,
		by board.IssueGrouping,
		key string,
	) ([]board.IssueGroup, error)
	ChildProgress(
		ctx context.Context,
		userID, workspaceID, parent string,
		limit, offset int,
	) (page []board.ChildProgress, total int, err error)
	Comments(ctx context.Context, userID, workspaceID, issueID string, limit, offset int) (page []board.Comment, total int, err error)
	Timeline(ctx context.Context, userID, workspaceID, issueID string, q board.TimelineQuery) (board.Timeline, error)
	IssueRuns(ctx context.Context, userID, workspaceID, issueID string, limit, offset int) (page []board.IssueRun, total int, err error)
	IssueUsage(ctx context.Context, userID, workspaceID, issueID string) (board.IssueUsage, error)
}

// ProdWorkspaceRef is the path of an operation on one production workspace.
type ProdWorkspaceRef struct {
	WorkspaceID string `path:"workspace_id" maxLength:"128" doc:"The production workspace." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
}

type newWorkspaceBody struct {
	Name        string                   `json:"name" minLength:"1" maxLength:"128" doc:"Its name." example:"Website"`
	Description *string                  `json:"description,omitempty" nullable:"true" maxLength:"1000" doc:"The description."`
	IssuePrefix *string                  `json:"issue_prefix,omitempty" nullable:"true" pattern:"^[A-Z][A-Z0-9]{0,9}$" maxLength:"10" doc:"What the identifiers of its issues begin with; left out: letters of the name." example:"WEB"`
	Settings    *board.WorkspaceSettings `json:"settings,omitempty" doc:"How its issues are worked on."`
}

type newMemberBody struct {
	UserID string               `json:"user_id" minLength:"1" maxLength:"128" doc:"The user: the id, or the exact user name." example:"bob"`
	Role   *board.WorkspaceRole `json:"role,omitempty" nullable:"true" enum:"owner,admin,member,viewer" doc:"The role; default member."`
}

type newSquadBody struct {
	Name         string              `json:"name" minLength:"1" maxLength:"128" doc:"Its name, which no other squad of the workspace has." example:"Reviewers"`
	LeaderID     string              `json:"leader_id" minLength:"1" maxLength:"128" doc:"The agent instance that works on its issues."`
	Instructions *string             `json:"instructions,omitempty" nullable:"true" maxLength:"20000" doc:"What its leader gets as instructions with each issue."`
	Members      []board.SquadMember `json:"members,omitempty" nullable:"true" maxItems:"50" doc:"Who else is in it."`
}

type squadChangeBody struct {
	Name         *string             `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"128" doc:"Its name, which no other squad of the workspace has." example:"Reviewers"`
	LeaderID     *string             `json:"leader_id,omitempty" nullable:"true" minLength:"1" maxLength:"128" doc:"The agent instance that works on its issues."`
	Instructions *string             `json:"instructions,omitempty" nullable:"true" maxLength:"20000" doc:"What its leader gets as instructions with each issue."`
	Members      []board.SquadMember `json:"members,omitempty" nullable:"true" maxItems:"50" doc:"Who else is in it; they replace those that are."`
}

// SquadRef is the path of an operation on one squad.
type SquadRef struct {
	ProdWorkspaceRef
	SquadID string `path:"squad_id" maxLength:"128" doc:"The squad." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafba"`
}

// InvitationRef is the path of an operation on one invitation.
type InvitationRef struct {
	InvitationID string `path:"invitation_id" maxLength:"128" doc:"The invitation." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb9"`
}

type assistantSession struct {
	sessiondetail.SessionDetail
	BizRoleID string `json:"biz_role_id" doc:"The role of the assistant." example:"operator"`
	Created   bool   `json:"created" doc:"Whether this request has created the session."`
}

// An assistant works by this solution, and has one of its roles.
const assistantSolution = "general"

// ProdWorkspacesAPI manages production workspaces.
type ProdWorkspacesAPI struct {
	access.Sessions
	access.RoleCheck
	sessiondetail.SessionViews
	Boards    Boards
	Board     *boards.Service
	Instances *agents.Service
	Deleter   func(ctx context.Context, id domain.SessionID) error
	Rights    *auth.Changes
}

const (
	boardTag     = "Production workspaces"
	onWorkspace  = "workspace_not_found"
	onInvitation = "invitation_not_found"
)

// Register adds the operations of the area to the interface.
func (a *ProdWorkspacesAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "create-prod-workspace", Method: fiber.MethodPost, Path: "/api/prod_workspaces", Tag: boardTag,
		Summary:     "Create a production workspace",
		Description: "The caller becomes its owner.",
		Scope:       auth.Workspaces, Audit: "workspace.create",
		Errors:  httpx.Codes{409: "workspace_limit"},
		Example: `{"name": "Website", "description": "The pages of the shop."}`,
	}, a.createWorkspace)
	httpx.Register(r, httpx.Operation{
		ID: "list-prod-workspaces", Method: fiber.MethodGet, Path: "/api/prod_workspaces", Tag: boardTag,
		Summary: "List the production workspaces of which the caller is a member, newest first",
		Scope:   auth.Workspaces,
	}, a.listWorkspaces)
	httpx.Register(r, httpx.Operation{
		ID: "get-prod-workspace", Method: fiber.MethodGet, Path: "/api/prod_workspaces/{workspace_id}", Tag: boardTag,
		Summary: "Get a production workspace",
		Scope:   auth.Workspaces, Errors: httpx.Codes{404: onWorkspace},
	}, func(ctx context.Context, in *ProdWorkspaceRef) (*httpx.Body[board.Workspace], error) {
		return httpx.Answer(a.Boards.Workspace(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID))
	})
	httpx.Register(r, httpx.Operation{
		ID: "delete-prod-workspace", Method: fiber.MethodDelete, Path: "/api/prod_workspaces/{workspace_id}", Tag: boardTag,
		Summary:     "Delete a production workspace",
		Description: "For owners. Its issues are deleted with it, and their runs are stopped; sessions stay with their owners.",
		Scope:       auth.Workspaces, Audit: "workspace.delete",
		Errors: httpx.Codes{403: "workspace_role_required", 404: onWorkspace},
	}, func(ctx context.Context, in *ProdWorkspaceRef) (*httpx.Body[fields.OkBody], error) {
		return httpx.Answer(fields.OkBody{OK: true}, a.Board.DeleteWorkspace(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID))
	})
	a.registerMembers(r)
	a.registerInvitations(r)
	httpx.Register(r, httpx.Operation{
		ID: "list-prod-workspace-agents", Method: fiber.MethodGet, Path: "/api/prod_workspaces/{workspace_id}/agents", Tag: boardTag,
		Summary:     "List the agent instances that issues can be assigned to, newest first",
		Description: "The caller's own, and those that their owners, at least members, share with the workspace; no archived ones.",
		Scope:       auth.Workspaces, Errors: httpx.Codes{404: onWorkspace},
	}, a.listAgents)
	httpx.Register(r, httpx.Operation{
		ID: "get-assistant-session", Method: fiber.MethodGet, Path: "/api/prod_workspaces/{workspace_id}/assistant-session", Tag: boardTag,
		Summary:     "Get the caller's session with an assistant of a production workspace",
		Description: "It is created at the first request. Other members may read it.",
		Scope:       auth.Workspaces,
		Errors:      httpx.Codes{403: "biz_role_not_allowed", 404: onWorkspace, 409: "assistant_limit", 422: "biz_role_not_found"},
	}, a.getAssistant)
	httpx.Register(r, httpx.Operation{
		ID: "set-assistant-session", Method: fiber.MethodPut, Path: "/api/prod_workspaces/{workspace_id}/assistant-session", Tag: boardTag,
		Summary: "Make a session of the caller the one with an assistant",
		Scope:   auth.Workspaces, Audit: "workspace.assistant",
		Errors:  httpx.Codes{403: "forbidden", 404: "workspace_not_found session_not_found", 409: "assistant_limit"},
		Example: `{"biz_role_id": "operator", "session_id": "01a1ff63-2e0c-7d30-8650-39ac67aaafb7"}`,
	}, a.setAssistant)
}

func (a *ProdWorkspacesAPI) registerMembers(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-prod-workspace-members", Method: fiber.MethodGet, Path: "/api/prod_workspaces/{workspace_id}/members", Tag: boardTag,
		Summary: "List the members of a production workspace, in the order in which they joined",
		Scope:   auth.Workspaces, Errors: httpx.Codes{404: onWorkspace},
	}, func(ctx context.Context, in *ProdWorkspaceRef) (*httpx.Body[fields.Items[board.WorkspaceMembership]], error) {
		members, err := a.Boards.Members(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID)
		return httpx.Answer(fields.Items[board.WorkspaceMembership]{Items: fields.OrEmpty(members), Total: len(members)}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "set-prod-workspace-member", Method: fiber.MethodPost, Path: "/api/prod_workspaces/{workspace_id}/members", Tag: boardTag,
		Summary: "Invite a user to a production workspace, or give a member another role",
		Description: "For administrators and owners of the workspace. The user becomes a member by accepting the invitation, and is " +
			"invisible in the workspace before. The response is the same for users that do not exist. A member cannot assign or remove " +
			"a role above their own, and one owner stays.",
		Scope: auth.Workspaces, Audit: "workspace.member",
		Errors:  httpx.Codes{403: "workspace_role_required", 404: onWorkspace, 409: "member_limit last_owner"},
		Example: `{"user_id": "bob", "role": "member"}`,
	}, a.setMember)
	httpx.Register(r, httpx.Operation{
		ID:          "remove-prod-workspace-member",
		Method:      fiber.MethodDelete,
		Path:        "/api/prod_workspaces/{workspace_id}/members/{user_id}",
		Tag:         boardTag,
		Summary:     "Remove a member from a production workspace, leave it, or withdraw an invitation",
		Description: "Others are removed by administrators and owners of the workspace. An invitation is named by its user_id.",
		Scope:       auth.Workspaces,
		Audit:       "workspace.member_remove",
		Errors:      httpx.Codes{403: "workspace_role_required", 404: "workspace_not_found member_not_found", 409: "last_owner"},
	}, a.removeMember)
	httpx.Register(r, httpx.Operation{
		ID: "list-squads", Method: fiber.MethodGet, Path: "/api/prod_workspaces/{workspace_id}/squads", Tag: boardTag,
		Summary: "List the squads of a production workspace, oldest first",
		Scope:   auth.Workspaces, Errors: httpx.Codes{404: onWorkspace},
	}, func(ctx context.Context, in *ProdWorkspaceRef) (*httpx.Body[fields.Items[board.Squad]], error) {
		squads, err := a.Boards.Squads(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID)
		return httpx.Answer(fields.Items[board.Squad]{Items: fields.OrEmpty(squads), Total: len(squads)}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "create-squad", Method: fiber.MethodPost, Path: "/api/prod_workspaces/{workspace_id}/squads", Tag: boardTag,
		Summary:     "Create a squad",
		Description: "For administrators and owners of the workspace. Its leader works on the issues that are assigned to it.",
		Scope:       auth.Workspaces, Audit: "workspace.squad",
		Errors: httpx.Codes{
			403: "workspace_role_required", 404: "workspace_not_found assignee_not_found", 409: "squad_limit squad_name_taken",
		},
		Example: `{"name": "Reviewers", "leader_id": "01a1ff63-2e0c-7d30-8650-39ac67aaafb8", "instructions": "Look for missing tests."}`,
	}, a.createSquad)
	httpx.Register(r, httpx.Operation{
		ID: "update-squad", Method: fiber.MethodPatch, Path: "/api/prod_workspaces/{workspace_id}/squads/{squad_id}", Tag: boardTag,
		Summary: "Update a squad",
		Description: "For administrators and owners of the workspace. Fields left out keep their values. A run that has begun keeps its " +
			"leader.",
		Scope: auth.Workspaces, Audit: "workspace.squad_change",
		Errors: httpx.Codes{
			403: "workspace_role_required", 404: "workspace_not_found squad_not_found assignee_not_found", 409: "squad_name_taken",
		},
		Example: `{"instructions": "Look for missing tests.", "members": []}`,
	}, a.changeSquad)
	httpx.Register(r, httpx.Operation{
		ID: "delete-squad", Method: fiber.MethodDelete, Path: "/api/prod_workspaces/{workspace_id}/squads/{squad_id}", Tag: boardTag,
		Summary: "Delete a squad",
		Description: "For administrators and owners of the workspace. Its issues are assigned to nothing then. While a run of it works, " +
			"or is being stopped, it is refused.",
		Scope: auth.Workspaces, Audit: "workspace.squad_delete",
		Errors: httpx.Codes{403: "workspace_role_required", 404: "workspace_not_found squad_not_found", 409: "issue_run_active"},
	}, a.deleteSquad)
}

func (a *ProdWorkspacesAPI) registerInvitations(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-prod-workspace-invitations", Method: fiber.MethodGet, Path: "/api/prod_workspaces/{workspace_id}/invitations",
		Tag:         boardTag,
		Summary:     "List the invitations to a production workspace that were not accepted, oldest first",
		Description: "For administrators and owners of the workspace. A declined invitation stays in the list until it is withdrawn.",
		Scope:       auth.Workspaces,
		Errors:      httpx.Codes{403: "workspace_role_required", 404: onWorkspace},
	}, func(ctx context.Context, in *ProdWorkspaceRef) (*httpx.Body[fields.Items[board.WorkspaceMembership]], error) {
		pending, err := a.Boards.WorkspaceInvitations(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID)
		return httpx.Answer(fields.Items[board.WorkspaceMembership]{Items: fields.OrEmpty(pending), Total: len(pending)}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "list-invitations", Method: fiber.MethodGet, Path: "/api/invitations", Tag: boardTag,
		Summary: "List the caller's open invitations to production workspaces, newest first",
		Scope:   auth.Workspaces,
	}, func(ctx context.Context, _ *struct{}) (*httpx.Body[fields.Items[board.Invitation]], error) {
		open, err := a.Boards.Invitations(ctx, httpx.CallerOf(ctx).User.ID)
		return httpx.Answer(fields.Items[board.Invitation]{Items: fields.OrEmpty(open), Total: len(open)}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "accept-invitation", Method: fiber.MethodPost, Path: "/api/invitations/{invitation_id}/accept", Tag: boardTag,
		Summary:     "Accept an invitation",
		Description: "The caller becomes a member of the production workspace.",
		Scope:       auth.Workspaces, Audit: "workspace.join",
		Errors: httpx.Codes{404: onInvitation},
	}, a.acceptInvitation)
	httpx.Register(r, httpx.Operation{
		ID: "decline-invitation", Method: fiber.MethodPost, Path: "/api/invitations/{invitation_id}/decline", Tag: boardTag,
		Summary:     "Decline an invitation",
		Description: "The invitation looks pending to the members of the workspace.",
		Scope:       auth.Workspaces, Audit: "workspace.decline",
		Errors: httpx.Codes{404: onInvitation},
	}, func(ctx context.Context, in *InvitationRef) (*httpx.Body[fields.OkBody], error) {
		return httpx.Answer(fields.OkBody{OK: true}, a.Boards.DeclineInvitation(ctx, httpx.CallerOf(ctx).User.ID, in.InvitationID))
	})
}

func (a *ProdWorkspacesAPI) acceptInvitation(ctx context.Context, in *InvitationRef) (*httpx.Body[board.Workspace], error) {
	joined, err := a.Boards.AcceptInvitation(ctx, httpx.CallerOf(ctx).User.ID, in.InvitationID)
	if err == nil {
		httpx.Concerns(ctx, joined.ID, map[string]string{"role": string(joined.Role)})
	}

	return httpx.Answer(joined, err)
}

func (a *ProdWorkspacesAPI) createWorkspace(
	ctx context.Context,
	in *struct{ Body newWorkspaceBody },
) (*httpx.Body[board.Workspace], error) {
	made := board.NewWorkspace{
		Name: domain.CleanText(
			in.Body.Name,
		),
		Description: domain.CleanText(fields.Value(in.Body.Description)),
		IssuePrefix: fields.Value(in.Body.IssuePrefix),
		Settings:    board.DefaultWorkspaceSettings,
	}
	if in.Body.Settings != nil {
		made.Settings = *in.Body.Settings
	}

	workspace, err := a.Boards.CreateWorkspace(ctx, httpx.CallerOf(ctx).User.ID, made)
	if err == nil {
		httpx.Concerns(ctx, workspace.ID, map[string]string{"name": workspace.Name})
	}

	return httpx.Answer(workspace, err)
}

func (a *ProdWorkspacesAPI) listWorkspaces(ctx context.Context, in *struct {
	Offset int `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[fields.Items[board.Workspace]], error) {
	page, total, err := a.Boards.Workspaces(ctx, httpx.CallerOf(ctx).User.ID, in.Limit, in.Offset)
	return httpx.Answer(fields.Items[board.Workspace]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *ProdWorkspacesAPI) listAgents(ctx context.Context, in *struct {
	ProdWorkspaceRef
	Offset int `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[fields.Items[prodagent.Instance]], error) {
	ids, total, err := a.Boards.WorkspaceAgents(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}

	page, err := a.Instances.InstancesByID(ctx, ids)
	for i := range page {
		page[i] = page[i].SeenBy(httpx.CallerOf(ctx).User.ID)
		page[i].WorkspaceID = &in.WorkspaceID
	}

	return httpx.Answer(fields.Items[prodagent.Instance]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *ProdWorkspacesAPI) setMember(ctx context.Context, in *struct {
	ProdWorkspaceRef
	Body newMemberBody
},
) (*httpx.Body[board.WorkspaceMembership], error) {
	role := fields.Value(in.Body.Role)
	if role == "" {
		role = board.WorkspaceMember
	}

	member, err := a.Boards.SetMember(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.Body.UserID, role)
	if err == nil {
		httpx.Concerns(ctx, in.WorkspaceID, map[string]string{"user_id": member.UserID, "role": string(role)})
	}

	return httpx.Answer(member, err)
}

func (a *ProdWorkspacesAPI) removeMember(ctx context.Context, in *struct {
	ProdWorkspaceRef
	UserID string `path:"user_id" maxLength:"128" doc:"The user." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
},
) (*httpx.Body[fields.OkBody], error) {
	err := a.Boards.RemoveMember(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.UserID)
	if err == nil {
		httpx.Concerns(ctx, in.WorkspaceID, map[string]string{"user_id": in.UserID})
		a.Rights.Announce(ctx, domain.RightsChange{UserID: in.UserID})
	}

	return httpx.Answer(fields.OkBody{OK: true}, err)
}

func (a *ProdWorkspacesAPI) createSquad(ctx context.Context, in *struct {
	ProdWorkspaceRef
	Body newSquadBody
},
) (*httpx.Body[board.Squad], error) {
	made, err := a.Boards.CreateSquad(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, board.Squad{
		Name: domain.CleanText(
			in.Body.Name,
		),
		LeaderID:     in.Body.LeaderID,
		Instructions: domain.CleanText(fields.Value(in.Body.Instructions)),
		Members:      fields.OrEmpty(in.Body.Members),
	})
	if err == nil {
		httpx.Concerns(ctx, in.WorkspaceID, map[string]string{"squad_id": made.ID})
	}

	return httpx.Answer(made, err)
}

func (a *ProdWorkspacesAPI) changeSquad(ctx context.Context, in *struct {
	SquadRef
	Body squadChangeBody
},
) (*httpx.Body[board.Squad], error) {
	changed, err := a.Boards.ChangeSquad(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.SquadID, board.SquadChange{
		Name: fields.Cleaned(
			in.Body.Name,
		),
		LeaderID:     in.Body.LeaderID,
		Instructions: fields.Cleaned(in.Body.Instructions),
		Members:      in.Body.Members,
	})
	if err == nil {
		httpx.Concerns(ctx, in.WorkspaceID, map[string]string{"squad_id": changed.ID})
	}

	return httpx.Answer(changed, err)
}

func (a *ProdWorkspacesAPI) deleteSquad(ctx context.Context, in *SquadRef) (*httpx.Body[fields.OkBody], error) {
	err := a.Boards.DeleteSquad(ctx, httpx.CallerOf(ctx).User.ID, in.WorkspaceID, in.SquadID)
	if err == nil {
		httpx.Concerns(ctx, in.WorkspaceID, map[string]string{"squad_id": in.SquadID})
	}

	return httpx.Answer(fields.OkBody{OK: true}, err)
}

func (a *ProdWorkspacesAPI) getAssistant(ctx context.Context, in *struct {
	ProdWorkspaceRef
	BizRoleID string `query:"biz_role_id" default:"operator" maxLength:"128" doc:"The role of the assistant." example:"operator"`
},
) (*httpx.Body[assistantSession], error) {
	user := httpx.CallerOf(ctx).User

	workspace, err := a.Boards.Workspace(ctx, user.ID, in.WorkspaceID)
	if err != nil {
		return nil, err
	}

	id, err := a.Boards.Assistant(ctx, user.ID, in.WorkspaceID, in.BizRoleID)
	if err != nil {
		return nil, err
	}

	created := false
	if id == "" {
		if id, created, err = a.createAssistant(ctx, workspace, in.BizRoleID); err != nil {
			return nil, err
		}
	}

	session, err := a.Own(ctx, id)

	return httpx.Answer(assistantSession{a.DetailOf(session, domain.ViewerOwner), in.BizRoleID, created}, err)
}

// createAssistant makes the session with an assistant. Of requests at once, one makes it.
func (a *ProdWorkspacesAPI) createAssistant(
	ctx context.Context,
	workspace board.Workspace,
	roleID string,
) (id domain.SessionID, created bool, err error) {
	userID := httpx.CallerOf(ctx).User.ID

	in := domain.NewSession{Intent: "Assistant of " + workspace.Name, BizRoleID: &roleID, WorkspaceID: &workspace.ID}
	if solution, err := a.RoleCheck.Solutions.Get(assistantSolution); err == nil {
		if err := solution.CheckRole(roleID, "query.biz_role_id"); err != nil {
			return "", false, err
		}

		in.SolutionID = &solution.ID
	}

	if err := a.CheckSolution(ctx, in.SolutionID, in.BizRoleID); err != nil {
		return "", false, err
	}

	made, err := a.Store.CreateSession(ctx, userID, in)
	if err != nil {
		return "", false, err
	}

	id, err = a.Boards.SetAssistant(ctx, userID, workspace.ID, roleID, made.ID, false)
	if id == made.ID {
		return id, true, nil
	}

	if gone := a.Deleter(ctx, made.ID); err == nil {
		err = gone
	}

	return id, false, err
}

func (a *ProdWorkspacesAPI) setAssistant(ctx context.Context, in *struct {
	ProdWorkspaceRef
	Body struct {
		BizRoleID string           `json:"biz_role_id" minLength:"1" maxLength:"128" doc:"The role of the assistant." example:"operator"`
		SessionID domain.SessionID `json:"session_id" minLength:"1" maxLength:"128" doc:"A session of the caller." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	}
},
) (*httpx.Body[assistantSession], error) {
	userID := httpx.CallerOf(ctx).User.ID
	if _, err := a.Boards.Workspace(ctx, userID, in.WorkspaceID); err != nil {
		return nil, err
	}

	session, err := a.Own(ctx, in.Body.SessionID)
	if err != nil {
		return nil, err
	}

	if _, err := a.Boards.SetAssistant(ctx, userID, in.WorkspaceID, in.Body.BizRoleID, session.ID, true); err != nil {
		return nil, err
	}

	httpx.Concerns(ctx, in.WorkspaceID, map[string]string{"session_id": string(session.ID)})

	return httpx.Answer(assistantSession{a.DetailOf(session, domain.ViewerOwner), in.Body.BizRoleID, false}, nil)
}
