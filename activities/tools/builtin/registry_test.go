package builtin

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/activities/tools/questions"
	"everloop/activities/tools/toolstest"
	"everloop/domain"
	"everloop/domain/skill"
)

func offered(b *toolstest.Bench, mode domain.Mode, headless bool, disabled ...string) []string {
	return namesOf(b.Set(mode, headless, disabled...))
}

func namesOf(set *tools.Toolset) []string {
	names := []string{}
	for _, spec := range set.Offered() {
		names = append(names, spec.Name)
	}

	return names
}

// allTools returns the tools of both modes.
func allTools(b *toolstest.Bench) []tools.Tool {
	var all []tools.Tool

	for _, mode := range []domain.Mode{domain.ModeExecuting, domain.ModePlanning} {
		set := b.Set(mode, false)
		for _, spec := range set.Offered() {
			if tool, _ := set.Lookup(spec.Name); mode == domain.ModeExecuting || !tool.Executing {
				all = append(all, tool)
			}
		}
	}

	return all
}

func TestOffered(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)

	all := offered(b, domain.ModeExecuting, false)
	without := offered(b, domain.ModeExecuting, false, "Bash")
	require.Equal(t, slices.DeleteFunc(all, func(name string) bool { return name == "Bash" }), without)

	for _, tool := range allTools(b) {
		require.NotEmpty(t, tool.Spec.Description)
		require.True(t, json.Valid(tool.Spec.Parameters), tool.Name)
	}
}

// documentedTool is a row of the first table of docs/tools.md.
var documentedTool = regexp.MustCompile(`(?m)^\| \[([\w, ]+)\]\(.*\) \| (yes|no) \| (yes|no) \| (yes|no) \| (yes|no|denied) \|$`)

// offering says when a tool is offered, and whether its calls act.
type offering struct{ acts, executing, planning, headless bool }

func documentedTools(t *testing.T) map[string]offering {
	t.Helper()

	page, err := os.ReadFile("../../../docs/tools.md")
	require.NoError(t, err)

	documented := map[string]offering{}

	for _, row := range documentedTool.FindAllStringSubmatch(string(page), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			documented[name] = offering{
				acts: row[2] == "yes", executing: row[3] == "yes", planning: row[4] == "yes", headless: row[5] != "no",
			}
		}
	}

	return documented
}

// TestRegistry_matchesDocumentedTools compares the table of docs/tools.md with the registry:
// when a tool is offered, and whether its calls act. Those that do not are run again.
func TestRegistry_matchesDocumentedTools(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	documented := documentedTools(t)
	all := allTools(b)
	require.GreaterOrEqual(t, len(all), 10)

	for _, tool := range all {
		in := func(mode domain.Mode, headless bool) bool {
			return slices.Contains(offered(b, mode, headless), tool.Name)
		}

		require.Contains(t, documented, tool.Name, "docs/tools.md has no row of it")
		require.Equal(t, documented[tool.Name], offering{
			acts: tool.Acts, executing: in(domain.ModeExecuting, false), planning: in(domain.ModePlanning, false),
			headless: in(domain.ModeExecuting, true) || in(domain.ModePlanning, true),
		}, tool.Name)
	}
}

