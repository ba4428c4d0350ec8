package dagrun_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// play is a run that is advanced step by step, with its content in memory.
type play struct {
	t   *testing.T
	run dagrun.Run

	values  dagrun.Values
	graph   dag.Graph // whole; the run has its skeleton
	outputs map[string]json.RawMessage
	items   map[string][]json.RawMessage

	requests     map[string]dagrun.Request
	itemRequests map[string][]dagrun.Request
	reasons      map[string]string
	earlier      map[string][]dagrun.Earlier
	ended        map[string]dagrun.Result
}

func begin(t *testing.T, graph, inputs string) *play {
	t.Helper()

	p := &play{
		t: t, outputs: map[string]json.RawMessage{}, items: map[string][]json.RawMessage{}, requests: map[string]dagrun.Request{},
		itemRequests: map[string][]dagrun.Request{}, reasons: map[string]string{}, earlier: map[string][]dagrun.Earlier{},
	}
	require.NoError(t, json.Unmarshal([]byte(graph), &p.graph))

	p.values = dagrun.Values{
		Inputs: json.RawMessage(inputs), Output: func(id string) (json.RawMessage, error) { return p.outputs[id], nil },
	}

	p.run = dagrun.Run{
		Graph: dagrun.Skeleton(p.graph), Content: p, Now: noon, Nodes: map[string]*dagrun.Unit{}, Items: map[string][]*dagrun.Unit{},
	}
	for _, n := range p.graph.Nodes {
		p.run.Nodes[n.ID] = &dagrun.Unit{NodeID: n.ID, Item: dagrun.NoItem, Status: dagrun.Pending}
	}

	return p
}

func (p *play) node(id string) dag.Node {
	return p.graph.Nodes[slices.IndexFunc(p.graph.Nodes, func(n dag.Node) bool { return n.ID == id })]
}

func failed(failure *dagrun.NodeFailure) (dagrun.Outcome, error) {
	return dagrun.Outcome{Status: dagrun.Failed, Failure: failure}, nil
}

// Activate implements dagrun.Content.
func (p *play) Activate(n dag.Node, before []string, start bool) (dagrun.Outcome, error) {
	n = p.node(n.ID)

	request, failure := p.values.Request(n, before)
	if failure != nil {
		return failed(failure)
	}

	p.requests[n.ID] = request

	if !dagrun.Immediate(n.Type) {
		definition, inputs := dagrun.Digests(n, request)

		chosen, reason := dagrun.Reuse(p.earlier[n.ID], definition, inputs)
		if p.reasons[n.ID] = reason; chosen != nil {
			p.outputs[n.ID] = chosen.Output
			return dagrun.Outcome{Status: dagrun.Reused}, nil
		}
	}

	if !start || !dagrun.Immediate(n.Type) && n.Type != dag.Map {
		return dagrun.Outcome{Status: dagrun.Ready}, nil
	}

	return p.Start(n)
}

// Start implements dagrun.Content.
func (p *play) Start(n dag.Node) (dagrun.Outcome, error) {
	n = p.node(n.ID)

	switch n.Type {
	case dag.Map:
		requests, failure := p.values.Items(n, p.requests[n.ID])
		if failure != nil {
			return failed(failure)
		}

		p.itemRequests[n.ID], p.items[n.ID] = requests, make([]json.RawMessage, len(requests))

		return dagrun.Outcome{Status: dagrun.Running, Items: len(requests)}, nil
	case dag.Start:
		p.outputs[n.ID] = p.values.Inputs
	case dag.Wait:
		p.outputs[n.ID] = json.RawMessage("null")
	default:
		p.outputs[n.ID] = p.requests[n.ID].Passed()
	}

	return dagrun.Outcome{Status: dagrun.Completed}, nil
}

