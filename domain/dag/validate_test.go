package dag

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// parse reads a graph as a client sends it.
func parse(t *testing.T, text string) Graph {
	t.Helper()

	var g Graph
	require.NoError(t, json.Unmarshal([]byte(text), &g))

	return g
}

// around puts nodes and edges between a start and an end. A node a that is not given
// is an agent.
func around(nodes, edges string) string {
	if !strings.Contains(nodes, `"id":"a"`) {
		nodes = strings.TrimSuffix(`{"id":"a","type":"agent","config":{"prompt":"work"}},`+nodes, ",")
	}

	if edges != "" {
		edges = "," + edges
	}

	return `{"nodes":[{"id":"s","type":"start"},` + nodes + `,{"id":"z","type":"end"}],
		"edges":[{"id":"e1","source":"s","target":"a"},{"id":"e2","source":"a","target":"z"}` + edges + `]}`
}

func node(id, rest string) string { return `{"id":"` + id + `",` + rest + `}` }

var known = Referable{
	SolutionID: "self", Agents: map[string]bool{"reviewer": true}, Skills: map[string]bool{"report": true},
	Solutions: map[string]bool{"other": true}, Webhooks: map[string]bool{"hook": true}, Colleagues: map[string]bool{"ben": true},
	Tools: map[string]bool{"Bash": true, "Read": true},
}

