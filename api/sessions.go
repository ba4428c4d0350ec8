package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// SessionRef is the path of an operation on one session.
type SessionRef struct {
	SessionID string `path:"session_id"`
}

type sessionCreated struct {
	SessionID string `json:"session_id"`
}

type sessionPage struct {
	Items                 []sessionSummary `json:"items"`
	Total                 int              `json:"total"`
	Limit                 int              `json:"limit"`
	Offset                int              `json:"offset"`
	ContentMatchTruncated bool             `json:"content_match_truncated" doc:"Always false: the search looks at all messages."`
}

type deletedBody struct {
	Deleted bool `json:"deleted"`
}

func (s *server) sessionRoutes() {
	const path, one, tag = "/api/sessions", "/api/sessions/{session_id}", "Sessions"
	op := func(id, method, path, summary string, scope auth.Scope) operation {
		return operation{id: id, method: method, path: path, tag: tag, summary: summary, scope: scope}
	}
	add(s, op("create-session", fiber.MethodPost, path, "Make a session", auth.SessionsWrite), s.createSession)
	add(s, op("list-sessions", fiber.MethodGet, path, "The caller's sessions, pinned and newest first", auth.SessionsRead), s.listSessions)
	add(s, op("get-session", fiber.MethodGet, one, "One session", auth.SessionsRead), s.getSession)
	add(s, op("update-session", fiber.MethodPatch, one, "Rename a session, or set its agent up anew", auth.SessionsWrite), s.updateSession)
	add(s, op("delete-session", fiber.MethodDelete, one, "Delete a session and end its work", auth.SessionsWrite), s.deleteSession)
	add(s, op("set-session-env", fiber.MethodPut, one+"/env", "Replace the environment of a session's tools", auth.SessionsWrite), s.setEnv)
	add(s, op("pin-session", fiber.MethodPatch, one+"/pin", "Pin a session, or let it go", auth.SessionsWrite), s.pin)
	add(s, op("share-session", fiber.MethodPatch, one+"/sharing", "Let every signed-in user read a session, or not", auth.SessionsWrite), s.share)
	add(s, op("set-session-memory", fiber.MethodPatch, one+"/memory", "Let a session use memories, or not", auth.SessionsWrite), s.setMemory)
}

// newSessionBody is the body of POST /api/sessions; all of it is optional.
type newSessionBody struct {
	Intent          *string           `json:"intent,omitempty" nullable:"true" maxLength:"100000" doc:"What the session is for. Empty: the first message says it."`
	SolutionID      *string           `json:"solution_id,omitempty" nullable:"true" maxLength:"256"`
	BizRoleID       *string           `json:"biz_role_id,omitempty" nullable:"true" maxLength:"256"`
	TemplateID      *string           `json:"template_id,omitempty" nullable:"true" maxLength:"256"`
	PrimarySkillID  *string           `json:"primary_skill_id,omitempty" nullable:"true" maxLength:"256"`
	Model           *string           `json:"model,omitempty" nullable:"true" maxLength:"256"`
	SoftwareFactory *int64            `json:"software_factory_id,omitempty" nullable:"true" minimum:"-9007199254740991" maximum:"9007199254740991"`
	MemoryEnabled   *bool             `json:"memory_enabled,omitempty" nullable:"true"`
	Persistent      *bool             `json:"is_persistent,omitempty" nullable:"true" default:"false"`
	Env             map[string]string `json:"env,omitempty" nullable:"true" doc:"Environment of the session's tools."`
	WorkspaceID     *string           `json:"workspace_id,omitempty" nullable:"true" maxLength:"256"`
	DisableTools    []string          `json:"disable_tools,omitempty" nullable:"true" maxItems:"1000"`

	Setup *sessionSetupBody `json:"session_setup,omitempty" doc:"How the agent is set up here: sub-agents, permissions, budget, compaction."`
}

func (s *server) createSession(ctx context.Context, in *struct{ Body *newSessionBody }) (*body[sessionCreated], error) {
	if in.Body == nil {
		in.Body = &newSessionBody{}
	}
	b := in.Body
	env, err := cleanEnv(b.Env)
	if err != nil {
		return nil, err
	}
	if err := s.checkModel(ctx, b.Model); err != nil {
		return nil, err
	}
	b.SolutionID, b.BizRoleID = orNil(b.SolutionID), orNil(b.BizRoleID)
	if err := s.checkSolution(ctx, b.SolutionID, b.BizRoleID); err != nil {
		return nil, err
	}
	made, err := s.Store.CreateSession(ctx, callerOf(ctx).User.ID, domain.NewSession{
		Intent: value(b.Intent), SolutionID: b.SolutionID, BizRoleID: b.BizRoleID, TemplateID: b.TemplateID,
		PrimarySkillID: b.PrimarySkillID, Model: orNil(b.Model), SoftwareFactory: b.SoftwareFactory, WorkspaceID: b.WorkspaceID,
		MemoryEnabled: value(b.MemoryEnabled), Persistent: value(b.Persistent), Env: env, DisableTools: b.DisableTools,
		Setup: b.Setup.domain(),
	})
	if err == nil {
		s.snapshotOf(made) // the session keeps to its primary skill as it is now
	}
	return answer(sessionCreated{made.ID}, err)
}