// Take implements dagrun.Content.
func (p *play) Take(u *dagrun.Unit) (dagrun.Outcome, error) {
	result := p.ended[key(u)]

	if u.Phase == dagrun.PhaseApproval {
		failure := &dagrun.NodeFailure{Code: dagrun.CodeNotApproved, Message: result.Text}
		return dagrun.Outcome{Status: dagrun.Completed, Approved: result.Text == dagrun.Approve, Failure: failure}, nil
	}

	output, failure := dagrun.OutputOf(p.node(u.NodeID), u.Item, result)
	if failure != nil {
		return failed(failure)
	}

	if u.Item == dagrun.NoItem {
		p.outputs[u.NodeID] = output
	} else {
		p.items[u.NodeID][u.Item] = output
	}

	return dagrun.Outcome{Status: dagrun.Completed}, nil
}

// Gather implements dagrun.Content.
func (p *play) Gather(n dag.Node) (dagrun.Outcome, error) {
	list, err := json.Marshal(p.items[n.ID])
	p.outputs[n.ID] = list

	return dagrun.Outcome{Status: dagrun.Completed}, err
}

// Follows implements dagrun.Content.
func (p *play) Follows(e dag.Edge) (dagrun.Outcome, error) {
	number, err := strconv.Atoi(e.ID)
	require.NoError(p.t, err)

	whole := p.graph.Edges[number]
	holds, failure := p.values.Follows(p.node(whole.Source), whole)

	return dagrun.Outcome{Holds: holds, Failure: failure}, nil
}

func (p *play) result() string {
	return string(p.values.Result(p.graph, "", func(id string) bool { return p.run.Nodes[id].Status == dagrun.Completed }))
}

// key names a unit in the results of a step: the node, with the number of an item.
func key(u *dagrun.Unit) string {
	if u.Item == dagrun.NoItem {
		return u.NodeID
	}

	return fmt.Sprintf("%s/%d", u.NodeID, u.Item)
}

// step advances the run after the work of some units has ended. A result that begins with
// an exclamation mark is the code of a failure.
func (p *play) step(ended map[string]string) {
	p.t.Helper()

	p.ended = map[string]dagrun.Result{}
	for _, u := range p.run.Units() {
		if u.Status == dagrun.Running {
			u.Begun = true
		}

		text, over := ended[key(u)]
		if !over {
			continue
		}

		result := dagrun.Result{Text: text}
		if code, failed := strings.CutPrefix(text, "!"); failed {
			result = dagrun.Result{Failure: &dagrun.NodeFailure{Code: code, Message: "it broke"}}
		}

		p.ended[key(u)], u.Look = result, true
	}

	require.NoError(p.t, p.run.Advance())
}

func (p *play) is(want map[string]dagrun.Status) {
	p.t.Helper()

	got := map[string]dagrun.Status{}
	for id := range want {
		got[id] = p.run.Nodes[id].Status
	}

	require.Equal(p.t, want, got)
}

func edges(pairs ...string) string {
	var list []string

	for i, pair := range pairs {
		fields := strings.SplitN(pair, " ", 3)

		extra := ""
		if len(fields) == 3 {
			extra = "," + fields[2]
		}

		list = append(list, `{"id":"e`+string(rune('a'+i))+`","source":"`+fields[0]+`","target":"`+fields[1]+`"`+extra+`}`)
	}

	return `"edges":[` + strings.Join(list, ",") + `]`
}

const startEnd = `{"id":"s","type":"start"},{"id":"z","type":"end"}`

func TestRun_linear(t *testing.T) {
	t.Parallel()
	p := begin(t, `{"nodes":[`+startEnd+`,{"id":"a","type":"agent","config":{"prompt":"On {{input.topic}}"}},
		{"id":"b","type":"agent","config":{"prompt":"Check {{nodes.a.output}}"}}],`+edges("s a", "a b", "b z")+`}`, `{"topic":"June"}`)
	p.step(nil)
	p.is(map[string]dagrun.Status{"s": dagrun.Completed, "a": dagrun.Running, "b": dagrun.Pending})
	require.Equal(t, "On June", p.requests["a"].Prompt)
	require.Contains(t, p.requests["a"].Message(), `{"topic":"June"}`, "the message holds what comes before")

	p.step(map[string]string{"a": "a draft"})
	require.Equal(t, "Check a draft", p.requests["b"].Message())
	p.step(map[string]string{"b": "fine"})
	require.Equal(t, dagrun.Completed, p.run.Status)
	require.JSONEq(t, `"fine"`, p.result())
}