func TestValidate(t *testing.T) {
	t.Parallel()

	const secret = "sk-abcdefghijklmnopqrstuvwx"
	for name, tc := range map[string]struct {
		graph string
		want  []string // code, and where
	}{
		"whole": {around(``, ``), nil},
		"empty": {`{}`, []string{"missing_start nodes", "missing_end nodes"}},
		"cycle": {
			around(node("b", `"type":"join"`), `{"id":"e3","source":"a","target":"b"},{"id":"e4","source":"b","target":"a"}`),
			[]string{"cycle nodes[1]"},
		},
		"cycle of one":    {around(``, `{"id":"e3","source":"a","target":"a"}`), []string{"cycle nodes[1]"}},
		"unreachable":     {around(node("b", `"type":"join"`), `{"id":"e3","source":"b","target":"z"}`), []string{"unreachable nodes[2]"}},
		"dead end":        {around(node("b", `"type":"join"`), `{"id":"e3","source":"a","target":"b"}`), []string{"warning unreachable nodes[2]"}},
		"dangling source": {around(``, `{"id":"e3","source":"x","target":"z"}`), []string{"dangling_edge edges[2].source"}},
		"dangling target": {around(``, `{"id":"e3","source":"a","target":"x"}`), []string{"dangling_edge edges[2].target"}},
		"duplicate node":  {around(node("z", `"type":"end"`), ``), []string{"duplicate_id nodes[3].id"}},
		"duplicate edge":  {around(``, `{"id":"e1","source":"a","target":"z"}`), []string{"duplicate_id edges[2].id"}},
		"into the start":  {around(``, `{"id":"e3","source":"a","target":"s"}`), []string{"type_mismatch edges[2].target", "cycle nodes[0]"}},
		"out of the end":  {around(node("b", `"type":"end"`), `{"id":"e3","source":"z","target":"b"}`), []string{"type_mismatch edges[2].source"}},
		"agent":           {around(node("a", `"type":"agent"`), ``), []string{"missing_config nodes[1].config.prompt"}},
		"tool":            {around(node("a", `"type":"tool","config":{}`), ``), []string{"missing_config nodes[1].config.tool"}},
		"unknown tool": {
			around(node("a", `"type":"tool","config":{"tool":"bash"}`), ``), []string{"unknown_reference nodes[1].config.tool"},
		},
		"tool of a server": {around(node("a", `"type":"tool","config":{"tool":"mcp__files__list"}`), ``), nil},
		"map of an unknown tool": {
			around(node("a", `"type":"map","inputs":{"items":[1]},"config":{"tool":"Telnet"}`), ``),
			[]string{"unknown_reference nodes[1].config.tool"},
		},
		"tool of an agent": {around(node("a", `"type":"agent","config":{"prompt":"x","tool":"Telnet"}`), ``), nil},
		"human":            {around(node("a", `"type":"human"`), ``), []string{"missing_config nodes[1].config.prompt"}},
		"code":             {around(node("a", `"type":"code"`), ``), []string{"missing_config nodes[1].config.code"}},
		"empty code":       {around(node("a", `"type":"code","config":{"code":" \n"}`), ``), []string{"missing_config nodes[1].config.code"}},
		"code that runs":   {around(node("a", `"type":"code","config":{"code":"echo {{x}}"}`), ``), nil},
		"long code": {
			around(node("a", `"type":"code","config":{"code":"`+strings.Repeat("x", MaxCode+1)+`"}`), ``),
			[]string{"type_mismatch nodes[1].config.code"},
		},
		"code of a tool": {
			around(node("a", `"type":"tool","config":{"tool":"Bash","code":"true"}`), ``), []string{"warning type_mismatch nodes[1].config.code"},
		},
		"wait":    {around(node("a", `"type":"wait"`), ``), []string{"missing_config nodes[1].config.wait_s"}},
		"subflow": {around(node("a", `"type":"subflow"`), ``), []string{"missing_config nodes[1].config.prod_solution_id"}},
		"map":     {around(node("a", `"type":"map"`), ``), []string{"missing_config nodes[1].inputs.items", "missing_config nodes[1].config"}},
		"loop": {around(node("a", `"type":"loop"`), ``), []string{
			"missing_config nodes[1].config", "missing_config nodes[1].config.condition", "unbounded_loop nodes[1].config.max",
		}},
		"good loop": {around(node("a", `"type":"loop","config":{"prompt":"{{loop.iteration}} {{loop.previous.text}}","max":1000,
			"condition":"{{loop.output.score}} > {{loop.previous.score}}"}`), ``), nil},
		"hostile loop": {around(node("a", `"type":"loop","config":{"prompt":"{{loop.output}} {{loop.x}}","max":1001,
			"condition":"all({{loop.output}}, any({{loop.output}}, # > 1))"}`), ``), []string{
			"type_mismatch nodes[1].config.condition", "unbounded_loop nodes[1].config.max", "unknown_reference nodes[1].config.prompt",
			"unknown_reference nodes[1].config.prompt",
		}},
		"loop of another": {around(node("a", `"type":"agent","config":{"prompt":"{{loop.iteration}}","max":2}`), ``), []string{
			"unknown_reference nodes[1].config.prompt", "warning type_mismatch nodes[1].config",
		}},
		"condition":         {around(node("a", `"type":"condition"`), ``), []string{"missing_config nodes[1].config"}},
		"route":             {around(node("a", `"type":"join","on_error":"route"`), ``), []string{"missing_config nodes[1].on_error"}},
		"error edge":        {around(``, `{"id":"e3","source":"a","target":"z","kind":"error"}`), []string{"warning unreachable edges[2].kind"}},
		"known agent":       {around(node("a", `"type":"agent","config":{"agent_id":"reviewer","skill":"report"}`), ``), []string{"warning type_mismatch nodes[1].config.skill"}},
		"unknown agent":     {around(node("a", `"type":"agent","config":{"agent_id":"unknown"}`), ``), []string{"missing_agent nodes[1].config.agent_id"}},
		"unknown skill":     {around(node("a", `"type":"agent","config":{"prompt":"x","skill":"none"}`), ``), []string{"missing_skill nodes[1].config.skill"}},
		"known subflow":     {around(node("a", `"type":"subflow","config":{"prod_solution_id":"other"}`), ``), nil},
		"unknown subflow":   {around(node("a", `"type":"subflow","config":{"prod_solution_id":"x"}`), ``), []string{"unknown_reference nodes[1].config.prod_solution_id"}},
		"subflow of itself": {around(node("a", `"type":"subflow","config":{"prod_solution_id":"self"}`), ``), []string{"unbounded_loop nodes[1].config.prod_solution_id"}},
		"endless retry":     {around(node("a", `"type":"join","retry":{"backoff":2}`), ``), []string{"unbounded_loop nodes[1].retry.max_attempts"}},
		"odd approval":      {around(node("a", `"type":"join","approval":{"policy":"two"}`), ``), []string{"type_mismatch nodes[1].approval.policy"}},
		"without effect":    {around(node("a", `"type":"join","heartbeat_s":5,"approval":{"policy":"none"}`), ``), []string{"warning type_mismatch nodes[1].heartbeat_s"}},
		"heartbeat":         {around(node("a", `"type":"tool","config":{"tool":"Bash"},"heartbeat_s":5`), ``), nil},
		"escalation": {
			around(node("a", `"type":"join","approval":{"policy":"required","escalation":
				{"timeout_s":60,"escalate_after_s":30,"webhooks":["hook"],"user_id":"ben"}}`), ``), nil,
		},
		"escalation of a human node": {
			around(node("a", `"type":"human","config":{"prompt":"Which?","options":["a","b"]},"approval":{"policy":"none","escalation":
				{"timeout_s":60,"default_answer":"b"}}`), ``), nil,
		},
		"escalation as text": { // of a graph that was stored long ago
			around(node("a", `"type":"join","approval":{"policy":"required","escalation":"u"}`), ``),
			[]string{"missing_config nodes[1].approval.escalation"},
		},
		"escalation without a question": {
			around(node("a", `"type":"join","approval":{"policy":"none","escalation":{"timeout_s":60}}`), ``),
			[]string{"type_mismatch nodes[1].approval.escalation"},
		},
		"escalation without times": {
			around(node("a", `"type":"join","approval":{"policy":"required","escalation":
				{"default_answer":"Approve","webhooks":["hook"]}}`), ``),
			[]string{
				"missing_config nodes[1].approval.escalation", "missing_config nodes[1].approval.escalation.timeout_s",
				"missing_config nodes[1].approval.escalation.escalate_after_s",
			},
		},
		"escalation that comes too late": {
			around(node("a", `"type":"join","approval":{"policy":"required","escalation":{"timeout_s":60,"escalate_after_s":60}}`), ``),
			[]string{"type_mismatch nodes[1].approval.escalation.escalate_after_s"},
		},
		"escalation with another answer": {
			around(node("a", `"type":"join","approval":{"policy":"required","escalation":{"timeout_s":60,"default_answer":"yes"}}`), ``),
			[]string{"type_mismatch nodes[1].approval.escalation.default_answer"},
		},
		"escalation without an answer": {
			around(node("a", `"type":"human","config":{"prompt":"Which?"},"approval":{"policy":"none","escalation":{"timeout_s":60}}`), ``),
			[]string{"missing_config nodes[1].approval.escalation.default_answer"},
		},
		"escalation to others": {
			around(node("a", `"type":"join","approval":{"policy":"required","escalation":
				{"escalate_after_s":60,"webhooks":["hook","x"],"user_id":"x"}}`), ``),
			[]string{
				"unknown_reference nodes[1].approval.escalation.webhooks[1]", "unknown_reference nodes[1].approval.escalation.user_id",
			},
		},
		"secret": {
			around(node("a", `"type":"agent","config":{"prompt":"use `+secret+`"}`), ``), []string{"secret_in_prompt nodes[1].config.prompt"},
		},
		"secret in arguments": {
			around(node("a", `"type":"tool","config":{"tool":"Bash","arguments":{"env":[{"K":"`+secret+`"}]}}`), ``),
			[]string{"secret_in_prompt nodes[1].config.arguments.env[0].K"},
		},
		"secret in code": {around(node("a", `"type":"code","config":{"code":"K=`+secret+`"}`), ``), []string{"secret_in_prompt nodes[1].config.code"}},
		"perhaps a secret": {
			around(node("a", `"type":"agent","config":{"prompt":"password: hunter2hunter2"}`), ``), []string{"warning secret_in_prompt nodes[1].config.prompt"},
		},
		"reference": {
			around(node("b", `"type":"agent","config":{"prompt":"{{nodes.a.output}} {{input.x}}"}`),
				`{"id":"e3","source":"a","target":"b"},{"id":"e4","source":"b","target":"z"}`), nil,
		},
		"reference far back": {
			around(node("b", `"type":"join"`)+","+node("c", `"type":"agent","config":{"prompt":"{{nodes.b.output}} {{nodes.a.output}}"}`),
				`{"id":"e3","source":"a","target":"b"},{"id":"e4","source":"b","target":"c"},{"id":"e5","source":"c","target":"z"}`), nil,
		},
		"unknown node": {around(node("a", `"type":"agent","config":{"prompt":"{{nodes.x.output}}"}`), ``), []string{"unknown_reference nodes[1].config.prompt"}},
		"later node": {
			around(node("b", `"type":"agent","config":{"prompt":"x"}},{"id":"c","type":"agent","config":{"prompt":"{{nodes.b.output}}"}`),
				`{"id":"e3","source":"a","target":"b"},{"id":"e4","source":"b","target":"z"},
				{"id":"e5","source":"a","target":"c"},{"id":"e6","source":"c","target":"z"}`),
			[]string{"unknown_reference nodes[3].config.prompt"},
		},
		"itself":    {around(node("a", `"type":"agent","config":{"prompt":"{{nodes.a.output}}"}`), ``), []string{"unknown_reference nodes[1].config.prompt"}},
		"malformed": {around(node("a", `"type":"agent","config":{"prompt":"{{nodes.s}}"}`), ``), []string{"unknown_reference nodes[1].config.prompt"}},
		"several faults": {
			around(node("a", `"type":"agent","config":{"prompt":"{{nodes.s}} {{x.y}} {{nodes.x.output}} {{nodes.x.output}} {{item}} {{"}`), ``),
			slices.Repeat([]string{"unknown_reference nodes[1].config.prompt"}, 5),
		},
		"several faults in edge": {
			branch(`{{nodes}} == {{x}} or {{nodes.x.output}} == 1`), slices.Repeat([]string{"unknown_reference edges[1].condition"}, 3),
		},
		"more faults than are shown": {
			around(node("a", `"type":"agent","config":{"prompt":"`+strings.Repeat("{{x}} ", 100)+`"}`), ``),
			slices.Repeat([]string{"unknown_reference nodes[1].config.prompt"}, maxSyntaxErrors),
		},
		"text in braces": {around(node("a", `"type":"agent","config":{"prompt":"\\{{ text }}"}`), ``), nil},
		"in inputs":      {around(node("a", `"type":"join","inputs":{"x":{"y":["{{nodes.x.output}}"]}}`), ``), []string{"unknown_reference nodes[1].inputs.x.y[0]"}},
		"item in a map":  {around(node("a", `"type":"map","inputs":{"items":"{{input.files}}"},"config":{"prompt":"{{item.name}}"}`), ``), nil},
		"item elsewhere": {around(node("a", `"type":"agent","config":{"prompt":"{{item}}"}`), ``), []string{"unknown_reference nodes[1].config.prompt"}},
		"map over text":  {around(node("a", `"type":"map","inputs":{"items":"a {{input.x}}"},"config":{"prompt":"x"}`), ``), []string{"type_mismatch nodes[1].inputs.items"}},
		"map over 5":     {around(node("a", `"type":"map","inputs":{"items":5},"config":{"prompt":"x"}`), ``), []string{"type_mismatch nodes[1].inputs.items"}},
		"map over a number": {
			typed(`{"type":"object","properties":{"x":{"type":"number"}}}`, `"type":"map","inputs":{"items":"{{input.x}}"},"config":{"prompt":"x"}`),
			[]string{"type_mismatch nodes[1].inputs.items"},
		},
		"map over a list": {typed(`{"properties":{"x":{"type":"array"}}}`, `"type":"map","inputs":{"items":"{{input.x}}"},"config":{"prompt":"x"}`), nil},
		"field of a text": {
			typed(`{"properties":{"x":{"type":"string"}}}`, `"type":"agent","config":{"prompt":"{{input.x.y}}"}`), []string{"type_mismatch nodes[1].config.prompt"},
		},
		"no such field": {
			typed(`{"properties":{"x":{}},"additionalProperties":false}`, `"type":"agent","config":{"prompt":"{{input.y}}"}`),
			[]string{"unknown_reference nodes[1].config.prompt"},
		},
		"perhaps no such field": {
			typed(`{"properties":{"x":{}}}`, `"type":"agent","config":{"prompt":"{{input.y}}"}`), []string{"warning unknown_reference nodes[1].config.prompt"},
		},
		"broken schema":     {typed(`{"type":"nothing"}`, `"type":"join"`), []string{"type_mismatch nodes[0].output_schema"}},
		"condition of edge": {branch(`{{nodes.a.output.score}} >= 7 and {{input.x}} == \"y\"`), nil},
		"empty condition":   {branch(` `), []string{"type_mismatch edges[1].condition"}},
		"condition of text": {branch(`\"yes\"`), []string{"type_mismatch edges[1].condition"}},
		"nested predicates": {
			branch(`all({{input.a}}, any({{input.b}}, # == 1))`), []string{"type_mismatch edges[1].condition"},
		},
		"broken condition":  {branch(`{{nodes.a.output}} >`), []string{"type_mismatch edges[1].condition"}},
		"unknown variable":  {branch(`score > 5`), []string{"type_mismatch edges[1].condition"}},
		"quoted reference":  {branch(`\"{{nodes.a.output}}\" == \"x\"`), []string{"type_mismatch edges[1].condition"}},
		"unknown in edge":   {branch(`{{nodes.x.output}} == 1`), []string{"unknown_reference edges[1].condition"}},
		"later in edge":     {branch(`{{nodes.z.output}} == 1`), []string{"unknown_reference edges[1].condition"}},
		"malformed in edge": {branch(`{{nodes}} == 1`), []string{"unknown_reference edges[1].condition"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := Validate(parse(t, tc.graph), known)

			var got []string
			for _, f := range result.Errors {
				got = append(got, f.Code+" "+f.Path)
				require.NotEmpty(t, f.Message)
				require.NotContains(t, f.Message, secret)
				require.True(t, f.Code == CodeMissingStart || f.Code == CodeMissingEnd || f.NodeID != "" || f.EdgeID != "")
			}

			for _, f := range result.Warnings {
				got = append(got, "warning "+f.Code+" "+f.Path)
			}

			require.Equal(t, tc.want, got, "%+v", result)
			require.Equal(t, len(result.Errors) == 0, result.Valid)
		})
	}
}

