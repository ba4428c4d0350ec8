package agents

import (
	"context"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/prodagent"
)

// origin is the agent or instance that a session is created from.
type origin struct {
	id    string // of the production agent or the instance
	owner string
	agent domain.SessionAgent
	spec  prodagent.Spec
	model *string
	env   domain.SessionEnv
}

// StartSession creates a session of an agent that the owner of the session may see, and
// starts its init script. It leaves an existing session unchanged, so that callers can repeat
// it after a crash. The error for a deleted session is session_not_found.
func (s *Service) StartSession(ctx context.Context, ownerID string, in prodagent.Start) error {
	from, err := s.origin(ctx, ownerID, in)
	if err == nil {
		err = s.checkScript(ctx, ownerID, from, in.ScriptDigest)
	}

	if err != nil {
		return err
	}

	made := domain.NewSession{
		ID:          in.SessionID,
		Class:       in.Class,
		ParentRun:   in.ParentRun,
		Intent:      in.Intent,
		Model:       from.model,
		WorkspaceID: in.WorkspaceID,
		Env:         from.env,
		InitScript:  from.spec.InitScript,
		Setup: domain.SessionSetup{
			Instructions: from.spec.SystemText(), Skills: from.spec.Skills, Agent: &from.agent,
			LayoutType: from.spec.LayoutType, PreviewURLs: from.spec.PreviewURLs,
			Budget: in.Budget, SkipConfirmations: in.SkipConfirmations, QuestionPolicy: in.QuestionPolicy,
		},
	}
	if in.Model != nil {
		made.Model = in.Model
	}

	if from.spec.Mode != nil {
		made.Mode = *from.spec.Mode
	}

	if from.spec.SolutionID != "" {
		if err := s.CheckRole(ctx, ownerID, from.spec.SolutionID, from.spec.BizRoleID); err != nil {
			return unavailable(err)
		}

		made.SolutionID, made.BizRoleID = &from.spec.SolutionID, &from.spec.BizRoleID
	}

	if err := s.sessions.EnsureSession(ctx, ownerID, made); err != nil {
		return err
	}

	if in.InstanceID != "" {
		if err := s.NoteAgentSession(ctx, in.SessionID, in.InstanceID); err != nil {
			return err
		}
	}

	if made.InitScript == "" {
		return nil
	}
	// The task is durable now: start it also when the caller disconnects.
	task := contract.TaskInput{TaskID: domain.InitTaskID(in.SessionID), SessionID: in.SessionID, OwnerID: ownerID}
	if err := s.deps.StartTask(context.WithoutCancel(ctx), task); err != nil {
		s.deps.Logger.Warn("failed to start an init script, retrying", "session_id", in.SessionID, "error", err)
	}

	return nil
}

// StartPlain creates a session without an agent, whose owner must be allowed to take its role. It
// leaves an existing session unchanged.
func (s *Service) StartPlain(ctx context.Context, ownerID string, in domain.NewSession) error {
	if in.SolutionID != nil {
		role := ""
		if in.BizRoleID != nil {
			role = *in.BizRoleID
		}

		if err := s.CheckRole(ctx, ownerID, *in.SolutionID, role); err != nil {
			return err
		}
	}

	return s.sessions.EnsureSession(ctx, ownerID, in)
}

// checkScript rejects the init script of another user's agent, which runs with the environment of
// the session's owner, until that user sends its digest. A script that changed is rejected again.
func (s *Service) checkScript(ctx context.Context, userID string, from origin, given string) error {
	digest := from.spec.ScriptDigest()
	if digest == "" || from.owner == userID {
		return nil
	}

	if given == digest {
		return s.ConsentToScript(ctx, userID, from.id, digest)
	}

	consents, err := s.ConsentsToScript(ctx, userID, from.id, digest)
	if err == nil && !consents {
		err = domain.Newf(domain.Conflict, "init_script_unconfirmed", "the agent of another user has an init script, which would run with "+
			"your environment: read it, and send its SHA-256 as init_script_digest")
	}

	return err
}

// unavailable turns a validation error of a stored agent into one that names no field of the
// request.
func unavailable(err error) error {
	if e := domain.AsError(err); e.Kind == domain.Invalid {
		return domain.Newf(domain.Conflict, "agent_unavailable", "the solution or the role of the agent does not exist any more: "+
			"change the agent")
	}

	return err
}

func (s *Service) origin(ctx context.Context, ownerID string, in prodagent.Start) (origin, error) {
	if in.InstanceID != "" {
		return s.ofInstance(ctx, ownerID, in.InstanceID)
	}

	find, name := s.ProdAgent, in.RecordID
	if in.RecordID == "" {
		find, name = s.ProdAgentByName, in.AgentID
	}

	agent, err := find(ctx, ownerID, name)

	return origin{
		id:    agent.RecordID,
		owner: agent.OwnerID,
		agent: domain.SessionAgent{AgentID: agent.AgentID, RecordID: agent.RecordID},
		spec:  agent.Spec(),
	}, err
}

func (s *Service) ofInstance(ctx context.Context, ownerID, id string) (origin, error) {
	instance, err := s.AgentInstance(ctx, ownerID, id)
	if err != nil {
		return origin{}, err
	}

	if instance.ArchivedAt != nil {
		return origin{}, domain.Newf(domain.Conflict, "agent_instance_archived", "the agent instance is archived")
	}

	from := origin{id: id, owner: instance.OwnerID, agent: domain.SessionAgent{InstanceID: id}, spec: instance.Spec, model: instance.Model}
	if instance.RecordID != nil {
		from.agent.RecordID = *instance.RecordID
	}

	if instance.OwnerID == ownerID { // others could read the values in their session
		from.env, err = s.InstanceEnv(ctx, id)
	}

	return from, err
}
