// Package production is the room of production solutions: it validates their documents, stores
// and publishes versions of them. Runs of their DAGs are in service/dagruns, which depends on
// this package.
package production

import (
	"context"
	"encoding/json"
	"fmt"

	"everloop/domain"
	"everloop/domain/architecture"
	"everloop/domain/dag"
	"everloop/domain/document"
	"everloop/domain/production"
	"everloop/domain/skill"
	"everloop/infra/postgres/pg"
	"everloop/service/agents"
	"everloop/service/skills"
)

// Deps are what the service works with.
type Deps struct {
	DB     *pg.DB
	Agents *agents.Store
	Skills *skills.Service
	// NodeTools returns the names of the tools that a tool node in a DAG of the user can call,
	// without the tools of tool servers.
	NodeTools func(ctx context.Context, userID string) []string
}

// Service creates production solutions and changes their documents.
type Service struct {
	*Store

	deps   Deps
	shapes shapes
}

// New returns a new service.
func New(deps Deps) *Service { return &Service{NewStore(deps.DB), deps, newShapes()} }

// Create creates a solution. The first version of each document is empty.
func (s *Service) Create(ctx context.Context, in production.NewSolution) (production.Solution, error) {
	first := map[domain.DocumentKind]production.NewDocument{}

	for kind, empty := range map[domain.DocumentKind]encoder{
		domain.DocumentDAG: dag.Graph{}.Complete(), domain.DocumentArchitecture: architecture.Document{},
	} {
		made, err := newDocument(empty, in.OwnerID, "")
		if err != nil {
			return production.Solution{}, err
		}

		first[kind] = made
	}

	return s.CreateProdSolution(ctx, in, first)
}

// ValidateDAG validates a graph for a solution without storing it.
func (s *Service) ValidateDAG(ctx context.Context, caller domain.User, id string, g dag.Graph) (domain.Validation, error) {
	known, err := s.known(ctx, caller, id, g)
	if err != nil {
		return domain.Validation{}, err
	}

	return dag.Validate(g, known), nil
}

// SaveDAG stores a graph as the version that follows base, and returns what its
// validation has found: a graph that is not valid yet can be saved, and not published.
func (s *Service) SaveDAG(ctx context.Context, caller domain.User, id string, base int, g dag.Graph, message string) (
	made domain.DocumentVersion, found []domain.Finding, err error,
) {
	g = g.Complete()

	result, err := s.ValidateDAG(ctx, caller, id, g)
	if err != nil {
		return made, nil, err
	}

	made, err = s.save(ctx, caller, id, domain.DocumentDAG, base, g, message)

	return made, append(result.Errors, result.Warnings...), err
}

// PublishDAG publishes a version, 0: the newest; with a graph it is saved on top of
// that version first. A graph that is not valid is validation_failed.
func (s *Service) PublishDAG(ctx context.Context, caller domain.User, id string, version int, given *dag.Graph, message string) (
	production.PublishedDocument, error,
) {
	if given != nil {
		g := given.Complete()

		result, err := s.ValidateDAG(ctx, caller, id, g)
		if err != nil {
			return production.PublishedDocument{}, err
		}

		return s.publishNew(ctx, caller, id, domain.DocumentDAG, version, g, result, message)
	}

	var g dag.Graph

	version, err := s.read(ctx, caller, id, domain.DocumentDAG, version, &g)
	if err != nil {
		return production.PublishedDocument{}, err
	}

	result, err := s.ValidateDAG(ctx, caller, id, g)
	if err != nil {
		return production.PublishedDocument{}, err
	}

	return s.publishStored(ctx, caller, id, domain.DocumentDAG, version, result, message)
}

// RunnableDAG returns a version that can be run, with the owner of its solution, who must be the
// caller, because runs work as the owner; 0: the published one. What does not exist any more
// makes it validation_failed.
func (s *Service) RunnableDAG(ctx context.Context, caller domain.User, id string, version int) (
	g dag.Graph, number int, ownerID string, err error,
) {
	solution, err := s.ProdSolution(ctx, caller, id)
	if err == nil {
		err = solution.MayChange(caller)
	}

	if err == nil {
		version, err = versionOf(solution, version)
	}

	if err != nil {
		return g, 0, "", err
	}

	if number, err = s.read(ctx, caller, id, domain.DocumentDAG, version, &g); err != nil {
		return g, 0, "", err
	}

	result, err := s.ValidateDAG(ctx, caller, id, g)
	if err == nil && !result.Valid {
		err = result.Failed(domain.DocumentDAG)
	}

	return g, number, solution.OwnerID, err
}

