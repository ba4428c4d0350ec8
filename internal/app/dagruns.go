package app

import (
	"everloop/activities/background"
	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/service/dagruns"
	"everloop/service/production"
	"everloop/service/skills"
)

// provideAssistance offers the tools that edit documents of production solutions.
func (b *backend) provideAssistance(registry *tools.Registry, skilled *skills.Service) error {
	documents, err := production.New(b.DB, skilled)
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
	agents, err := b.newAgents()
	if err != nil {
		return nil, err
	}

	return dagruns.New(dagruns.Config{
		Records: b.store, Runs: b.Runs, Chats: chats, Graphs: graphs, Agents: agents, Events: b.Log, Logger: b.logger,
		CodeTimeout: b.settings.BashMost,
	})
}

// dagRunWork is what a worker does for runs of DAGs.
func (b *backend) dagRunWork() (*background.DAGRuns, error) {
	past, err := b.newHistory(nil)
	if err != nil {
		return nil, err
	}

	chats, err := b.newChats(past)
	if err != nil {
		return nil, err
	}

	shown, err := b.newShownTools()
	if err != nil {
		return nil, err
	}

	graphs, err := production.New(b.DB, shown.skills)
	if err != nil {
		return nil, err
	}

	runs, err := b.newDAGRuns(chats, graphs)
	if err != nil {
		return nil, err
	}

	return &background.DAGRuns{Runs: runs}, nil
}