func TestAdmit(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		mode      domain.Mode
		headless  bool
		tool      string
		arguments string
		says      string // empty: admitted
	}{
		"fits":                {domain.ModeExecuting, false, "Bash", `{"command":"ls"}`, ""},
		"unknown tool":        {domain.ModeExecuting, false, "Telnet", `{}`, `There is no tool named "Telnet". The tools are: Bash, Read,`},
		"disabled":            {domain.ModeExecuting, false, "Glob", `{"pattern":"*"}`, "disabled for this session"},
		"acting in planning":  {domain.ModePlanning, false, "Bash", `{"command":"ls"}`, "while a plan is made"},
		"looking in planning": {domain.ModePlanning, false, "Read", `{"file_path":"a"}`, ""},
		"plan in executing":   {domain.ModeExecuting, false, "SubmitPlan", `{}`, "belongs to planning mode"},
		"asking, headless":    {domain.ModeExecuting, true, "AskUserQuestion", `{"questions":[{"question":"?"}]}`, "headless"},
		"not JSON":            {domain.ModeExecuting, false, "Bash", `{"command": "ls`, "not valid JSON (at byte 15"},
		"two documents":       {domain.ModeExecuting, false, "Bash", `{"command":"ls"}{}`, "not valid JSON"},
		"not an object":       {domain.ModeExecuting, false, "Bash", `["ls"]`, "must be of type object, not array"},
		"nothing at all":      {domain.ModeExecuting, false, "Bash", "  ", "missing command"},
		"missing":             {domain.ModeExecuting, false, "Edit", `{"file_path":"a"}`, "missing old_string, new_string"},
		"wrong type":          {domain.ModeExecuting, false, "Bash", `{"command":["ls"]}`, "command: must be of type string, not array"},
		"beyond the limit":    {domain.ModeExecuting, false, "Bash", `{"command":"ls","timeout":600001}`, "must be at most 600000"},
		"limit":               {domain.ModeExecuting, false, "Bash", `{"command":"ls","timeout":600000}`, ""},
		"float":               {domain.ModeExecuting, false, "Bash", `{"command":"ls","timeout":1.5e3}`, ""},
		"fraction":            {domain.ModeExecuting, false, "Bash", `{"command":"ls","timeout":0.5}`, "timeout"},
		"unknown argument":    {domain.ModeExecuting, false, "Read", `{"file_path":"a","pages":"1"}`, `unknown argument "pages"`},
		"NUL in a command":    {domain.ModeExecuting, false, "Bash", `{"command":"ls \u0000"}`, "NUL"},
		"too deep":            {domain.ModeExecuting, false, "Bash", `{"command":` + strings.Repeat("[", 20_000), "not valid JSON"},
		"task without words":  {domain.ModeExecuting, false, "TaskCreate", `{"status":"pending"}`, "missing subject; missing task_id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)

			_, checked, refused := b.Set(tc.mode, tc.headless, "Glob").Admit(tc.tool, tc.arguments)
			if tc.says == "" {
				require.Nil(t, refused)
				require.JSONEq(t, tc.arguments, string(checked))

				return
			}

			require.NotNil(t, refused)
			require.True(t, refused.IsError)
			require.Contains(t, refused.Output, tc.says)
		})
	}
}

func TestRegistry_Admit_refusalOmitsValues(t *testing.T) {
	t.Parallel()

	b := newBench(t, nil)
	for _, arguments := range []string{
		`{"command":{"TOKEN":"hunter2"}}`, `{"command":"x","timeout":"hunter2"}`, `{"command":"x","description":["hunter2"]}`,
		`{"command":hunter2}`,
	} {
		_, _, refused := b.Set(domain.ModeExecuting, false).Admit("Bash", arguments)
		require.NotNil(t, refused)
		require.NotContains(t, refused.Output, "hunter2")
	}
}

func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"command":"ls"}`, `{"file_path":"../..","offset":-1}`, `{"pattern":"**/[","path":"/"}`, `{"pattern":"(","-A":1e99}`,
		`{"questions":[{"question":"?","options":[{"label":"a"}]}]}`,
		`{"title":"t","steps":[{"id":"1","title":"t","detail":"","depends_on":["1"]}]}`,
		`{"file_path":"a","old_string":"x","new_string":"y"}`, `{"pattern":"\\","glob":"!"}`, `{"pattern":"[[:","multiline":true}`,
		"\x00", `[]`, `"`,
	} {
		f.Add(seed)
	}

	b := newBench(f, nil)
	b.File("a", "x\ny\n")
	f.Fuzz(func(t *testing.T, arguments string) {
		for _, tool := range allTools(b) {
			mode := domain.ModeExecuting
			if !tool.Executing {
				mode = domain.ModePlanning
			}

			summary := b.Set(mode, false).Summary(tool.Name, arguments)
			if !utf8.ValidString(summary) || tools.Length(summary) > 120 || strings.ContainsAny(summary, "\n\x00") {
				t.Errorf("summary %q", summary)
			}

			admitted, checked, refused := b.Set(mode, false).Admit(tool.Name, arguments)
			if refused != nil {
				if !utf8.ValidString(refused.Output) || tools.Length(refused.Output) > 5000 {
					t.Errorf("refusal of %s: %q", tool.Name, refused.Output)
				}

				continue
			}

			switch tool.Name {
			case "Bash":
			case tools.AskUserQuestion:
				if questions, err := questions.ParseQuestions(checked); err != nil || len(questions) == 0 {
					t.Errorf("admitted questions do not parse: %v", err)
				}
			default:
				result, err := b.Registry.Run(
					context.Background(),
					admitted,
					&tools.Call{ID: "call", Session: b.Session, Arguments: checked},
				)
				if err != nil && strings.Contains(err.Error(), "panicked") {
					t.Errorf("%s: %v", tool.Name, err)
				}

				if !utf8.ValidString(result.Output) || tools.Length(result.Output) > tools.MaxResult ||
					strings.Contains(result.Output, "\x00") {
					t.Errorf("result of %s is not bounded text", tool.Name)
				}
			}
		}
	})
}