func TestRun_branches(t *testing.T) {
	t.Parallel()

	graph := `{"nodes":[` + startEnd + `,{"id":"c","type":"condition"},{"id":"high","type":"agent"},{"id":"low","type":"agent"},{"id":"j","type":"join"}],` +
		edges(
			"s c",
			`c high "condition":"{{input.score}} >= 7"`,
			"c low",
			"high j",
			"low j",
			"j z",
		) + `}`

	for name, tc := range map[string]struct{ inputs, taken, skipped string }{
		"the condition holds": {`{"score":8}`, "high", "low"},
		"no condition holds":  {`{"score":3}`, "low", "high"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t, graph, tc.inputs)
			p.step(nil)
			p.is(map[string]dagrun.Status{tc.taken: dagrun.Running, tc.skipped: dagrun.Skipped, "j": dagrun.Pending})
			p.step(map[string]string{tc.taken: "x"})
			require.Equal(t, dagrun.Completed, p.run.Status)
			require.JSONEq(t, `"x"`, p.result())
		})
	}

	p := begin(t, graph, `{"score":"high"}`)
	p.step(nil)
	require.Equal(t, dagrun.Failed, p.run.Status)
	require.Equal(t, dagrun.CodeCondition, p.run.Failure.Code)
}

// A condition of a version that was published before conditions were bounded fails its run.
func TestRun_boundsConditions(t *testing.T) {
	t.Parallel()

	list := `[` + strings.Repeat("0,", 20_000) + `0]`
	for name, condition := range map[string]string{
		"nested predicates": `all({{input.a}}, all({{input.a}}, # != 1))`,
		"list in predicate": `all({{input.a}}, not (1 in {{input.a}}))`,
		"growing text":      `len(reduce(1..90, #acc + #acc, \"xxxxxxxx\")) > 1`,
		"large value":       `{{input.text}} == \"\"`,
		"constant pattern":  `{{input.text}} matches \"(abcdefghijklmnopqrstuvwxyz){900}\"`,
	} {
		p := begin(t, `{"nodes":[`+startEnd+`],`+edges(`s z "condition":"`+condition+`"`)+`}`,
			`{"a":`+list+`,"text":"`+strings.Repeat("x", 70_000)+`"}`)
		p.step(nil)
		require.Equal(t, dagrun.Failed, p.run.Status, name)
		require.Equal(t, dagrun.CodeCondition, p.run.Failure.Code, name)
	}
}

// The edges of one condition node are evaluated once, whatever the number of others.
func TestRun_boundsConditionsOfStep(t *testing.T) {
	t.Parallel()

	list := `[` + strings.Repeat("0,", 20_000) + `0]`

	pairs, nodes := []string{"s c", "c z"}, startEnd+`,{"id":"c","type":"condition"}`
	for range 24 {
		pairs = append(pairs, `c z "condition":"all({{input.a}}, # == 1)"`)
	}

	p := begin(t, `{"nodes":[`+nodes+`],`+edges(pairs...)+`}`, `{"a":`+list+`}`)
	p.step(nil)
	require.Equal(t, dagrun.Completed, p.run.Status)
}