// versionOf returns the number of a version of a DAG that is asked for; 0: the published one.
func versionOf(solution production.Solution, asked int) (int, error) {
	switch {
	case asked != 0:
		return asked, nil
	case solution.DAG.PublishedVersion == nil:
		return 0, domain.Newf(domain.Conflict, "dag_not_published", "no version of the DAG is published: publish one, or name a version")
	default:
		return *solution.DAG.PublishedVersion, nil
	}
}

// ReadableDAG returns a version of a DAG that the caller can see; 0: the published one.
func (s *Service) ReadableDAG(ctx context.Context, caller domain.User, id string, version int) (g dag.Graph, number int, err error) {
	solution, err := s.ProdSolution(ctx, caller, id)
	if err == nil {
		version, err = versionOf(solution, version)
	}

	if err == nil {
		number, err = s.read(ctx, caller, id, domain.DocumentDAG, version, &g)
	}

	return g, number, err
}

// SkillID gives the id of a skill that a DAG names, by its id or its name.
func (s *Service) SkillID(ctx context.Context, ownerID, named string) (string, error) {
	for _, list := range []func(context.Context, domain.User) ([]skill.Skill, error){s.deps.Skills.Installed, s.deps.Skills.Catalog} {
		found, err := list(ctx, domain.User{ID: ownerID})
		if err != nil {
			return "", err
		}

		for _, skill := range found {
			if skill.ID == named || skill.Name == named {
				return skill.ID, nil
			}
		}
	}

	return "", domain.Newf(domain.Invalid, dag.CodeMissingSkill, "there is no skill %s", named)
}

// CompareDAG finds what differs between two versions of a DAG.
func (s *Service) CompareDAG(ctx context.Context, caller domain.User, id string, from, to int) (d dag.Difference, err error) {
	var a, b dag.Graph
	if _, err = s.read(ctx, caller, id, domain.DocumentDAG, from, &a); err != nil {
		return d, err
	}

	if _, err = s.read(ctx, caller, id, domain.DocumentDAG, to, &b); err != nil {
		return d, err
	}

	return dag.Compare(a, b)
}

// ValidateArchitecture validates an architecture for a solution without storing it.
func (s *Service) ValidateArchitecture(ctx context.Context, caller domain.User, id string, d architecture.Document) (
	domain.Validation, error,
) {
	if _, err := s.ProdSolution(ctx, caller, id); err != nil {
		return domain.Validation{}, err
	}

	return architecture.Validate(d), nil
}

// SaveArchitecture is SaveDAG for the architecture.
func (s *Service) SaveArchitecture(ctx context.Context, caller domain.User, id string, base int, d architecture.Document,
	message string,
) (made domain.DocumentVersion, found []domain.Finding, err error) {
	result := architecture.Validate(d)
	made, err = s.save(ctx, caller, id, domain.DocumentArchitecture, base, d, message)

	return made, append(result.Errors, result.Warnings...), err
}

// PublishArchitecture is PublishDAG for the architecture.
func (s *Service) PublishArchitecture(ctx context.Context, caller domain.User, id string, version int, given *architecture.Document,
	message string,
) (production.PublishedDocument, error) {
	if given != nil {
		return s.publishNew(ctx, caller, id, domain.DocumentArchitecture, version, *given, architecture.Validate(*given), message)
	}

	var d architecture.Document

	version, err := s.read(ctx, caller, id, domain.DocumentArchitecture, version, &d)
	if err != nil {
		return production.PublishedDocument{}, err
	}

	return s.publishStored(ctx, caller, id, domain.DocumentArchitecture, version, architecture.Validate(d), message)
}

// CompareArchitecture finds what differs between two versions of an architecture.
func (s *Service) CompareArchitecture(ctx context.Context, caller domain.User, id string, from, to int) (
	d architecture.Difference, err error,
) {
	var a, b architecture.Document
	if _, err = s.read(ctx, caller, id, domain.DocumentArchitecture, from, &a); err != nil {
		return d, err
	}

	if _, err = s.read(ctx, caller, id, domain.DocumentArchitecture, to, &b); err != nil {
		return d, err
	}

	return architecture.Compare(a, b)
}

// encoder is a document of either kind.
type encoder interface {
	Encode() ([]byte, error)
	Counts() (nodes, edges int)
}

func newDocument(doc encoder, userID, message string) (production.NewDocument, error) {
	content, err := doc.Encode()
	if err != nil {
		return production.NewDocument{}, err
	}

	nodes, edges := doc.Counts()

	return production.NewDocument{
		Content: content, Digest: document.Digest(content), Message: message, NodeCount: nodes, EdgeCount: edges, CreatedBy: userID,
	}, nil
}