// typed is a graph whose input has a schema, with one node a.
func typed(schema, a string) string {
	return `{"nodes":[{"id":"s","type":"start","output_schema":` + schema + `},` + node("a", a) + `,{"id":"z","type":"end"}],
		"edges":[{"id":"e1","source":"s","target":"a"},{"id":"e2","source":"a","target":"z"}]}`
}

// branch is a graph with a condition at the edge from a to z.
func branch(condition string) string {
	return `{"nodes":[{"id":"s","type":"start"},{"id":"a","type":"condition"},{"id":"z","type":"end"}],
		"edges":[{"id":"e1","source":"s","target":"a"},{"id":"e2","source":"a","target":"z","condition":"` + condition + `"}]}`
}

// A graph of the greatest size, in which every node refers to the first and every tenth
// edge has a condition, is validated at once. The bound leaves room for the race detector
// and a busy machine, and not for a walk of all pairs of edges.
func TestValidate_greatestGraph(t *testing.T) {
	t.Parallel()

	g := Graph{Nodes: []Node{{ID: "s", Type: Start}}}
	for i := 1; i < MaxNodes-1; i++ {
		g.Nodes = append(g.Nodes, Node{ID: fmt.Sprintf("n%d", i), Type: Agent, Config: &Config{Prompt: "do {{nodes.s.output.x}}"}})
	}

	g.Nodes = append(g.Nodes, Node{ID: "z", Type: End})

	for i := range MaxEdges {
		from := i % (MaxNodes - 1)
		to := min(from+1+i/(MaxNodes-1), MaxNodes-1)

		e := Edge{ID: fmt.Sprintf("e%d", i), Source: g.Nodes[from].ID, Target: g.Nodes[to].ID}
		if i%10 == 0 {
			e.Condition = "{{nodes.s.output.x}} > 1"
		}

		g.Edges = append(g.Edges, e)
	}

	began := time.Now()
	g = g.Complete()
	result := Validate(g, Referable{})
	took := time.Since(began)

	require.True(t, result.Valid, "%+v", result.Errors)
	require.Len(t, g.Steps, MaxNodes)
	require.Less(t, took, 3*time.Minute)
	t.Logf("validated in %v", took)
}