func TestRegistry_Run_boundsResults(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	long := strings.Repeat("ä", tools.MaxResult+1)

	require.NoError(t, b.Registry.Add(tools.Tool{
		Name: "Long", DisplayName: "Long", Executing: true,
		Spec: domain.ToolSpec{Name: "Long", Parameters: json.RawMessage(`{
			"type":"object",
			"properties":{"exact":{"type":"boolean"},"bad":{"type":"boolean"},"panic":{"type":"boolean"}}
		}`)},
		Run: func(_ context.Context, c *tools.Call) (tools.Result, error) {
			switch string(c.Arguments) {
			case `{"exact":true}`:
				return tools.Result{Output: long[2:]}, nil
			case `{"bad":true}`:
				return tools.Result{Output: "a\xff\x00b"}, nil
			case `{"panic":true}`:
				panic("at the disco")
			}

			return tools.Result{Output: long}, nil
		},
	}))
	require.Equal(t, tools.MaxResult, tools.Length(b.Do("Long", `{"exact":true}`).Output))
	require.Empty(t, filesBelow(t, b, tools.OutputDir))

	over := b.Do("Long", `{}`)
	require.LessOrEqual(t, tools.Length(over.Output), tools.MaxResult)
	require.Contains(t, over.Output, tools.OutputPath("call_2"))
	require.True(t, long == b.Content(tools.OutputPath("call_2")), "the file holds all of it")

	require.Equal(t, "a\uFFFD\uFFFDb", b.Do("Long", `{"bad":true}`).Output)

	result, err := b.Call(t.Context(), "Long", `{"panic":true}`)
	require.ErrorContains(t, err, "panicked")
	require.True(t, result.IsError)
	require.Error(t, b.Registry.Add(tools.Tool{Name: "Long"}), "a name is taken once")
}

