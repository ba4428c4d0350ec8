// Package agents manages production agents, the instances created from them, and the runtimes
// that workers announce. It validates and stores agents, and creates their sessions. The files
// with SQL are named after the store.
package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
	"everloop/infra/solutions"
	"everloop/service/accounts"
)

// Models resolves the names of models at the gateway.
type Models interface {
	Resolve(ctx context.Context, requested string) (domain.Model, error)
}

// Deps are the dependencies of New. All are required.
type Deps struct {
	DB        *pg.DB
	Solutions *solutions.Catalog
	Models    Models
	// StartTask starts a background task: the init script of a session. The periodic job of
	// background tasks repeats a start that failed.
	StartTask func(ctx context.Context, task contract.TaskInput) error
	Logger    *slog.Logger
}

// Service manages production agents, agent instances and runtimes, and creates their sessions.
type Service struct {
	*Store
	deps     Deps
	accounts *accounts.Store
	sessions *sessions.Base
}

// New returns a new service.
func New(deps Deps) *Service {
	return &Service{NewStore(deps.DB), deps, accounts.New(deps.DB), sessions.NewBase(deps.DB)}
}

// Create creates a production agent. Without an agent_id it gets one.
func (s *Service) Create(ctx context.Context, in prodagent.Agent) (prodagent.Agent, error) {
	if err := s.check(ctx, &in); err != nil {
		return prodagent.Agent{}, err
	}

	in.RecordID = domain.NewID()
	if in.AgentID == "" {
		in.AgentID = "agent_" + in.RecordID
	}

	return s.shown(s.CreateProdAgent(ctx, in))
}

// Replace sets all fields of a user's own production agent but its agent_id.
func (s *Service) Replace(ctx context.Context, in prodagent.Agent) (prodagent.Agent, error) {
	found, err := s.ProdAgent(ctx, in.OwnerID, in.RecordID)
	if err != nil {
		return prodagent.Agent{}, err
	}

	if found.OwnerID != in.OwnerID {
		return prodagent.Agent{}, domain.Newf(domain.Forbidden, "forbidden", "only the owner of the production agent may change it")
	}

	if err := s.check(ctx, &in); err != nil {
		return prodagent.Agent{}, err
	}

	return s.shown(s.ReplaceProdAgent(ctx, in))
}

// Delete removes a user's own production agent.
func (s *Service) Delete(ctx context.Context, userID, recordID string) error {
	found, err := s.ProdAgent(ctx, userID, recordID)
	if err != nil {
		return err
	}

	if found.OwnerID != userID {
		return domain.Newf(domain.Forbidden, "forbidden", "only the owner of the production agent may delete it")
	}

	return s.DeleteProdAgent(ctx, userID, recordID)
}

// List gives a page of the production agents that a user may see, and how many there are.
func (s *Service) List(ctx context.Context, userID string, limit, offset int) ([]prodagent.Summary, int, error) {
	page, total, err := s.ProdAgents(ctx, userID, limit, offset)
	for i := range page {
		page[i].Status = s.status(page[i].SolutionID)
	}

	return page, total, err
}

// Get reads a production agent that a user may see, and the runtime on which its
// instances are made; nil: there is none of its provider.
func (s *Service) Get(ctx context.Context, userID, recordID string) (prodagent.Agent, *prodagent.Runtime, error) {
	found, err := s.shown(s.ProdAgent(ctx, userID, recordID))
	if err != nil {
		return found, nil, err
	}

	runtime, err := s.RuntimeOf(ctx, found.RuntimeProvider)
	if domain.HasCode(err, codeNoRuntime) {
		return found, nil, nil
	}

	return found, &runtime, err
}

func (s *Service) shown(agent prodagent.Agent, err error) (prodagent.Agent, error) {
	agent.Status = s.status(agent.SolutionID)
	return agent, err
}

func (s *Service) status(solutionID string) prodagent.Status {
	if _, err := s.deps.Solutions.Get(solutionID); err != nil {
		return prodagent.Unavailable
	}

	return prodagent.Active
}

// check refuses a production agent that sessions cannot be made of, and cleans texts.
func (s *Service) check(ctx context.Context, in *prodagent.Agent) error {
	for _, text := range []*string{
		&in.Name, &in.Icon, &in.AgentTemplate, &in.Instructions, &in.InitScript, &in.LayoutType, &in.RuntimeProvider,
	} {
		*text = domain.CleanText(*text)
	}

	if strings.TrimSpace(in.Name) == "" {
		return domain.Invalidf("body.name", "is empty")
	}

	if err := s.CheckRole(ctx, in.OwnerID, in.SolutionID, in.BizRoleID); err != nil {
		return err
	}

	for i, preview := range in.PreviewURLs {
		if !showable(preview.URL) {
			return domain.Invalidf(fmt.Sprintf("body.preview_urls[%d].url", i), "is neither an http or https URL nor a path that "+
				"begins with /")
		}
	}

	text, err := json.Marshal(in.SkillsData)
	if err != nil || len(text) > prodagent.MaxSkillsData {
		return domain.Invalidf("body.skills_data", "has more than %d bytes as JSON", prodagent.MaxSkillsData)
	}

	return nil
}

// CheckRole refuses a solution that does not exist, and a role that it does not have or
// that the user may not take.
func (s *Service) CheckRole(ctx context.Context, userID, solutionID, roleID string) error {
	solution, err := s.deps.Solutions.Get(solutionID)
	if err != nil {
		e := domain.Invalidf("body.solution_id", "is not the id of a solution")
		e.Code = "solution_not_found"

		return e
	}

	if err := solution.CheckRole(roleID, "body.biz_role_id"); err != nil {
		return err
	}

	allowed, err := s.accounts.AllowedRoles(ctx, userID, solutionID)
	if err == nil && !allowed.Allows(roleID) {
		err = domain.Newf(domain.Forbidden, "biz_role_not_allowed", "you may not take this role of the solution")
	}

	return err
}

// showable reports whether a front end may show a URL: no other schemes than http and
// https, which could run scripts.
func showable(text string) bool {
	at, err := url.Parse(text)
	if err != nil {
		return false
	}

	if at.Scheme == "" && at.Host == "" {
		return strings.HasPrefix(at.Path, "/")
	}

	return (at.Scheme == "http" || at.Scheme == "https") && at.Host != ""
}

// checkModel refuses a model that the gateway does not know. While the gateway cannot be
// asked, every model passes: the chat reports it.
func (s *Service) checkModel(ctx context.Context, model *string) error {
	if model == nil || *model == "" {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	if _, err := s.deps.Models.Resolve(ctx, *model); domain.HasCode(err, domain.CodeUnknownModel) {
		e := domain.Invalidf("body.model", "is not a model of the gateway")
		e.Code = domain.CodeUnknownModel

		return e
	}

	return nil
}