func TestValidate_files(t *testing.T) {
	t.Parallel()

	const (
		gives  = `"type":"code","config":{"code":"x"},"outputs":{"files":["report/**"]}`
		work   = `"type":"code","config":{"code":"x"}`
		toB    = `{"id":"e3","source":"a","target":"b"},{"id":"e4","source":"b","target":"z"}`
		beside = `{"id":"e3","source":"s","target":"b"},{"id":"e4","source":"b","target":"z"}`
		toC    = `,{"id":"e5","source":"b","target":"c"},{"id":"e6","source":"c","target":"z"}`
	)

	a, b := node("a", gives)+",", func(rest string) string { return node("b", work+`,`+rest) }

	for name, tc := range map[string]struct {
		graph string
		want  []string
	}{
		"from the node before":    {around(a+b(`"inputs_files":[{"from":"a","path":"report/**","to":"in"}]`), toB), nil},
		"from a node long before": {around(a+node("b", work)+`,`+node("c", work+`,"inputs_files":[{"from":"a"}]`), toB+toC), nil},
		"from a node beside": {
			around(a+b(`"inputs_files":[{"from":"a"}]`), beside), []string{"unknown_reference nodes[2].inputs_files[0].from"},
		},
		"from itself": {
			around(a+node("b", gives+`,"inputs_files":[{"from":"b"}]`), toB), []string{"unknown_reference nodes[2].inputs_files[0].from"},
		},
		"from no node": {
			around(a+b(`"inputs_files":[{"from":"x"}]`), toB), []string{"unknown_reference nodes[2].inputs_files[0].from"},
		},
		"from a node without files": {
			around(node("a", work)+","+b(`"inputs_files":[{"from":"a"}]`), toB),
			[]string{"unknown_reference nodes[2].inputs_files[0].from"},
		},
		"absolute": {
			around(node("a", work+`,"outputs":{"files":["/etc/passwd"]}`)+","+b(`"inputs_files":[{"from":"a","path":"/x","to":"/workspace/y"}]`), toB),
			[]string{
				"type_mismatch nodes[1].outputs.files[0]", "type_mismatch nodes[2].inputs_files[0].path",
				"type_mismatch nodes[2].inputs_files[0].to",
			},
		},
		"out of the workspace": {
			around(node("a", work+`,"outputs":{"files":["a/../../x","..","ok"]}`)+","+b(`"inputs_files":[{"from":"a","path":"../x","to":"a/../b"}]`), toB),
			[]string{
				"type_mismatch nodes[1].outputs.files[0]", "type_mismatch nodes[1].outputs.files[1]",
				"type_mismatch nodes[2].inputs_files[0].path", "type_mismatch nodes[2].inputs_files[0].to",
			},
		},
		"of the service": {
			around(a+b(`"inputs_files":[{"from":"a","path":".everloop/x","to":"./.everloop"}]`), toB),
			[]string{"type_mismatch nodes[2].inputs_files[0].path", "type_mismatch nodes[2].inputs_files[0].to"},
		},
		"odd patterns": {
			around(node("a", work+`,"outputs":{"files":["[a","","x\u0001","`+strings.Repeat("x", 513)+`","`+strings.Repeat("{a,b}", 11)+`"]}`), ``),
			[]string{
				"type_mismatch nodes[1].outputs.files[0]", "type_mismatch nodes[1].outputs.files[1]",
				"type_mismatch nodes[1].outputs.files[2]", "type_mismatch nodes[1].outputs.files[3]",
				"type_mismatch nodes[1].outputs.files[4]",
			},
		},
		"of a map": {
			around(node("a", `"type":"map","inputs":{"items":[1]},"config":{"tool":"Bash"},"outputs":{"files":["x"]}`)+","+
				b(`"inputs_files":[{"from":"a"}]`), toB), nil,
		},
		"of a subflow": {
			around(node("a", `"type":"subflow","config":{"prod_solution_id":"other"},"outputs":{"files":["x"]}`)+","+
				node("b", `"type":"join","inputs_files":[{"from":"a"}]`), toB),
			[]string{"type_mismatch nodes[1].outputs.files", "type_mismatch nodes[2].inputs_files"},
		},
		"of a map of subflows": {
			around(node("a", `"type":"map","inputs":{"items":[1]},"config":{"prod_solution_id":"other"},"outputs":{"files":["x"]}`), ``),
			[]string{"type_mismatch nodes[1].outputs.files"},
		},
		"workspace":                {around(a+b(`"workspace":"a"`), toB), nil},
		"workspace of a workspace": {around(a+b(`"workspace":"a"`)+","+node("c", work+`,"workspace":"b"`), toB+toC), nil},
		"workspace beside":         {around(a+b(`"workspace":"a"`), beside), []string{"unknown_reference nodes[2].workspace"}},
		"workspace of no node":     {around(a+b(`"workspace":"x"`), toB), []string{"unknown_reference nodes[2].workspace"}},
		"workspace of itself":      {around(a+b(`"workspace":"b"`), toB), []string{"unknown_reference nodes[2].workspace"}},
		"workspace of a join":      {around(node("a", `"type":"join"`)+","+b(`"workspace":"a"`), toB), []string{"type_mismatch nodes[2].workspace"}},
		"workspace of a map": {
			around(a+node("b", `"type":"map","inputs":{"items":[1]},"config":{"tool":"Bash"},"workspace":"a"`), toB),
			[]string{"type_mismatch nodes[2].workspace"},
		},
		"workspace of two at once": {
			around(a+b(`"workspace":"a"`)+","+node("c", work+`,"workspace":"a"`),
				toB+`,{"id":"e5","source":"a","target":"c"},{"id":"e6","source":"c","target":"z"}`),
			[]string{"type_mismatch nodes[3].workspace"},
		},
		"workspace of two at once, one by another": {
			around(a+b(`"workspace":"a"`)+","+node("c", work+`,"workspace":"a"`)+","+node("d", work+`,"workspace":"b"`),
				toB+toC+`,{"id":"e7","source":"b","target":"d"},{"id":"e8","source":"d","target":"z"}`),
			[]string{"type_mismatch nodes[4].workspace"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got []string
			for _, f := range Validate(parse(t, tc.graph), known).Errors {
				got = append(got, f.Code+" "+f.Path)
				require.NotEmpty(t, f.Message)
				require.NotEmpty(t, f.NodeID)
			}

			require.Equal(t, tc.want, got)
		})
	}
}

