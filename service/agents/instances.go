package agents

import (
	"context"
	"strings"

	"everloop/domain"
	"everloop/domain/prodagent"
)

const codeNoRuntime = "runtime_not_found"

// Instantiate creates an instance of a production agent on a runtime of its provider, and its
// first session if start is set. The instance is a copy of the agent as it is now.
func (s *Service) Instantiate(ctx context.Context, userID, recordID, scriptDigest string, start bool) (
	made prodagent.Instance, agent prodagent.Agent, sessionID *domain.SessionID, err error,
) {
	if agent, err = s.ProdAgent(ctx, userID, recordID); err != nil {
		return made, agent, nil, err
	}

	if err := s.checkScript(ctx, userID, origin{id: agent.RecordID, owner: agent.OwnerID, spec: agent.Spec()}, scriptDigest); err != nil {
		return made, agent, nil, err
	}

	if start { // before there is an instance
		if err := s.CheckRole(ctx, userID, agent.SolutionID, agent.BizRoleID); err != nil {
			return made, agent, nil, unavailable(err)
		}
	}

	runtime, err := s.RuntimeOf(ctx, agent.RuntimeProvider)
	if domain.HasCode(err, codeNoRuntime) {
		err = domain.Newf(domain.Conflict, "no_runtime", "no runtime of the provider %s has announced itself", agent.RuntimeProvider)
	}

	if err != nil {
		return made, agent, nil, err
	}

	made, err = s.CreateAgentInstance(ctx, prodagent.Instance{
		ID:                 domain.NewID(),
		OwnerID:            userID,
		RecordID:           &agent.RecordID,
		RuntimeID:          runtime.ID,
		Name:               agent.Name,
		Icon:               agent.Icon,
		Instructions:       agent.Instructions,
		Visibility:         agent.Visibility,
		SharedWith:         []prodagent.Share{},
		MaxConcurrentTasks: prodagent.DefaultTasks,
		Spec:               agent.Spec(),
	})
	if err != nil || !start {
		return made, agent, nil, err
	}

	id := domain.SessionID(domain.NewID())
	if err = s.StartSession(ctx, userID, prodagent.Start{SessionID: id, InstanceID: made.ID, Intent: made.Name}); err != nil {
		s.discard(ctx, made)
	}

	return made, agent, &id, err
}

// discard deletes an instance whose first session could not be created: the caller gets an
// error and never learns its id.
func (s *Service) discard(ctx context.Context, made prodagent.Instance) {
	err := s.DeleteAgentInstance(context.WithoutCancel(ctx), made.OwnerID, made.ID)
	if err != nil {
		s.deps.Logger.Warn("failed to delete an agent instance without its session", "instance_id", made.ID, "error", err)
	}
}

// CreateInstance creates an instance without a production agent: a general agent with its
// own instructions.
func (s *Service) CreateInstance(ctx context.Context, in prodagent.Instance) (prodagent.Instance, error) {
	for _, text := range []*string{&in.Name, &in.Instructions, &in.Description} {
		*text = domain.CleanText(*text)
	}

	if strings.TrimSpace(in.Name) == "" {
		return prodagent.Instance{}, domain.Invalidf("body.name", "is empty")
	}

	if err := s.checkRuntime(ctx, in.RuntimeID); err != nil {
		return prodagent.Instance{}, err
	}

	if err := s.checkModel(ctx, in.Model); err != nil {
		return prodagent.Instance{}, err
	}

	in.ID = domain.NewID()
	in.Spec = prodagent.Spec{Skills: []string{}, SkillsData: map[string]any{}, PreviewURLs: []domain.PreviewURL{}}

	return s.CreateAgentInstance(ctx, in)
}

// Instances lists a page of the instances that a user may see, and how many there are.
func (s *Service) Instances(ctx context.Context, userID string, archived bool, limit, offset int) ([]prodagent.Instance, int, error) {
	page, total, err := s.AgentInstances(ctx, userID, archived, limit, offset)
	for i := range page {
		page[i] = page[i].SeenBy(userID)
	}

	return page, total, err
}

// Instance reads an instance that a user may see.
func (s *Service) Instance(ctx context.Context, userID, id string) (prodagent.Instance, error) {
	found, err := s.AgentInstance(ctx, userID, id)
	return found.SeenBy(userID), err
}

// ChangeInstance changes a user's own instance.
func (s *Service) ChangeInstance(ctx context.Context, userID, id string, c prodagent.InstanceChange) (prodagent.Instance, error) {
	if err := s.ownInstance(ctx, userID, id); err != nil {
		return prodagent.Instance{}, err
	}

	for _, text := range []*string{c.Name, c.Description, c.Instructions} {
		if text != nil {
			*text = domain.CleanText(*text)
		}
	}

	if c.Name != nil && strings.TrimSpace(*c.Name) == "" {
		return prodagent.Instance{}, domain.Invalidf("body.name", "is empty")
	}

	if c.RuntimeID != nil {
		if err := s.checkRuntime(ctx, *c.RuntimeID); err != nil {
			return prodagent.Instance{}, err
		}
	}

	if err := s.checkModel(ctx, c.Model); err != nil {
		return prodagent.Instance{}, err
	}

	return s.ChangeAgentInstance(ctx, userID, id, c)
}

// DeleteInstance removes a user's own instance. Its sessions stay.
func (s *Service) DeleteInstance(ctx context.Context, userID, id string) error {
	if err := s.ownInstance(ctx, userID, id); err != nil {
		return err
	}

	return s.DeleteAgentInstance(ctx, userID, id)
}

// ownInstance refuses a change of an instance that the user may only see.
func (s *Service) ownInstance(ctx context.Context, userID, id string) error {
	found, err := s.AgentInstance(ctx, userID, id)
	if err == nil && found.OwnerID != userID {
		err = domain.Newf(domain.Forbidden, "forbidden", "only the owner of the agent instance may change it")
	}

	return err
}

func (s *Service) checkRuntime(ctx context.Context, id string) error {
	_, err := s.AgentRuntime(ctx, id)
	if domain.HasCode(err, codeNoRuntime) {
		e := domain.Invalidf("body.runtime_id", "names no runtime")
		e.Code = codeNoRuntime

		return e
	}

	return err
}