// References multiply what they name; a request is refused before it is put together.
func TestRun_boundsRequests(t *testing.T) {
	t.Parallel()

	inputs := `{"text":"` + strings.Repeat("x", 100_000) + `","list":[` + strings.Repeat("0,", 4000) + `0]}`
	many := strings.Repeat("{{input.text}} ", 13_000)

	for name, node := range map[string]string{
		"prompt":    `"type":"agent","config":{"prompt":"` + many + `"}`,
		"arguments": `"type":"tool","config":{"tool":"Bash","arguments":{"command":"` + many + `"}}`,
		"inputs":    `"type":"join","inputs":{"a":["` + many + `",{"b":"` + many + `"}]}`,
		"items":     `"type":"map","inputs":{"items":"{{input.list}}"},"config":{"prompt":"{{input.text}} {{item}}"}`,
	} {
		p := begin(t, `{"nodes":[`+startEnd+`,{"id":"n",`+node+`}],`+edges("s n", "n z")+`}`, inputs)
		p.step(nil)
		require.Equal(t, dagrun.Failed, p.run.Status, name)
		require.Equal(t, dagrun.CodeInvalidInputs, p.run.Failure.Code, name)
		require.Empty(t, p.run.Items["n"], name)
	}
}

func TestRun_humanHandles(t *testing.T) {
	t.Parallel()
	p := begin(
		t,
		`{"nodes":[`+startEnd+`,{"id":"h","type":"human","config":{"prompt":"ok?"}},{"id":"y","type":"join"},{"id":"n","type":"join"}],`+
			edges("s h", `h y "source_handle":"yes"`, `h n "source_handle":"no"`, "y z", "n z")+`}`,
		`{}`,
	)
	p.step(nil)
	p.step(map[string]string{"h": "no"})
	p.is(map[string]dagrun.Status{"y": dagrun.Skipped, "n": dagrun.Completed})
	require.Equal(t, dagrun.Completed, p.run.Status)
}

func TestRun_failures(t *testing.T) {
	t.Parallel()

	graph := func(rest string) string {
		return `{"nodes":[` + startEnd + `,{"id":"a","type":"agent"` + rest + `},{"id":"b","type":"agent"},{"id":"r","type":"join"}],` +
			edges("s a", "s b", "a z", `a r "kind":"error"`, "r z") + `}`
	}
	for name, tc := range map[string]struct {
		rest string
		want map[string]dagrun.Status
		run  dagrun.Status
	}{
		"fail":         {``, map[string]dagrun.Status{"a": dagrun.Failed, "b": dagrun.Cancelled, "z": dagrun.Cancelled}, dagrun.Failed},
		"continue":     {`,"on_error":"continue"`, map[string]dagrun.Status{"a": dagrun.Failed, "b": dagrun.Running, "r": dagrun.Skipped, "z": dagrun.Completed}, dagrun.Running},
		"route":        {`,"on_error":"route"`, map[string]dagrun.Status{"a": dagrun.Failed, "r": dagrun.Completed, "z": dagrun.Completed}, dagrun.Running},
		"again":        {`,"retry":{"max_attempts":2}`, map[string]dagrun.Status{"a": dagrun.Waiting, "b": dagrun.Running}, dagrun.Running},
		"not this one": {`,"retry":{"max_attempts":2,"non_retryable":["broken"]}`, map[string]dagrun.Status{"a": dagrun.Failed}, dagrun.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t, graph(tc.rest), `{}`)
			p.step(nil)
			p.run.Nodes["b"].Begun = true
			p.step(map[string]string{"a": "!broken"})
			p.is(tc.want)
			require.Equal(t, tc.run, p.run.Status)

			if tc.run == dagrun.Failed {
				require.True(t, p.run.Nodes["b"].Stop, "work that goes on is stopped")
				require.Equal(t, "broken", p.run.Failure.Code)
			}
		})
	}
}

func TestRun_attempts(t *testing.T) {
	t.Parallel()
	p := begin(t, `{"nodes":[`+startEnd+`,{"id":"a","type":"agent","timeout_s":60,"retry":{"max_attempts":2,"initial_interval_s":10}}],`+
		edges("s a", "a z")+`}`, `{}`)
	p.step(nil)
	a := p.run.Nodes["a"]

	require.Equal(t, noon.Add(time.Minute), *p.run.WakeAt)

	p.run.Now = noon.Add(time.Minute)
	p.step(nil)
	require.Equal(t, dagrun.CodeTimeout, a.Failure.Code)
	require.True(t, a.Stop)

	p.run.Now = noon.Add(2 * time.Minute)
	p.step(nil)
	require.Equal(t, dagrun.Waiting, a.Status, "the next attempt waits until the first is stopped")
	a.Stop = false

	p.step(nil)
	require.Equal(t, dagrun.Running, a.Status)
	require.Equal(t, 2, a.Attempt)
	p.step(map[string]string{"a": "!broken"})
	require.Equal(t, dagrun.Failed, p.run.Status)
}