func TestGraph_Complete(t *testing.T) {
	t.Parallel()
	g := parse(
		t,
		around(node("b", `"type":"join","name":"Both"`), `{"id":"e3","source":"s","target":"b"},{"id":"e4","source":"b","target":"z"}`),
	)

	var ids []string
	for _, s := range g.Complete().Steps {
		ids = append(ids, fmt.Sprintf("%d %s %s %s", s.Order, s.ID, s.NodeID, s.Title))
	}

	require.Equal(t, []string{"1 step-s s s", "2 step-a a a", "3 step-b b Both", "4 step-z z z"}, ids)

	g.Steps = []Step{
		{NodeID: "z", Order: 9},
		{ID: "first", NodeID: "b", Order: 1, Title: "Begin"},
		{NodeID: "gone", Order: 2},
		{NodeID: "b", Order: 3},
	}

	ids = nil
	for _, s := range g.Complete().Steps {
		ids = append(ids, fmt.Sprintf("%d %s %s", s.Order, s.ID, s.Title))
	}

	require.Equal(t, []string{"1 first Begin", "2 step-z z", "3 step-s s", "4 step-a a"}, ids)
}

func TestGraph_Encode_isStable(t *testing.T) {
	t.Parallel()
	one := parse(
		t,
		`{"nodes":[{"type":"tool","id":"a","config":{"tool":"T","arguments":{"b":1.50,"a":{"y":"<&>","x":12345678901234567890}}}}],"edges":[]}`,
	)
	other := parse(
		t,
		`{"nodes":[{"config":{"arguments":{"a":{"x":12345678901234567890,"y":"<&>"},"b":1.50},"tool":"T"},"id":"a","type":"tool"}]}`,
	)
	a, err := one.Encode()
	require.NoError(t, err)
	b, err := other.Encode()
	require.NoError(t, err)
	require.Equal(t, string(a), string(b))
	require.Equal(
		t,
		`{"edges":[],"nodes":[{"config":{"arguments":{"a":{"x":12345678901234567890,"y":"<&>"},"b":1.50},"tool":"T"},"id":"a","type":"tool"}],"steps":[]}`,
		string(a),
	)

	_, err = Graph{Nodes: []Node{{ID: "a", Type: Agent, Name: "a\x00b"}}}.Encode()
	require.ErrorContains(t, err, "NUL")
	_, err = Graph{Nodes: []Node{{ID: "a", Type: Agent, Config: &Config{Code: strings.Repeat("x", 5<<20)}}}}.Encode()
	require.ErrorContains(t, err, "bytes")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	from := parse(
		t,
		around(node("b", `"type":"agent","config":{"prompt":"old","model":"m"},"inputs":{"x":1}`), `{"id":"e3","source":"a","target":"b"}`),
	)
	to := parse(t, around(node("b", `"type":"agent","config":{"prompt":"new"},"inputs":{"x":1}`)+","+node("c", `"type":"join"`),
		`{"id":"e3","source":"a","target":"c"}`))
	to.Nodes = append(to.Nodes[:1], to.Nodes[2:]...) // without a
	d, err := Compare(from, to)
	require.NoError(t, err)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"nodes":{"added":[{"id":"c","type":"join"}],"removed":[{"id":"a","type":"agent","config":{"prompt":"work"}}],
			"changed":[{"id":"b","fields":[{"field":"config.model","from":"m"},{"field":"config.prompt","from":"old","to":"new"}]}]},
		"edges":{"added":[],"removed":[],"changed":[{"id":"e3","fields":[{"field":"target","from":"b","to":"c"}]}]}}`, string(text))

	d, err = Compare(from, from)
	require.NoError(t, err)
	require.True(t, d.Nodes.Empty() && d.Edges.Empty())
}

// Answers have every list, the stored form has no empty one.
func TestGraph_Listed(t *testing.T) {
	t.Parallel()

	var g Graph

	require.NoError(t, json.Unmarshal([]byte(`{"nodes":[
		{"id":"a","type":"agent","config":{"prompt":"x"},"outputs":{},"inputs_files":[],"retry":{"max_attempts":2}},
		{"id":"h","type":"human","config":{"prompt":"?","options":[]},"approval":{"policy":"required","escalation":{"timeout_s":1}}}]}`), &g))

	stored, err := g.Encode()
	require.NoError(t, err)
	require.NotContains(t, string(stored), `"options"`)

	answer, err := json.Marshal(g.Listed())
	require.NoError(t, err)
	require.JSONEq(t, `{"steps":[],"edges":[],"nodes":[
		{"id":"a","type":"agent","config":{"prompt":"x"},"outputs":{"files":[]},"retry":{"max_attempts":2,"non_retryable":[]}},
		{"id":"h","type":"human","config":{"prompt":"?","options":[]},
		 "approval":{"policy":"required","escalation":{"timeout_s":1,"webhooks":[]}}}]}`, string(answer))

	again, err := g.Listed().Encode()
	require.NoError(t, err)
	require.Equal(t, string(stored), string(again))
}