func TestSummary(t *testing.T) {
	t.Parallel()

	b := newBench(t, nil)
	for _, tc := range []struct{ tool, arguments, want string }{
		{"Bash", `{"command":"go test ./..."}`, "Bash: go test ./..."},
		{"Bash", `{"command":"cd web &&\n\tnpm test"}`, "Bash: cd web && npm test"},
		{
			"Bash", `{"command":"API_KEY=abc123 ./deploy --password=hunter2 --token 'x y' go"}`,
			"Bash: API_KEY=*** ./deploy --password=*** --token *** go",
		},
		{
			"Bash", `{"command":"curl -H 'Authorization: Bearer abc.def' https://u:p@host/"}`,
			"Bash: curl -H 'Authorization: *** ***' https://u:***@host/",
		},
		{"Bash", `{"command":"echo el_0123456789abcdef"}`, "Bash: echo ***"},
		{"Read", `{"file_path":"a.go","offset":3}`, "Read: a.go"},
		{"Grep", `{"pattern":"TODO","path":"src"}`, "Grep: TODO in src"},
		{"AskUserQuestion", `{"questions":[{"question":"Which one?"}]}`, "AskUserQuestion: Which one?"},
		{"Bash", `{"command":`, "Bash"},
		{"Nope\nX", `{}`, "Nope X"},
	} {
		require.Equal(t, tc.want, b.Set(domain.ModeExecuting, false).Summary(tc.tool, tc.arguments))
	}

	for _, tc := range []struct{ tool, arguments, want string }{
		{"Bash", `{"command":"go test ./...","description":"Run the tests"}`, "Bash: Run the tests"},
		{"Bash", `{"command":"cd web &&\n\tnpm test -- plainsecret"}`, "Bash: cd web && npm test -- ***"},
		{"Bash", `{"command":"echo plainsecret-longer on"}`, "Bash: echo *** on"},
		{"Bash", `{"command":"API_KEY=abc123 ./deploy"}`, "Bash: API_KEY=*** ./deploy"},
		{"Agent", `{"description":"Look around","prompt":"text of a user"}`, "Agent: Look around"},
		{"Read", `{"file_path":"a.go"}`, "Read"},
		{"WebSearch", `{"query":"text of a user"}`, "WebSearch"},
		{"AskUserQuestion", `{"questions":[{"question":"text of a user"}]}`, "AskUserQuestion"},
		{"TaskCreate", `{"subject":"text of a user"}`, "TaskCreate"},
		{"Nope", `{"command":"text of a user"}`, "Nope"},
	} {
		values := []string{"plainsecret", "plainsecret-longer", "on"}
		require.Equal(t, tc.want, b.Set(domain.ModeExecuting, false).RunSummary(tc.tool, tc.arguments, values))
	}

	arguments := `{"command":"` + strings.Repeat("x ", 38) + `plainsecret"}`
	cutAt := b.Set(domain.ModeExecuting, false).RunSummary("Bash", arguments, []string{"plainsecret"})
	require.LessOrEqual(t, tools.Length(cutAt), 80)
	require.NotContains(t, cutAt, "plain", "masked before it is cut")

	long := b.Set(domain.ModeExecuting, false).Summary("Bash", `{"command":"`+strings.Repeat("word ", 100)+`"}`)
	require.Equal(t, 120, tools.Length(long))
	require.Equal(t, "Nope", b.Set(domain.ModeExecuting, false).DisplayName("Nope"))
	_, ok := b.Set(domain.ModeExecuting, false).Lookup("Nope")
	require.False(t, ok)
}

func TestTaskCreate(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	made := b.Do("TaskCreate", toolstest.Args{"subject": "Add the retry", "status": "in_progress"})

	var task domain.SessionTask
	require.NoError(t, json.Unmarshal([]byte(made.Output), &task))
	require.Equal(t, "Add the retry", task.Subject)
	require.Equal(t, domain.SessionTaskInProgress, task.Status)

	changed := b.Do("TaskCreate", toolstest.Args{"task_id": task.ID, "status": "completed"})
	require.NoError(t, json.Unmarshal([]byte(changed.Output), &task))
	require.Equal(t, domain.SessionTaskCompleted, task.Status)
	require.Equal(t, "Add the retry", task.Subject)

	next := b.Do("TaskCreate", toolstest.Args{"subject": "Test the retry", "owner": "tester", "blocked_by": []string{task.ID}})

	var blocked domain.SessionTask
	require.NoError(t, json.Unmarshal([]byte(next.Output), &blocked))
	require.Equal(t, "tester", *blocked.Owner)
	require.Equal(t, []string{task.ID}, blocked.BlockedBy)

	freed := b.Do("TaskCreate", toolstest.Args{"task_id": blocked.ID, "owner": "", "blocked_by": []string{}})
	require.NoError(t, json.Unmarshal([]byte(freed.Output), &blocked))
	require.Empty(t, *blocked.Owner)
	require.Empty(t, blocked.BlockedBy)
	require.Equal(t, "Test the retry", blocked.Subject)

	many := b.Do("TaskCreate", toolstest.Args{"subject": "x", "blocked_by": make([]string, domain.MaxTaskBlockers+1)})
	require.True(t, many.IsError)
	require.True(t, b.Do("TaskCreate", toolstest.Args{"subject": "x", "owner": strings.Repeat("x", domain.MaxTaskOwner+1)}).IsError)

	unknown := b.Do("TaskCreate", toolstest.Args{"task_id": "nope", "status": "completed"})
	require.True(t, unknown.IsError)
	require.Equal(t, "task nope does not exist.", unknown.Output)
	require.True(t, b.Do("TaskCreate", toolstest.Args{"subject": " \t"}).IsError)
	require.Equal(t, taskID("call_1"), taskID("call_1"), "a call that is tried again makes the same task")
}

