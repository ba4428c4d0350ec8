package solutions_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"everloop/infra/solutions"
)

// Users may read the files of a solution; how its tool servers are reached is the
// operator's.
func TestCatalog_File_redactsToolServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "plain/solution.yaml", "name: Plain # as it is\nroles: [ {id:   a} ]\nmcp_servers: []\n")
	write(t, dir, "equipped/solution.yaml", `
name: Equipped # kept
mcp_servers:
  - name: tickets
    transport: http
    url: https://tickets.example/mcp?key=hidden-1
    headers: {Authorization: "Bearer hidden-2"} # hidden-3
    tools: [find]
    timeout_s: 9
  # hidden-4
  - name: local
    transport: stdio
    command: serve
    args: [--token, hidden-5]
    env: {TOKEN: hidden-6}
  - {name: web, preset: browser}
`)
	c, err := solutions.Load(dir)
	require.NoError(t, err)
	require.Empty(t, c.Faults())

	text, err := c.File("plain", "solution.yaml")
	require.NoError(t, err)
	require.Equal(t, "name: Plain # as it is\nroles: [ {id:   a} ]\nmcp_servers: []\n", string(text))

	text, err = c.File("equipped", "solution.yaml")
	require.NoError(t, err)
	require.NotContains(t, string(text), "hidden-")
	require.Contains(t, string(text), "# kept")

	var shown map[string]any
	require.NoError(t, yaml.Unmarshal(text, &shown))

	const masked = "********"
	require.Equal(t, []any{
		map[string]any{
			"name": "tickets", "transport": "http", "url": masked, "headers": map[string]any{"Authorization": masked},
			"tools": []any{"find"}, "timeout_s": 9,
		},
		map[string]any{
			"name": "local", "transport": "stdio", "command": masked, "args": []any{masked, masked}, "env": map[string]any{"TOKEN": masked},
		},
		map[string]any{"name": "web", "preset": "browser"},
	}, shown["mcp_servers"])

	// The servers themselves are not changed by it.
	equipped, err := c.Get("equipped")
	require.NoError(t, err)
	require.Equal(t, "Bearer hidden-2", equipped.MCPServers[0].Headers["Authorization"])
}
