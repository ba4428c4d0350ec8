package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/domain"
	"everloop/infra/mcp"
	"everloop/infra/postgres"
	"everloop/infra/solutions"
	"everloop/internal/app/engine"
	prodagents "everloop/service/agents"
)

// Tool nodes have the tools of a session that executes, has no memories and edits no
// documents; which tools of servers there are is not asked.
func TestNodeTools_areThoseOfAPlainSession(t *testing.T) {
	b := &backend{
		settings: *configured(t, map[string]string{"MEMORY_ENABLED": "true", "SEARCH_URL": "http://search.example"}),
		Clients:  &engine.Clients{},
	}
	b.DB, b.agents = &postgres.DB{}, &prodagents.Service{Store: prodagents.NewStore(nil)} // of tools that the test only lists

	var err error

	b.solutions, err = solutions.Load("")
	require.NoError(t, err)
	registry, err := b.newTools(tools.Deps{Network: domain.NetworkRules})
	require.NoError(t, err)
	types, err := agents.NewAgents(tools.Deps{})
	require.NoError(t, err)
	registry.Provide(types)
	b.provideMemory(registry)
	_, err = b.provideAssistance(registry, nil)
	require.NoError(t, err)
	registry.Provide(&mcp.KnownTools{})

	require.ElementsMatch(t, []string{
		"Bash", "Read", "Write", "Edit", "Glob", "Grep", "AskUserQuestion", "TaskCreate", "Agent", "RequestAccess", "WebFetch", "WebSearch",
		"Calculator",
	}, nodeTools{registry: registry, profile: b.Profile}.NodeTools(t.Context(), "ann"))
}