func TestPause(t *testing.T) {
	t.Parallel()

	retry := dag.Retry{InitialIntervalS: 2, Backoff: 3, MaxIntervalS: 10}
	require.Equal(t, []time.Duration{2 * time.Second, 6 * time.Second, 10 * time.Second},
		[]time.Duration{dagrun.Pause(retry, 1), dagrun.Pause(retry, 2), dagrun.Pause(retry, 3)})
	require.Equal(t, time.Second, dagrun.Pause(dag.Retry{}, 1))
}

func TestRun_map(t *testing.T) {
	t.Parallel()

	graph := `{"nodes":[` + startEnd + `,{"id":"m","type":"map","concurrency":2,"config":{"prompt":"do {{item.n}}"},"inputs":{"items":"{{input.list}}"},` +
		`"output_schema":{"type":"array","items":{"type":"object","required":["n"]}}}],` + edges(
		"s m",
		"m z",
	) + `}`
	p := begin(t, graph, `{"list":[{"n":1},{"n":2},{"n":3}]}`)
	p.step(nil)
	items := p.run.Items["m"]
	require.Len(t, items, 3)
	require.Equal(
		t,
		[]dagrun.Status{dagrun.Running, dagrun.Running, dagrun.Ready},
		[]dagrun.Status{items[0].Status, items[1].Status, items[2].Status},
	)
	require.Equal(t, "do 1", p.itemRequests["m"][0].Prompt)
	p.step(map[string]string{"m/1": `{"n":20}`})
	require.Equal(t, dagrun.Running, items[2].Status)
	p.step(map[string]string{"m/0": `{"n":10}`, "m/2": `{"n":30}`})
	require.Equal(t, dagrun.Completed, p.run.Status)
	require.JSONEq(t, `[{"n":10},{"n":20},{"n":30}]`, p.result())

	p = begin(t, graph, `{"list":[{"n":1},{"n":2}]}`)
	p.step(nil)
	p.step(map[string]string{"m/0": `{"x":1}`})
	require.Equal(t, dagrun.Failed, p.run.Status)
	require.Equal(t, dagrun.CodeInvalidOutput, p.run.Failure.Code)
	require.Equal(t, dagrun.Cancelled, p.run.Items["m"][1].Status)

	p = begin(t, graph, `{"list":[]}`)
	p.step(nil)
	require.JSONEq(t, `[]`, p.result())

	p = begin(t, graph, `{"list":"none"}`)
	p.step(nil)
	require.Equal(t, dagrun.CodeInvalidItems, p.run.Failure.Code)
}

func TestRun_widthIsBounded(t *testing.T) {
	t.Parallel()

	nodes, links := []string{startEnd}, []string{}

	for i := range dagrun.MaxWidth + 5 {
		id := "n" + string(rune('A'+i/26)) + string(rune('a'+i%26))
		nodes, links = append(nodes, `{"id":"`+id+`","type":"agent"}`), append(links, "s "+id)
	}

	p := begin(t, `{"nodes":[`+strings.Join(nodes, ",")+`],`+edges(links...)+`}`, `{}`)
	p.step(nil)

	running := 0

	for _, u := range p.run.Units() {
		if u.Status == dagrun.Running {
			running++
		}
	}

	require.Equal(t, dagrun.MaxWidth, running)
}