func (s *Service) save(ctx context.Context, caller domain.User, id string, kind domain.DocumentKind, base int, doc encoder,
	message string,
) (domain.DocumentVersion, error) {
	in, err := newDocument(doc, caller.ID, message)
	if err != nil {
		return domain.DocumentVersion{}, err
	}

	return s.SaveDocument(ctx, caller, id, kind, base, in)
}

func (s *Service) publishNew(ctx context.Context, caller domain.User, id string, kind domain.DocumentKind, base int, doc encoder,
	result domain.Validation, message string,
) (production.PublishedDocument, error) {
	if _, err := s.ProdSolution(ctx, caller, id); err != nil {
		return production.PublishedDocument{}, err // first: it may be another user's
	}

	if !result.Valid {
		return production.PublishedDocument{}, result.Failed(kind)
	}

	in, err := newDocument(doc, caller.ID, message)
	if err != nil {
		return production.PublishedDocument{}, err
	}

	return s.PublishDocument(ctx, caller, id, kind, base, &in, message)
}

func (s *Service) publishStored(ctx context.Context, caller domain.User, id string, kind domain.DocumentKind, version int,
	result domain.Validation, message string,
) (production.PublishedDocument, error) {
	if !result.Valid {
		return production.PublishedDocument{}, result.Failed(kind)
	}

	return s.PublishDocument(ctx, caller, id, kind, version, nil, message)
}

// read reads the content of a version, 0: the newest, and returns its number.
func (s *Service) read(ctx context.Context, caller domain.User, id string, kind domain.DocumentKind, version int, into any) (
	int, error,
) {
	stored, err := s.Document(ctx, caller, id, kind, version)
	if err != nil {
		return 0, err
	}

	if err := json.Unmarshal(stored.Content, into); err != nil {
		return 0, fmt.Errorf("read version %d: %w", stored.Version, err)
	}

	return stored.Version, nil
}

// known finds out which of the names in a graph exist for the owner of the solution.
func (s *Service) known(ctx context.Context, caller domain.User, id string, g dag.Graph) (dag.Referable, error) {
	solution, err := s.ProdSolution(ctx, caller, id)
	if err != nil {
		return dag.Referable{}, err
	}

	owner := caller
	if solution.OwnerID != caller.ID {
		owner = domain.User{ID: solution.OwnerID}
	}

	known := dag.Referable{SolutionID: id, Agents: map[string]bool{}, Skills: map[string]bool{}, Solutions: map[string]bool{}}
	if named := g.Agents(); len(named) > 0 {
		found, err := s.deps.Agents.KnownAgents(ctx, owner.ID, named)
		if err != nil {
			return known, err
		}

		for _, agent := range found {
			known.Agents[agent] = true
		}
	}

	if g.CallsTools() {
		known.Tools = map[string]bool{}
		for _, tool := range s.deps.NodeTools(ctx, owner.ID) {
			known.Tools[tool] = true
		}
	}

	skills, solutions := g.Names()
	if len(solutions) > 0 {
		ids, err := s.KnownProdSolutions(ctx, owner, solutions)
		if err != nil {
			return known, err
		}

		for _, id := range ids {
			known.Solutions[id] = true
		}
	}

	if err := s.escalations(ctx, owner.ID, g, &known); err != nil || len(skills) == 0 {
		return known, err
	}

	for _, list := range []func(context.Context, domain.User) ([]skill.Skill, error){s.deps.Skills.Catalog, s.deps.Skills.Installed} {
		found, err := list(ctx, owner)
		if err != nil {
			return known, err
		}

		for _, skill := range found {
			known.Skills[skill.ID], known.Skills[skill.Name] = true, true
		}
	}

	return known, nil
}

// escalations finds out which of the webhooks and users that a graph names there are.
func (s *Service) escalations(ctx context.Context, ownerID string, g dag.Graph, known *dag.Referable) error {
	webhooks, users := g.Escalations()
	for _, named := range []struct {
		ids  []string
		find func(context.Context, string, []string) ([]string, error)
		into *map[string]bool
	}{
		{webhooks, s.KnownWebhooks, &known.Webhooks},
		{users, s.Colleagues, &known.Colleagues},
	} {
		if len(named.ids) == 0 {
			continue
		}

		found, err := named.find(ctx, ownerID, named.ids)
		if err != nil {
			return err
		}

		*named.into = map[string]bool{}
		for _, id := range found {
			(*named.into)[id] = true
		}
	}

	return nil
}