func (s *server) listSessions(ctx context.Context, in *struct {
	TemplateIDPrefix string `query:"template_id_prefix" maxLength:"256" doc:"Only sessions whose template id begins so."`
	Q                string `query:"q" maxLength:"1000" doc:"Text to find in intents and messages, literally, in any case."`
	Limit            int    `query:"limit" default:"20" minimum:"1" doc:"At most 10000 are given."`
	Offset           int    `query:"offset" default:"0" minimum:"0"`
},
) (*body[sessionPage], error) {
	in.Limit = min(in.Limit, 10_000)
	page, err := s.Store.Sessions(ctx, domain.SessionQuery{
		OwnerID: callerOf(ctx).User.ID, TemplateIDPrefix: in.TemplateIDPrefix, Search: in.Q, Limit: in.Limit, Offset: in.Offset,
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
	return answer(out, nil)
}

// readable reads a session that the caller may see. A look by an administrator's
// privilege is audited before anything is told.
func (s *server) readable(ctx context.Context, id string) (domain.Session, domain.ViewerRole, error) {
	user := callerOf(ctx).User
	session, role, err := s.Store.ReadSession(ctx, user, id)
	if err == nil && role == domain.ViewerAdmin {
		details := map[string]string{"route": requestOf(ctx).route, "request_id": requestOf(ctx).id}
		err = s.Store.Audit(ctx, user.ID, "session.read", id, details)
	}
	return session, role, err
}

func (s *server) getSession(ctx context.Context, in *SessionRef) (*body[SessionDetail], error) {
	session, role, err := s.readable(ctx, in.SessionID)
	return answer(s.detailOf(session, role), err)
}

func (s *server) updateSession(ctx context.Context, in *struct {
	SessionRef
	Body *struct {
		Intent *string           `json:"intent,omitempty" nullable:"true" maxLength:"100000"`
		Setup  *sessionSetupBody `json:"session_setup,omitempty" doc:"What is named replaces what the session said before; the rest stays."`
	}
},
) (*body[SessionDetail], error) {
	user := callerOf(ctx).User
	session, err := s.Store.OwnSession(ctx, user, in.SessionID)
	if err == nil && in.Body != nil && in.Body.Setup != nil {
		session, err = s.Store.SetSessionSetup(ctx, user, in.SessionID, in.Body.Setup.domain())
	}
	if err == nil && in.Body != nil && in.Body.Intent != nil {
		session, err = s.Store.RenameSession(ctx, user, in.SessionID, *in.Body.Intent)
	}
	return s.ownDetail(session, err)
}

func (s *server) deleteSession(ctx context.Context, in *SessionRef) (*body[deletedBody], error) {
	if _, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID); err != nil {
		return nil, err
	}
	if err := s.Deleter.DeleteSession(ctx, in.SessionID); err != nil {
		return nil, err
	}
	s.rightsChanged(ctx, in.SessionID)
	return answer(deletedBody{true}, nil)
}

func (s *server) setEnv(ctx context.Context, in *struct {
	SessionRef
	Body struct {
		Env map[string]string `json:"env" doc:"The whole environment: what is not named is gone."`
	}
},
) (*body[sessionWithEnv], error) {
	env, err := cleanEnv(in.Body.Env)
	if err != nil {
		return nil, err
	}
	session, err := s.Store.SetSessionEnv(ctx, callerOf(ctx).User, in.SessionID, env)
	return answer(sessionWithEnv{s.detailOf(session, domain.ViewerOwner), session.Env}, err)
}

func (s *server) pin(ctx context.Context, in *struct {
	SessionRef
	Body struct {
		Pinned bool `json:"pinned"`
	}
},
) (*body[SessionDetail], error) {
	return s.ownDetail(s.Store.SetSessionPinned(ctx, callerOf(ctx).User, in.SessionID, in.Body.Pinned))
}

type sharedBody struct {
	Shared bool `json:"shared"`
}

func (s *server) share(ctx context.Context, in *struct {
	SessionRef
	Body sharedBody
},
) (*body[sharedBody], error) {
	session, err := s.Store.SetSessionShared(ctx, callerOf(ctx).User, in.SessionID, in.Body.Shared)
	if err == nil && !session.Shared {
		s.rightsChanged(ctx, in.SessionID)
	}
	return answer(sharedBody{session.Shared}, err)
}

func (s *server) rightsChanged(ctx context.Context, sessionID string) {
	s.open.poke(sessionID)
	if s.RightsChanged != nil {
		s.RightsChanged(ctx, sessionID)
	}
}

type memoryBody struct {
	MemoryEnabled bool `json:"memory_enabled"`
}

func (s *server) setMemory(ctx context.Context, in *struct {
	SessionRef
	Body memoryBody
},
) (*body[memoryBody], error) {
	session, err := s.Store.SetSessionMemory(ctx, callerOf(ctx).User, in.SessionID, in.Body.MemoryEnabled)
	return answer(memoryBody{session.MemoryEnabled}, err)
}

func (s *server) ownDetail(session domain.Session, err error) (*body[SessionDetail], error) {
	return answer(s.detailOf(session, domain.ViewerOwner), err)
}

// orNil takes an empty name as none.
func orNil(p *string) *string {
	if p == nil || *p == "" {
		return nil
	}
	return p
}