func TestSubmitPlan(t *testing.T) {
	t.Parallel()

	step := func(id string, after ...string) map[string]any {
		return map[string]any{"id": id, "title": "T", "detail": "D", "depends_on": after}
	}
	for name, tc := range map[string]struct {
		steps []map[string]any
		says  string
	}{
		"in order":   {[]map[string]any{step("1"), step("2", "1"), step("3", "1", "2")}, ""},
		"backwards":  {[]map[string]any{step("2", "1"), step("1")}, ""},
		"no steps":   {[]map[string]any{}, "at least 1 items"},
		"same id":    {[]map[string]any{step("1"), step("1")}, `two steps have the id "1"`},
		"unknown":    {[]map[string]any{step("1", "9")}, `which is not a step`},
		"itself":     {[]map[string]any{step("1", "1")}, "circle"},
		"circle":     {[]map[string]any{step("0"), step("1", "3"), step("2", "1"), step("3", "2")}, `from "1" on`},
		"incomplete": {[]map[string]any{{"id": "1", "title": "T"}}, "steps.0: missing detail"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.Mode = domain.ModePlanning

			for _, steps := range tc.steps {
				if steps["depends_on"] != nil && len(steps["depends_on"].([]string)) == 0 {
					delete(steps, "depends_on")
				}
			}

			result := b.Do("SubmitPlan", toolstest.Args{"title": "Goal", "steps": tc.steps})
			require.Equal(t, tc.says != "", result.IsError)
			require.Contains(t, result.Output, tc.says)
		})
	}
}

// TestRegistry_Names_matchOffered holds that what is shown of a session's tools is
// what its model gets, whatever provides them.
func TestRegistry_Names_matchOffered(t *testing.T) {
	t.Parallel()

	agents, err := agents.NewAgents(tools.Deps{})
	require.NoError(t, err)
	registry, err := New(tools.Deps{})
	require.NoError(t, err)

	skills := &shelf{offers: []skill.Offer{{Name: "main", Description: "First of all"}}}

	registry.Provide(agents)
	registry.Provide(NewMemoryTool(nil))
	registry.Provide(NewSkillTool(skills, slog.New(slog.DiscardHandler)))
	registry.Provide(given{
		{Name: "Read", Spec: domain.ToolSpec{Name: "Read", Parameters: json.RawMessage(`{}`)}, Planning: true},
		{Name: "mcp__a__b", Spec: domain.ToolSpec{Name: "mcp__a__b", Parameters: json.RawMessage(`{}`)}, Executing: true},
		{Name: "broken", Spec: domain.ToolSpec{Name: "broken", Parameters: json.RawMessage(`{"type": 5}`)}, Executing: true},
	})

	for _, scope := range []tools.Scope{
		{Mode: domain.ModeExecuting},
		{Mode: domain.ModePlanning},
		{Mode: domain.ModeExecuting, Headless: true, Session: domain.Session{MemoryEnabled: true}},
		{Mode: domain.ModeExecuting, Session: domain.Session{DisableTools: []string{"Bash", SkillTool}}},
		{Mode: domain.ModeExecuting, Profile: domain.Profile{DisableTools: []string{"mcp__a__b"}}},
		{Mode: domain.ModeExecuting, Only: []string{"Read", "Grep"}},
	} {
		for _, offers := range [][]skill.Offer{nil, {{Name: "main"}}} {
			skills.offers = offers
			names := registry.Names(t.Context(), scope)
			require.Equal(t, namesOf(registry.For(t.Context(), scope)), names, "%+v", scope)
			require.NotContains(t, names, "broken")
		}
	}

	require.Contains(t, registry.Names(t.Context(), tools.Scope{Mode: domain.ModeExecuting}), SkillTool)
}

// given provides tools as they are.
type given []tools.Tool

func (g given) Tools(context.Context, tools.Scope) []tools.Tool { return g }
