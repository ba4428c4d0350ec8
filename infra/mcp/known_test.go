package mcp

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// names returns the names of tools.
func names(list []tools.Tool) []string {
	var out []string
	for _, tool := range list {
		out = append(out, tool.Name)
	}

	return out
}

func TestKnown_withoutConnecting(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.stdio("every", serving(everything()))
	known := &KnownTools{Store: w.store, Logger: slog.New(slog.DiscardHandler)}
	scope := tools.Scope{Session: session, Mode: domain.ModeExecuting}
	require.Empty(t, known.Tools(t.Context(), scope), "the server was not asked yet")

	started, _ := w.launcher.running()
	require.Zero(t, started)

	w.tool("mcp__every__echo")
	require.Eventually(t, func() bool { return len(known.Tools(t.Context(), scope)) == 6 }, soon, tick)

	offered := w.offered()
	for _, tool := range known.Tools(t.Context(), scope) {
		require.Equal(t, offered[tool.Name].Spec, tool.Spec)
		require.Equal(t, offered[tool.Name].Acts, tool.Acts)
		require.Nil(t, tool.Run)
	}

	w.manager.ForgetSession(session.ID) // at rest it is known all the same
	require.Len(t, known.Tools(t.Context(), scope), 6)

	change := func(f func(*toolserver.Record)) {
		w.store.mu.Lock()
		defer w.store.mu.Unlock()

		f(&w.store.servers[0])
	}
	change(func(s *toolserver.Record) { s.Enabled = false })
	require.Empty(t, known.Tools(t.Context(), scope))
	change(func(s *toolserver.Record) { s.Enabled, s.Command = true, "another" })
	require.Empty(t, known.Tools(t.Context(), scope), "of another program nothing is known")
	change(func(s *toolserver.Record) { s.Command = "every" })
	require.Len(t, known.Tools(t.Context(), scope), 6)

	state := w.store.state("every")
	state.Status = toolserver.Failed
	require.NoError(t, w.store.SaveMCPConnection(t.Context(), state))
	require.Empty(t, known.Tools(t.Context(), scope))
}

// A server of the profile that says which tools are offered.
func TestKnown_configuredServers(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.launcher.programs["other"] = serving(everything())
	scope := tools.Scope{Session: session, Profile: domain.Profile{MCPServers: []domain.MCPServer{
		{Name: "every", Transport: toolserver.Stdio, Command: "other", Tools: []string{"echo"}, Enabled: true},
	}}}

	require.Eventually(t, func() bool { return len(w.manager.Tools(t.Context(), scope)) > 0 }, soon, tick)
	require.Equal(t, []string{"mcp__every__echo"}, names(w.manager.Tools(t.Context(), scope)))
	known := &KnownTools{Store: w.store, Logger: slog.New(slog.DiscardHandler)}
	require.Equal(t, []string{"mcp__every__echo"}, names(known.Tools(t.Context(), scope)))
}
