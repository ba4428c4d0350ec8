package session

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/auth"
	"everloop/domain"
)

type sessionCreated struct {
	SessionID domain.SessionID `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
}

type sessionPage struct {
	Items                 []sessionSummary `json:"items" doc:"The entries of this page."`
	Total                 int              `json:"total" doc:"Total number of entries." example:"1"`
	Limit                 int              `json:"limit" doc:"Requested number of entries." example:"20"`
	Offset                int              `json:"offset" doc:"Number of skipped entries." example:"0"`
	ContentMatchTruncated bool             `json:"content_match_truncated" doc:"Always false: the search looks at all messages."`
}

// SessionsAPI creates, lists and changes sessions.
type SessionsAPI struct {
	access.Sessions
	access.RoleCheck
	sessiondetail.SessionViews
	Deleter func(ctx context.Context, id domain.SessionID) error
	Rights  *auth.Changes
}

// Register adds the operations of the area to the interface.
func (a *SessionsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "create-session", Method: fiber.MethodPost, Path: "/api/sessions", Tag: "Sessions",
		Summary:     "Create a session",
		Description: "The body and all of its fields are optional. Without an intent, the first message becomes the intent.",
		Scope:       auth.SessionsWrite,
		Errors:      httpx.Codes{403: "biz_role_not_allowed", 422: "unknown_model solution_not_found biz_role_not_found"},
		Example:     `{"intent": "Write the release notes", "env": {"GREETING": "hello"}, "session_setup": {"max_steps": 50}}`,
	}, a.createSession)
	httpx.Register(r, httpx.Operation{
		ID: "list-sessions", Method: fiber.MethodGet, Path: "/api/sessions", Tag: "Sessions",
		Summary: "List the caller's sessions, pinned and newest first",
		Description: "The search is literal and case-insensitive, in intents and in the text of all messages. The text of a turn is " +
			"found once the turn has ended.",
		Scope: auth.SessionsRead,
	}, a.listSessions)
	httpx.Register(r, httpx.Operation{
		ID: "get-session", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}", Tag: "Sessions",
		Summary: "Get a session",
		Description: "The owner, administrators (audited), members of its production workspace and, if it is shared, every user may " +
			"read it. Environment values " +
			"are never returned.",
		Scope: auth.SessionsRead,
	}, a.getSession)
	httpx.Register(r, httpx.Operation{
		ID: "update-session", Method: fiber.MethodPatch, Path: "/api/sessions/{session_id}", Tag: "Sessions",
		Summary:     "Update a session's name or agent settings",
		Description: "Fields given in session_setup replace the stored ones; the others keep their values.",
		Scope:       auth.SessionsWrite,
		Example:     `{"intent": "Write the release notes of June", "session_setup": {"budget": {"max_tokens": 200000}}}`,
	}, a.updateSession)
	httpx.Register(r, httpx.Operation{
		ID: "delete-session", Method: fiber.MethodDelete, Path: "/api/sessions/{session_id}", Tag: "Sessions",
		Summary:     "Delete a session and end its work",
		Description: "Stops its chat and its background tasks, and removes its files, links and published apps.",
		Scope:       auth.SessionsWrite, Audit: "session.delete",
	}, a.deleteSession)
	httpx.Register(r, httpx.Operation{
		ID: "set-session-env", Method: fiber.MethodPut, Path: "/api/sessions/{session_id}/env", Tag: "Sessions",
		Summary: "Replace the environment of a session's tools",
		Description: "At most 500 variables and 100,000 bytes. Only the tools of the session receive them, and only this response " +
			"returns them.",
		Scope:   auth.SessionsWrite,
		Example: `{"env": {"GREETING": "hi"}}`,
	}, a.setEnv)
	httpx.Register(r, httpx.Operation{
		ID: "pin-session", Method: fiber.MethodPatch, Path: "/api/sessions/{session_id}/pin", Tag: "Sessions",
		Summary: "Pin or unpin a session",
		Scope:   auth.SessionsWrite,
		Example: `{"pinned": true}`,
	}, a.pin)
	httpx.Register(r, httpx.Operation{
		ID: "share-session", Method: fiber.MethodPatch, Path: "/api/sessions/{session_id}/sharing", Tag: "Sessions",
		Summary: "Share a session with all signed-in users, or stop sharing",
		Description: "Every signed-in user may then read the session with all its branches, its files, also at checkpoints, and its " +
			"export; only the owner may change it.",
		Scope:   auth.SessionsWrite,
		Example: `{"shared": true}`,
	}, a.share)
	httpx.Register(r, httpx.Operation{
		ID: "set-session-memory", Method: fiber.MethodPatch, Path: "/api/sessions/{session_id}/memory", Tag: "Sessions",
		Summary: "Turn memory on or off for a session",
		Scope:   auth.SessionsWrite,
		Example: `{"memory_enabled": true}`,
	}, a.setMemory)
}

// newSessionBody is the body of POST /api/sessions; all of it is optional.
type newSessionBody struct {
	Intent          *string             `json:"intent,omitempty" nullable:"true" maxLength:"100000" doc:"What the session is for. Empty: the first message says it." example:"Write the release notes"`
	SolutionID      *string             `json:"solution_id,omitempty" nullable:"true" maxLength:"256" doc:"The solution."`
	BizRoleID       *string             `json:"biz_role_id,omitempty" nullable:"true" maxLength:"256" doc:"The role of the solution."`
	TemplateID      *string             `json:"template_id,omitempty" nullable:"true" maxLength:"256" doc:"The template that the session was created from; the service does not interpret it."`
	PrimarySkillID  *string             `json:"primary_skill_id,omitempty" nullable:"true" maxLength:"256" doc:"The primary skill of the session."`
	Model           *string             `json:"model,omitempty" nullable:"true" maxLength:"256" doc:"The model."`
	Mode            *domain.Mode        `json:"mode,omitempty" nullable:"true" enum:"executing,planning" doc:"How the agent works on messages that do not say it; default executing."`
	SoftwareFactory *int64              `json:"software_factory_id,omitempty" nullable:"true" minimum:"-9007199254740991" maximum:"9007199254740991" doc:"A number that front ends use; the service does not interpret it."`
	MemoryEnabled   *bool               `json:"memory_enabled,omitempty" nullable:"true" doc:"Whether the session uses memories."`
	Persistent      *bool               `json:"is_persistent,omitempty" nullable:"true" default:"false" doc:"Whether front ends persist the session."`
	Env             map[string]string   `json:"env,omitempty" nullable:"true" doc:"Environment of the session's tools." example:"{\"GREETING\": \"hello\"}"`
	WorkspaceID     *string             `json:"workspace_id,omitempty" nullable:"true" maxLength:"256" doc:"The production workspace whose members may read the session, if its owner is a member of it."`
	DisableTools    []string            `json:"disable_tools,omitempty" nullable:"true" maxItems:"1000" doc:"Tools that are disabled."`
	MaxModelRetryS  *int                `json:"max_model_retry_s,omitempty" nullable:"true" minimum:"1" maximum:"604800" doc:"Seconds for which a model call that keeps failing is retried; left out: as the service is configured."`
	Network         *domain.NetworkMode `json:"network,omitempty" nullable:"true" enum:"none,rules,public" doc:"Narrows the network of its commands; left out: as the service is configured."`

	Setup *sessionSetupBody `json:"session_setup,omitempty" doc:"How the agent is set up here: sub-agents, permissions, budget, compaction." example:"{\"max_steps\": 50}"`
}

func (a *SessionsAPI) createSession(ctx context.Context, in *struct{ Body *newSessionBody }) (*httpx.Body[sessionCreated], error) {
	if in.Body == nil {
		in.Body = &newSessionBody{}
	}

	b := in.Body

	env, err := fields.CleanEnv(b.Env)
	if err != nil {
		return nil, err
	}

	if err := a.checkNetwork(b.Network, b.Setup); err != nil {
		return nil, err
	}

	if err := a.checkModel(ctx, b.Model); err != nil {
		return nil, err
	}

	b.SolutionID, b.BizRoleID = fields.OrNil(b.SolutionID), fields.OrNil(b.BizRoleID)
	if err := a.CheckSolution(ctx, b.SolutionID, b.BizRoleID); err != nil {
		return nil, err
	}

	made, err := a.Store.CreateSession(ctx, httpx.CallerOf(ctx).User.ID, domain.NewSession{
		Intent: fields.Value(b.Intent), SolutionID: b.SolutionID, BizRoleID: b.BizRoleID, TemplateID: b.TemplateID,
		PrimarySkillID: b.PrimarySkillID, Model: fields.OrNil(b.Model), Mode: fields.Value(b.Mode),
		SoftwareFactory: b.SoftwareFactory, WorkspaceID: b.WorkspaceID,
		MemoryEnabled: fields.Value(b.MemoryEnabled), Persistent: fields.Value(b.Persistent), Env: env, DisableTools: b.DisableTools,
		Setup: b.Setup.with(b.MaxModelRetryS, b.Network),
	})
	if err == nil {
		a.SnapshotOf(made) // the session keeps to its primary skill as it is now
	}

	return httpx.Answer(sessionCreated{made.ID}, err)
}

func (a *SessionsAPI) listSessions(ctx context.Context, in *struct {
	TemplateIDPrefix string `query:"template_id_prefix" maxLength:"256" doc:"Only sessions whose template id begins so." example:"report-"`
	Q                string `query:"q" maxLength:"1000" doc:"Text to find in intents and messages, literally, in any case." example:"release notes"`
	Limit            int    `query:"limit" default:"20" minimum:"1" doc:"At most 10000 are given." example:"20"`
	Offset           int    `query:"offset" default:"0" minimum:"0" doc:"Number of entries to skip." example:"0"`
},
) (*httpx.Body[sessionPage], error) {
	in.Limit = min(in.Limit, 10_000)

	page, err := a.Store.Sessions(ctx, domain.SessionQuery{
		OwnerID: httpx.CallerOf(ctx).User.ID, TemplateIDPrefix: in.TemplateIDPrefix, Search: in.Q, Limit: in.Limit, Offset: in.Offset,
	})
	if err != nil {
		return nil, err
	}

	out := sessionPage{
		Items: make([]sessionSummary, len(page.Items)), Total: page.Total, Limit: in.Limit, Offset: in.Offset,
	}
	for i, session := range page.Items {
		out.Items[i] = summaryOf(session)
	}

	return httpx.Answer(out, nil)
}

func (a *SessionsAPI) getSession(ctx context.Context, in *access.SessionRef) (*httpx.Body[sessiondetail.SessionDetail], error) {
	session, role, err := a.Readable(ctx, in.SessionID)
	return httpx.Answer(a.DetailOf(session, role), err)
}

func (a *SessionsAPI) updateSession(ctx context.Context, in *struct {
	access.SessionRef
	Body *struct {
		Intent         *string             `json:"intent,omitempty" nullable:"true" maxLength:"100000" doc:"The purpose of the session." example:"Write the release notes of June"`
		Mode           *domain.Mode        `json:"mode,omitempty" nullable:"true" enum:"executing,planning" doc:"How the agent works on messages that do not say it, from the next chat on; left out or null: as before."`
		MaxModelRetryS *int                `json:"max_model_retry_s,omitempty" nullable:"true" minimum:"1" maximum:"604800" doc:"Seconds for which a model call that keeps failing is retried; left out or null: as before."`
		Network        *domain.NetworkMode `json:"network,omitempty" nullable:"true" enum:"none,rules,public" doc:"Narrows the network of its commands; left out or null: as before."`
		Setup          *sessionSetupBody   `json:"session_setup,omitempty" doc:"What is named replaces what the session said before; the rest stays."`
	}
},
) (*httpx.Body[sessiondetail.SessionDetail], error) {
	user := httpx.CallerOf(ctx).User

	session, err := a.Store.OwnSession(ctx, user, in.SessionID)
	if err == nil && in.Body != nil {
		err = a.checkNetwork(in.Body.Network, in.Body.Setup)
	}

	if err == nil && in.Body != nil && (in.Body.Setup != nil || in.Body.MaxModelRetryS != nil || in.Body.Network != nil) {
		session, err = a.Store.SetSessionSetup(ctx, user, in.SessionID, in.Body.Setup.with(in.Body.MaxModelRetryS, in.Body.Network))
	}

	if err == nil && in.Body != nil && in.Body.Mode != nil {
		session, err = a.Store.SetSessionMode(ctx, user, in.SessionID, *in.Body.Mode)
	}

	if err == nil && in.Body != nil && in.Body.Intent != nil {
		session, err = a.Store.RenameSession(ctx, user, in.SessionID, *in.Body.Intent)
	}

	return a.ownDetail(session, err)
}

func (a *SessionsAPI) deleteSession(ctx context.Context, in *access.SessionRef) (*httpx.Body[fields.DeletedBody], error) {
	if _, err := a.Own(ctx, in.SessionID); err != nil {
		return nil, err
	}

	if err := a.Deleter(ctx, in.SessionID); err != nil {
		return nil, err
	}

	a.rightsChanged(ctx, in.SessionID)

	return httpx.Answer(fields.DeletedBody{Deleted: true}, nil)
}

func (a *SessionsAPI) setEnv(ctx context.Context, in *struct {
	access.SessionRef
	Body struct {
		Env map[string]string `json:"env" doc:"The whole environment: what is not named is gone." example:"{\"TOKEN\": \"abc\"}"`
	}
},
) (*httpx.Body[sessionWithEnv], error) {
	env, err := fields.CleanEnv(in.Body.Env)
	if err != nil {
		return nil, err
	}

	session, err := a.Store.SetSessionEnv(ctx, httpx.CallerOf(ctx).User, in.SessionID, env)

	return httpx.Answer(sessionWithEnv{a.DetailOf(session, domain.ViewerOwner), session.Env}, err)
}

func (a *SessionsAPI) pin(ctx context.Context, in *struct {
	access.SessionRef
	Body struct {
		Pinned bool `json:"pinned" doc:"Whether it is pinned to the top of lists."`
	}
},
) (*httpx.Body[sessiondetail.SessionDetail], error) {
	return a.ownDetail(a.Store.SetSessionPinned(ctx, httpx.CallerOf(ctx).User, in.SessionID, in.Body.Pinned))
}

type sharedBody struct {
	Shared bool `json:"shared" doc:"Whether all signed-in users may read it."`
}

func (a *SessionsAPI) share(ctx context.Context, in *struct {
	access.SessionRef
	Body sharedBody
},
) (*httpx.Body[sharedBody], error) {
	session, err := a.Store.SetSessionShared(ctx, httpx.CallerOf(ctx).User, in.SessionID, in.Body.Shared)
	if err == nil && !session.Shared {
		a.rightsChanged(ctx, in.SessionID)
	}

	return httpx.Answer(sharedBody{session.Shared}, err)
}

func (a *SessionsAPI) rightsChanged(ctx context.Context, sessionID domain.SessionID) {
	a.Rights.Announce(ctx, domain.RightsChange{SessionID: sessionID})
}

type memoryBody struct {
	MemoryEnabled bool `json:"memory_enabled" doc:"Whether the session uses memories."`
}

func (a *SessionsAPI) setMemory(ctx context.Context, in *struct {
	access.SessionRef
	Body memoryBody
},
) (*httpx.Body[memoryBody], error) {
	session, err := a.Store.SetSessionMemory(ctx, httpx.CallerOf(ctx).User, in.SessionID, in.Body.MemoryEnabled)
	return httpx.Answer(memoryBody{session.MemoryEnabled}, err)
}

func (a *SessionsAPI) ownDetail(session domain.Session, err error) (*httpx.Body[sessiondetail.SessionDetail], error) {
	return httpx.Answer(a.DetailOf(session, domain.ViewerOwner), err)
}

// checkModel rejects a model that the gateway knows neither by its id nor by an
// alias. While the list cannot be read, every model passes: the chat reports it.
func (a *SessionsAPI) checkModel(ctx context.Context, model *string) error {
	if model == nil || *model == "" {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	if _, err := a.ModelFinder.Resolve(ctx, *model); !domain.HasCode(err, domain.CodeUnknownModel) {
		return nil
	}

	e := domain.Invalidf("body.model", "is not a model of the gateway")
	e.Code = domain.CodeUnknownModel

	return e
}
