package main

import (
	"context"

	"everloop/activities/tools"
	"everloop/api"
	"everloop/domain"
	"everloop/infra/mcp"
	"everloop/infra/skills"
	"everloop/infra/toolbox"
)

// shownTools gives the tools of sessions as the worker offers them, for showing
// and weighing them: nothing of it is run in this role.
func (b *backend) shownTools() (*tools.Registry, *skills.Skills, error) {
	registry, err := b.newTools(tools.Deps{})
	if err != nil {
		return nil, nil, err
	}
	agents, err := tools.NewAgents(tools.Deps{Workspaces: toolbox.Files{Store: b.workspace}})
	if err != nil {
		return nil, nil, err
	}
	registry.Provide(agents)
	registry.Provide(tools.NewMemoryTool(b.db))
	s, err := b.newSkills(registry, false)
	if err != nil {
		return nil, nil, err
	}
	registry.Provide(&mcp.Known{Records: b.toolServers(), Logger: b.logger})
	return registry, s, nil
}

// toolNames tells what a session's next chat is offered.
func (b *backend) toolNames(registry *tools.Registry) api.SessionTools {
	return func(ctx context.Context, session domain.Session) []string {
		return registry.Names(ctx, tools.Scope{
			Session: session, Mode: domain.ModeExecuting, LoopID: domain.RootLoop, Profile: b.Profile(session),
		})
	}
}