func TestRun_approval(t *testing.T) {
	t.Parallel()

	for answer, want := range map[string]dagrun.Status{dagrun.Approve: dagrun.Running, dagrun.Reject: dagrun.Failed} {
		p := begin(
			t,
			`{"nodes":[`+startEnd+`,{"id":"a","type":"tool","config":{"tool":"Bash"},"approval":{"policy":"required"}}],`+edges(
				"s a",
				"a z",
			)+`}`,
			`{}`,
		)
		p.step(nil)
		a := p.run.Nodes["a"]
		require.Equal(t, dagrun.PhaseApproval, a.Phase)
		p.step(map[string]string{"a": answer})
		require.Equal(t, want, a.Status, answer)

		if want == dagrun.Running {
			require.False(t, a.Begun)
			require.Equal(t, 1, a.Attempt)
		}
	}
}

func TestRun_waitAndCancel(t *testing.T) {
	t.Parallel()
	p := begin(
		t,
		`{"nodes":[`+startEnd+`,{"id":"w","type":"wait","config":{"wait_s":30}},{"id":"a","type":"agent"}],`+edges("s w", "w a", "a z")+`}`,
		`{}`,
	)
	p.step(nil)
	require.Equal(t, noon.Add(30*time.Second), *p.run.WakeAt)
	p.run.Now = noon.Add(31 * time.Second)
	p.step(nil)
	p.is(map[string]dagrun.Status{"w": dagrun.Completed, "a": dagrun.Running})
	p.run.Nodes["a"].Begun, p.run.Cancel = true, true
	p.step(nil)
	require.Equal(t, dagrun.Cancelled, p.run.Status)
	require.True(t, p.run.Nodes["a"].Stop)
}

func TestRun_reuse(t *testing.T) {
	t.Parallel()

	graph := `{"nodes":[` + startEnd + `,{"id":"a","type":"agent","config":{"prompt":"p {{input.x}}"}}],` + edges("s a", "a z") + `}`
	done := begin(t, graph, `{"x":1}`)
	done.step(nil)
	definition, inputs := dagrun.Digests(done.node("a"), done.requests["a"])
	earlier := dagrun.Earlier{ID: "old", Definition: definition, Inputs: inputs, Output: json.RawMessage(`"before"`)}

	for name, tc := range map[string]struct {
		change func(*dagrun.Earlier)
		inputs string
		reused bool
		reason string
	}{
		"the same":        {func(*dagrun.Earlier) {}, `{"x":1}`, true, dagrun.ReuseSameInputs},
		"other inputs":    {func(*dagrun.Earlier) {}, `{"x":2}`, false, dagrun.ReuseInputsChanged},
		"kept":            {func(e *dagrun.Earlier) { e.Kept = true }, `{"x":2}`, true, dagrun.ReuseKept},
		"restarted":       {func(e *dagrun.Earlier) { e.Barred = true }, `{"x":1}`, false, dagrun.ReuseRestarted},
		"another version": {func(e *dagrun.Earlier) { e.Definition = "x" }, `{"x":1}`, false, dagrun.ReuseDefinitionChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			e := earlier
			tc.change(&e)
			p := begin(t, graph, tc.inputs)
			p.earlier["a"] = []dagrun.Earlier{e}
			p.step(nil)
			u := p.run.Nodes["a"]
			require.Equal(t, tc.reason, p.reasons["a"])

			if tc.reused {
				require.Equal(t, dagrun.Reused, u.Status)
				require.JSONEq(t, `"before"`, p.result())
			} else {
				require.Equal(t, dagrun.Running, u.Status)
			}
		})
	}
}

func TestCheckInputs(t *testing.T) {
	t.Parallel()

	var g dag.Graph
	require.NoError(
		t,
		json.Unmarshal([]byte(`{"nodes":[{"id":"s","type":"start","output_schema":{"type":"object","required":["topic"]}}]}`), &g),
	)
	require.NoError(t, dagrun.CheckInputs(g, json.RawMessage(`{"topic":"x"}`)))
	err := dagrun.CheckInputs(g, json.RawMessage(`{}`))
	require.True(t, domain.HasCode(err, dagrun.CodeInvalidInputs), "%v", err)
}
