package mcp

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
)

// presets start the program "kit" for the preset of the browser.
type presets struct{ err error }

func (p presets) Command(preset string) ([]string, map[string]string, error) {
	return []string{"kit", preset}, map[string]string{"HOME": "/tmp"}, p.err
}

func presetTarget(scope toolserver.Scope) target {
	return target{
		session: domain.Session{ID: "s", OwnerID: "ann", Env: map[string]string{"TOKEN": "of-the-session"}},
		server: toolserver.Record{
			MCPServer: domain.MCPServer{Name: "web", Preset: toolserver.BrowserPreset, Transport: toolserver.Stdio}, Scope: scope,
		},
	}
}

// Whatever its scope is, a server of a preset runs in the session's workspace, and
// without the session's variables.
func TestManager_program_ofAPreset(t *testing.T) {
	t.Parallel()

	m := &Manager{Config: Config{Presets: presets{}, Roots: &fakeStore{}}}

	for _, scope := range []toolserver.Scope{toolserver.OfSession, toolserver.OfSolution, toolserver.OfService} {
		p, err := m.program(t.Context(), presetTarget(scope))
		require.NoError(t, err)
		require.Equal(t, []string{"kit", "browser"}, p.Argv)
		require.Equal(t, map[string]string{"HOME": "/tmp"}, p.Env)
		require.NotNil(t, p.Session)
		require.Equal(t, "/nowhere", p.Session.Root)
		require.EqualValues(t, "s", p.SessionID)
	}

	m.Presets = presets{errors.New("not installed")}
	_, err := m.program(t.Context(), presetTarget(toolserver.OfSession))
	require.EqualError(t, err, "not installed")

	m.Presets = nil
	_, err = m.program(t.Context(), presetTarget(toolserver.OfSession))
	require.ErrorContains(t, err, "no presets")
}

func TestOfferOf_withholdsOfAPreset(t *testing.T) {
	t.Parallel()

	catalog := []toolserver.Tool{
		{Name: "browser_click", Schema: []byte(`{"type":"object"}`)},
		{Name: "browser_run_code_unsafe", Schema: []byte(`{"type":"object"}`)},
	}
	names := func(server toolserver.Record) (list []string) {
		for _, tool := range offerOf(server, catalog, func(string, bool) runner { return nil }) {
			list = append(list, tool.Name)
		}

		return list
	}
	server := presetTarget(toolserver.OfSession).server
	require.Equal(t, []string{"mcp__web__browser_click"}, names(server))

	server.Tools = []string{"browser_run_code_unsafe"}
	require.Equal(t, []string{"mcp__web__browser_run_code_unsafe"}, names(server))

	server.Tools, server.Preset = nil, ""
	require.Len(t, names(server), 2)
}

func TestFingerprints_ofAPreset(t *testing.T) {
	t.Parallel()

	one, other := presetTarget(toolserver.OfSession), presetTarget(toolserver.OfSession)
	other.session.Env = map[string]string{"TOKEN": "another"}
	require.Equal(t, fingerprint(one.session, one.server), fingerprint(other.session, other.server), "it has none of the variables")

	other.server.Preset = ""
	require.NotEqual(t, configHash(one.server), configHash(other.server))
	require.NotEqual(t, fingerprint(one.session, one.server), fingerprint(one.session, other.server))
}
