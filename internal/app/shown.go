package app

import (
	"context"

	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/api/sessiondetail"
	"everloop/domain"
	"everloop/infra/mcp"
	"everloop/infra/toolbox"
	"everloop/service/production"
	"everloop/service/skills"
)

// shownTools are the tools of sessions as the worker offers them, to list them and to
// count their tokens. None of them runs in this role.
type shownTools struct {
	registry  *tools.Registry
	agents    *agents.Agents
	skills    *skills.Service
	documents *production.Service
}

func (b *backend) newShownTools() (shownTools, error) {
	registry, err := b.newTools(tools.Deps{Network: b.settings.SandboxNetwork})
	if err != nil {
		return shownTools{}, err
	}

	types, err := agents.NewAgents(tools.Deps{Workspaces: toolbox.Files{Store: b.workspace}})
	if err != nil {
		return shownTools{}, err
	}

	registry.Provide(types)
	b.provideMemory(registry)

	s, err := b.newSkills(registry, false)
	if err != nil {
		return shownTools{}, err
	}

	documents, err := b.provideAssistance(registry, s)
	if err != nil {
		return shownTools{}, err
	}

	registry.Provide(&mcp.KnownTools{Store: b.toolServers, Policies: b, Logger: b.logger})

	return shownTools{registry, types, s, documents}, nil
}

// toolNames lists the tools that a session's next chat is offered.
func (b *backend) toolNames(registry *tools.Registry) sessiondetail.SessionTools {
	return func(ctx context.Context, session domain.Session) []string {
		return registry.Names(ctx, tools.Scope{
			Session: session, Mode: domain.ModeExecuting, LoopID: domain.RootLoop, Profile: b.Profile(session),
		})
	}
}
