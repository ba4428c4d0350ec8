package solutions_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/solutions"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestOperatorsComeBesideAndInPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "general/solution.yaml", "name: Ours\nroles:\n  - id: clerk\n")
	write(t, dir, "general/prompt.md", "Be brief.\n")
	write(t, dir, "general/roles/clerk.md", "You file papers.")
	write(t, dir, "extra/solution.yaml", `
name: Extra
max_steps: 7
budget: {max_tokens: 1000}
disable_tools: [Bash]
agents: [{name: scout, description: Looks around, tools: [Read]}]
permissions: [{tool: Write, decision: deny}]
mcp_servers: [{name: files, transport: stdio, command: files-server}]
`)
	require.NoError(t, os.Symlink("/etc", filepath.Join(dir, "extra", "etc")))
	c, err := solutions.Load(dir)
	require.NoError(t, err)
	ours, err := c.Get("general")
	require.NoError(t, err)
	require.Equal(t, "Ours", ours.Name)
	require.Len(t, c.All(), 4)

	general, clerk, extra := "general", "clerk", "extra"
	profile := c.Profile(domain.Profile{MaxSteps: 200}, domain.Session{SolutionID: &general, BizRoleID: &clerk})
	require.Equal(t, "Be brief.\n\nYou file papers.", profile.Instructions)
	tokens := int64(5)
	profile = c.Profile(domain.Profile{MaxSteps: 200}, domain.Session{SolutionID: &extra, Setup: domain.SessionSetup{
		Budget: &domain.Budget{MaxTokens: &tokens}, Permissions: []domain.PermissionRule{{Tool: "Write", Decision: domain.PermissionAllow}},
	}})
	require.Equal(t, 7, profile.MaxSteps)
	require.Equal(t, tokens, *profile.Budget.MaxTokens, "the session's word is the last")
	require.Equal(t, domain.PermissionAllow, profile.Permissions[0].Decision)
	require.Equal(t, []string{"Bash"}, profile.DisableTools)
	require.Equal(t, "scout", profile.Agents[0].Name)
	require.True(t, profile.MCPServers[0].Enabled)

	for _, path := range []string{"etc/hostname", "../general/solution.yaml", "/etc/hostname", "", ".", "none"} {
		_, err := c.File("extra", path)
		require.True(t, domain.HasCode(err, domain.CodeFileNotFound), path)
	}
	_, err = c.File("none", "x")
	require.True(t, domain.HasCode(err, "solution_not_found"))
}

func TestFaultySolutionsAreNamed(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                              "name is missing",
		"nme: x":                        "field nme not found",
		"name: [x]":                     "solution.yaml",
		"name: x\nroles: [{id: 'a b'}]": "role id",
		"name: x\nagents: [{name: a}]":  "needs an identifier",
		"name: x\npermissions: [{tool: a, decision: maybe}]":   "allow, ask or deny",
		"name: x\nmcp_servers: [{name: a, transport: pigeon}]": "transport",
	} {
		dir := t.TempDir()
		write(t, dir, "mine/solution.yaml", text)
		_, err := solutions.Load(dir)
		require.ErrorContains(t, err, "mine")
		require.ErrorContains(t, err, says)
	}
	_, err := solutions.Load(filepath.Join(t.TempDir(), "missing"))
	require.NoError(t, err)
}
