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

// nodeTools lists the tools of the sessions that tool nodes of DAGs run in.
type nodeTools struct {
	registry *tools.Registry
	profile  func(domain.Session) domain.Profile
}

// NodeTools lists the tools. The session is like those of tool nodes: it has no
// solution and no memories. It is not in the database, so that no tool server is connected.
func (n nodeTools) NodeTools(ctx context.Context, userID string) []string {
	session := domain.Session{OwnerID: userID, NoToolServers: true}

	return n.registry.Names(ctx, tools.Scope{
		Session: session, Mode: domain.ModeExecuting, LoopID: domain.RootLoop, Profile: n.profile(session),
	})
}

// provideAssistance offers the tools that edit documents of production solutions, and returns
// the service that changes these documents.
func (b *backend) provideAssistance(registry *tools.Registry, skilled *skills.Service) (*production.Service, error) {
	documents := production.New(production.Deps{
		DB: b.DB.DB, Agents: b.agents.Store, Skills: skilled, NodeTools: nodeTools{registry, b.Profile}.NodeTools,
	})

	provider, err := builtin.NewAssistance(documents, b.logger)
	if err == nil {
		registry.Provide(provider)
	}

	return documents, err
}

// newDAGRuns returns the service that runs DAGs.
func (b *backend) newDAGRuns(documents *production.Service) (*dagruns.Service, error) {
	return dagruns.New(dagruns.Deps{
		DB: b.DB.DB, Sessions: b.store, Files: b.carrier, Runs: b.Runs, Chats: b.chats, Production: documents, Agents: b.agents,
		Events: b.Log, Logger: b.logger, CodeTimeout: maxBash,
	})
}
