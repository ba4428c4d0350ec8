package solutions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/permission"
	"everloop/domain/toolserver"
	"everloop/infra/solutions"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()

	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestLoad_operatorSolutionsAddAndReplace(t *testing.T) {
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
mcp_servers: [{name: files, transport: stdio, command: files-server}, {name: web, preset: browser}]
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
	editor := "skill_editor"
	require.Equal(t, []string{"skill-authoring"}, c.Profile(domain.Profile{}, domain.Session{SolutionID: &editor}).Skills)
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
	require.Equal(
		t,
		domain.MCPServer{Name: "web", Preset: toolserver.BrowserPreset, Transport: toolserver.Stdio, Enabled: true},
		profile.MCPServers[1],
	)

	for _, path := range []string{"etc/hostname", "../general/solution.yaml", "/etc/hostname", "", ".", "none"} {
		_, err := c.File("extra", path)
		require.True(t, domain.HasCode(err, domain.CodeFileNotFound), path)
	}

	_, err = c.File("none", "x")
	require.True(t, domain.HasCode(err, "solution_not_found"))
}

func TestLoad_reportsFaults(t *testing.T) {
	t.Parallel()

	for text, says := range map[string]string{
		"":                              "name is missing",
		"nme: x":                        "field nme not found",
		"name: [x]":                     "solution.yaml",
		"\x00":                          "solution.yaml",
		"name: x\nroles: [{id: 'a b'}]": "role id",
		"name: x\nagents: [{name: a}]":  "needs an identifier",
		"name: x\npermissions: [{tool: a, decision: maybe}]":                               "allow, ask or deny",
		"name: x\npermissions: [{decision: deny}]":                                         "permissions[0].tool is missing",
		"name: x\nmcp_servers: [{name: a, transport: pigeon}]":                             "transport",
		"name: x\nmcp_servers: [{name: a, transport: stdio}]":                              "needs a command",
		"name: x\nmcp_servers: [{name: a, transport: http, command: c}]":                   "needs a command for stdio, or a url",
		"name: x\nmcp_servers: [{name: a, preset: teapot}]":                                "preset must be browser",
		"name: x\nmcp_servers: [{name: a, preset: browser, args: [-x]}]":                   "args are known from the preset",
		"name: x\ndata: {a: .nan}":                                                         "data holds what JSON cannot",
		"name: x\ndata: {a: [{1: one}]}":                                                   "data holds what JSON cannot",
		"name: x\nmax_steps: 0":                                                            "max_steps must be from 1 to 10000, not 0",
		"name: x\nmax_steps: 10001":                                                        "max_steps must be",
		"name: x\nmax_steps: many":                                                         "line 2",
		"name: x\nmax_steps: 99999999999999999999":                                         "line 2",
		"name: x\nstuck_after: 2":                                                          "stuck_after must be from 3 to 1000",
		"name: x\nstuck_after: -1":                                                         "stuck_after must be",
		"name: x\nbudget: {max_tokens: 0}":                                                 "budget.max_tokens must be",
		"name: x\nbudget: {max_cost: -0.5}":                                                "budget.max_cost must be",
		"name: x\nbudget: {max_cost: .nan}":                                                "budget.max_cost must be",
		"name: x\nbudget: {max_cost: .inf}":                                                "budget.max_cost must be",
		"name: x\ncompaction: {threshold_pct: 96}":                                         "threshold_pct must be from 10 to 95",
		"name: x\ncompaction: {keep_last: -1}":                                             "compaction.keep_last must be",
		"name: x\nmcp_servers: [{name: a, transport: http, timeout_s: 3601}]":              "timeout_s must be from 1 to 3600",
		"name: x\npermissions: [" + strings.Repeat("{tool: a, decision: ask},", 201) + "]": "permissions has 201 entries",
	} {
		dir := t.TempDir()
		write(t, dir, "mine/solution.yaml", text)
		write(t, dir, "fine/solution.yaml", "name: Fine")
		c, err := solutions.Load(dir)
		require.NoError(t, err)
		require.Len(t, c.Faults(), 1, text)
		require.ErrorContains(t, c.Faults()[0], filepath.Join(dir, "mine")+": solution.yaml: ")
		require.ErrorContains(t, c.Faults()[0], says)
		require.NotContains(t, c.Faults()[0].Error(), "\n")
		_, err = c.Get("mine")
		require.True(t, domain.HasCode(err, "solution_not_found"), text)
		require.Len(t, c.All(), 4, "the others are there")
	}

	c, err := solutions.Load(filepath.Join(t.TempDir(), "missing"))
	require.NoError(t, err)
	require.Empty(t, c.Faults())
}

func TestLoad_faultKeepsBuiltIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "general/solution.yaml", "name: Ours\nmax_steps: -1")
	write(t, dir, "not an id/solution.yaml", "name: x")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "unread", "solution.yaml"), 0o755))
	write(t, dir, "README.md", "not a solution")
	c, err := solutions.Load(dir)
	require.NoError(t, err)
	general, err := c.Get("general")
	require.NoError(t, err)
	require.Equal(t, "General agent", general.Name)
	require.Len(t, c.Faults(), 4)

	for i, says := range []string{"empty", "general", "not an id", "unread"} {
		require.ErrorContains(t, c.Faults()[i], says)
	}
}

func TestCatalog_Profile_faultySolutionAsks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "strict/solution.yaml", "name: Strict\npermissions: [{tool: Bash, decision: refuse}]")
	write(t, dir, "general/solution.yaml", "nonsense")
	c, err := solutions.Load(dir)
	require.NoError(t, err)

	decide := func(solution string) domain.PermissionDecision {
		profile := c.Profile(domain.Profile{}, domain.Session{SolutionID: &solution})
		return permission.Decide(profile.Permissions, permission.Call{Tool: "Bash", Arguments: []byte(`{"command":"ls"}`)})
	}
	require.Equal(t, domain.PermissionAsk, decide("strict"), "what it denies is not known")
	require.Equal(t, domain.PermissionAllow, decide("general"), "the built-in one is there")
	require.Equal(t, domain.PermissionAllow, decide("gone"))
}

func TestLoad_compactionDefaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "mine/solution.yaml", "name: x\ncompaction: {threshold_pct: 60}")
	write(t, dir, "off/solution.yaml", "name: x\ncompaction: {auto: false, keep_last: 0}")
	c, err := solutions.Load(dir)
	require.NoError(t, err)
	mine, err := c.Get("mine")
	require.NoError(t, err)
	require.Equal(t, domain.CompactionPolicy{Auto: true, ThresholdPct: 60, KeepLast: 6}, *mine.Compaction)

	off, err := c.Get("off")
	require.NoError(t, err)
	require.Equal(t, domain.CompactionPolicy{Auto: false, ThresholdPct: 80, KeepLast: 0}, *off.Compaction)
}
