package agents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/toolstest"
	"everloop/domain"
)

func TestAgentFiles(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		content string
		want    domain.AgentType
		problem string
	}{
		"whole": {
			content: "---\nname: critic\ndescription: finds faults\ntools: [Read, Grep]\nmodel: small\n---\nYou are never pleased.\n",
			want: domain.AgentType{
				Name: "critic", Description: "finds faults", Prompt: "You are never pleased.", Tools: []string{"Read", "Grep"},
				Model: "small",
			},
		},
		"names between commas, windows lines": {
			content: "---\r\nname: a\r\ndescription: b\r\ntools: Read, Glob\r\n---\r\nGo.\r\n",
			want:    domain.AgentType{Name: "a", Description: "b", Prompt: "Go.", Tools: []string{"Read", "Glob"}},
		},
		"no tools at all": {
			content: "---\nname: a\ndescription: b\ntools: []\n---", want: domain.AgentType{Name: "a", Description: "b", Tools: []string{}},
		},
		"unknown fields": {
			content: "---\nname: a\ndescription: b\ncolor: red\n---\nx", want: domain.AgentType{Name: "a", Description: "b", Prompt: "x"},
		},
		"no front matter":        {content: "You are a critic.", problem: "must begin with front matter"},
		"front matter not ended": {content: "---\nname: a\n", problem: "must begin with front matter"},
		"empty":                  {content: "", problem: "must begin with front matter"},
		"not YAML":               {content: "---\nname: [a\n---\n", problem: "not valid YAML"},
		"name is a list":         {content: "---\nname: [a]\ndescription: b\n---\n", problem: "not valid YAML"},
		"no name":                {content: "---\ndescription: b\n---\n", problem: "name must be"},
		"name with a path":       {content: "---\nname: ../a\ndescription: b\n---\n", problem: "name must be"},
		"no description":         {content: "---\nname: a\n---\n", problem: "description is missing"},
		"tools a map":            {content: "---\nname: a\ndescription: b\ntools: {a: b}\n---\n", problem: "tools must be"},
		"not text":               {content: "---\nname: a\xff\n---\n", problem: "not UTF-8"},
		"a long head":            {content: "---\nname: a\n#" + strings.Repeat("x", maxAgentHead) + "\n---\n", problem: "larger than"},
		"many tools": {
			content: "---\nname: a\ndescription: b\ntools: " + strings.Repeat("a,", maxAgentTools) + "a\n---\n", problem: "more than",
		},
		"aliases that unfold": {
			content: "---\nname: &a a\ndescription: b\ntools: [*a, [*a, *a]]\n---\n", problem: "tools must be",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := parseAgentFile([]byte(tc.content))
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				return
			}

			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func FuzzAgentFile(f *testing.F) {
	f.Add([]byte("---\nname: critic\ndescription: finds faults\ntools: [Read]\n---\nbody"))
	f.Add([]byte("---\nname: &a a\ntools: *a\n---\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		agent, err := parseAgentFile(content)
		if err == nil && !agentName.MatchString(agent.Name) {
			t.Errorf("took the name %q", agent.Name)
		}
	})
}

// found opens a session's workspace by its id alone, as the service does.
type found struct {
	tools.Workspaces
	session tools.SessionView
}

func (f found) Open(ctx context.Context, s tools.SessionView) (tools.Files, error) {
	if s.ID != f.session.ID {
		return nil, fmt.Errorf("session %q", s.ID)
	}

	return f.Workspaces.Open(ctx, f.session)
}

func TestAgentTypes_ofSession(t *testing.T) {
	t.Parallel()
	b := toolstest.NewBench(t, nil, newTools)
	dir := filepath.Join(b.Session.Root, AgentDir)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "deeper"), 0o755))

	put := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	put("critic.md", "---\nname: critic\ndescription: finds faults\n---\nNo.")
	put("thief.md", "---\nname: poet\ndescription: not the real one\n---\n")
	put("explorer.md", "---\nname: explorer\ndescription: writes after all\n---\n")
	put("large.md", strings.Repeat("x", maxAgentFile+1))
	put("notes.txt", "not a type")
	put("deeper/lost.md", "---\nname: lost\ndescription: too deep\n---\n")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link.md")))

	agents, err := NewAgents(tools.Deps{Workspaces: found{toolstest.Directory{}, b.Session}})
	require.NoError(t, err)

	scope := tools.Scope{Mode: domain.ModeExecuting, Session: domain.Session{ID: b.Session.ID, SandboxUID: b.Session.SandboxUID}}
	scope.Profile.Agents = []domain.AgentType{{Name: "poet", Description: "writes verses"}, {Name: GeneralPurpose, Description: "ours"}}
	types, problems := agents.Types(t.Context(), scope)

	var names []string
	for _, agent := range types {
		names = append(names, agent.Name)
	}

	require.Equal(t, []string{GeneralPurpose, "explorer", "poet", "critic"}, names)
	require.Equal(t, "ours", types[0].Description, "a profile may replace a built-in type")
	require.NotNil(t, types[1].Tools, "a workspace may not")

	for _, words := range []string{"large.md: it is larger than", "link.md: it cannot be read", `"poet" is taken`, `"explorer" is taken`} {
		require.Contains(t, strings.Join(problems, "\n"), words)
	}

	_, refused := agents.Type(t.Context(), scope, "dancer")
	require.Contains(t, refused.Output, "general-purpose, explorer, poet, critic")
	offered := agents.Tools(t.Context(), scope)
	require.Contains(t, offered[0].Spec.Description, "- critic: finds faults")

	scope.Mode = domain.ModePlanning
	require.Empty(t, agents.Tools(t.Context(), scope))
	scope.Mode, scope.Only = domain.ModeExecuting, []string{"Read"}
	require.Empty(t, agents.Tools(t.Context(), scope))
}

func TestAgentFiles_tooMany(t *testing.T) {
	t.Parallel()
	b := toolstest.NewBench(t, nil, newTools)
	dir := filepath.Join(b.Session.Root, AgentDir)
	require.NoError(t, os.MkdirAll(dir, 0o755))

	for i := range maxAgentFiles + 5 {
		content := fmt.Sprintf("---\nname: a%d\ndescription: b\n---\n", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("a%03d.md", i)), []byte(content), 0o644))
	}

	found := readAgentFiles(t.Context(), toolstest.Directory{}, b.Session)
	require.Len(t, found.types, maxAgentFiles)
	require.Contains(t, found.problems[0], "more than 50 files")
}

func TestAgent_startsInBackgroundOnly(t *testing.T) {
	t.Parallel()

	shells := &toolstest.Started{}
	tool := NewAgent(tools.Deps{Background: shells})
	run := func(arguments string) tools.Result {
		out, err := tool.Run(context.Background(), &tools.Call{ID: "call_1", Arguments: []byte(arguments)})
		require.NoError(t, err)

		return out
	}
	require.True(t, run(`{"description": "d", "prompt": "p"}`).IsError)
	require.Contains(t, run(`{"description": "d", "prompt": "p", "run_in_background": true}`).Output, "task-2")
	require.Equal(t, "call_1", shells.Agents[0].ToolCallID)
}

// newTools has only the tool Agent.
func newTools(d tools.Deps) (*tools.Registry, error) {
	r := tools.NewRegistry(d.Workspaces, tools.MaxResult)
	return r, r.Add(NewAgent(d))
}
