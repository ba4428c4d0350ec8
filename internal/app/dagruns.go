package app

import (
	"context"

	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/domain"
	"everloop/service/dagruns"
	"everloop/service/production"
	"everloop/service/skills"
)

// newProduction builds the service that changes the documents of production solutions.
func (b *backend) newProduction(registry *tools.Registry, skilled *skills.Service) (*production.Service, error) {
	return production.New(b.DB, b.agents.Store, skilled, nodeTools{registry: registry, profile: b.Profile})
}

// nodeTools lists the tools of the sessions that tool nodes of DAGs run in.
type nodeTools struct {
	registry *tools.Registry
	profile  func(domain.Session) domain.Profile
}

// NodeTools implements production.Tools. The session is like those of tool nodes: it has no
// solution and no memories. It is not in the database, so that no tool server is connected.
func (n nodeTools) NodeTools(ctx context.Context, userID string) []string {
	session := domain.Session{OwnerID: userID, NoToolServers: true}

	return n.registry.Names(ctx, tools.Scope{
		Session: session, Mode: domain.ModeExecuting, LoopID: domain.RootLoop, Profile: n.profile(session),
	})
}

// provideAssistance offers the tools that edit documents of production solutions.
func (b *backend) provideAssistance(registry *tools.Registry, skilled *skills.Service) error {
	documents, err := b.newProduction(registry, skilled)
	if err != nil {
		return err
	}

	provider, err := builtin.NewAssistance(documents, b.logger)
	if err == nil {
		registry.Provide(provider)
	}

	return err
}

// newDAGRuns builds the service that runs DAGs.
func (b *backend) newDAGRuns(chats dagruns.Chats, graphs *production.Service) (*dagruns.Service, error) {
	return dagruns.New(dagruns.Deps{
		DB: b.DB.DB, Sessions: b.store, Runs: b.Runs, Chats: chats, Graphs: graphs, Agents: b.agents, Events: b.Log,
		DeleteSolution: b.DB.DeleteProdSolution, Logger: b.logger, CodeTimeout: maxBash,
	})
}

// dagRunWork builds the service whose steps a worker takes.
func (b *backend) dagRunWork() (*dagruns.Service, error) {
	shown, err := b.newShownTools()
	if err != nil {
		return nil, err
	}

	graphs, err := b.newProduction(shown.registry, shown.skills)
	if err != nil {
		return nil, err
	}

	return b.newDAGRuns(b.chats, graphs)
}
