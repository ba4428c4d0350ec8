package dagrun

import (
	"slices"

	"everloop/domain/dag"
)

// Estimate is a value that earlier runs had.
type Estimate struct {
	Median float64 `json:"median" doc:"Half of the runs had at most this." example:"12.5"`
	P90    float64 `json:"p90" doc:"Nine of ten runs had at most this." example:"40"`
}

// Forecast estimates a run from earlier ones. An estimate is null where no run shows it.
type Forecast struct {
	Version      int            `json:"version" doc:"The version of the DAG." example:"2"`
	Runs         int            `json:"runs" doc:"The completed runs that it stands on, at most the 50 newest." example:"12"`
	DurationS    *Estimate      `json:"duration_s" doc:"Seconds, along the critical path; null: a node has no earlier run."`
	Tokens       *Estimate      `json:"tokens" doc:"Input and output tokens of all nodes; null: a node has no earlier run."`
	CostUSD      *Estimate      `json:"cost_usd" doc:"Cost of all nodes; null: a node has no earlier run, or used a model without a price."`
	CriticalPath []string       `json:"critical_path" nullable:"false" doc:"The nodes whose durations add up to that of the run; empty: unknown."`
	Nodes        []NodeForecast `json:"nodes" nullable:"false" doc:"The nodes, in the order in which they can run."`
}

// NodeForecast estimates a node. A run that skipped the node counts as 0.
type NodeForecast struct {
	NodeID    string    `json:"node_id" doc:"The node." example:"review"`
	Runs      int       `json:"runs" doc:"The runs in which it ran as it is defined now." example:"12"`
	DurationS *Estimate `json:"duration_s" doc:"Seconds, with all attempts and pauses; null: it has no earlier run."`
	Tokens    *Estimate `json:"tokens" doc:"Input and output tokens; null: it has no earlier run."`
	CostUSD   *Estimate `json:"cost_usd" doc:"Cost; null: it has no earlier run, or used a model without a price."`
}

// ForecastOf adds up the estimates of nodes: tokens and cost of all of them, and the duration of
// the path that takes longest. The p90 of a run is a cautious one, the sum of those of its nodes.
func ForecastOf(g dag.Graph, version, runs int, nodes map[string]NodeForecast) Forecast {
	out := Forecast{Version: version, Runs: runs, CriticalPath: []string{}, Nodes: []NodeForecast{}}

	for _, id := range g.Order() {
		n := nodes[id]
		n.NodeID = id
		out.Nodes = append(out.Nodes, n)
	}

	if runs == 0 || len(out.Nodes) == 0 {
		return out
	}

	out.Tokens = total(out.Nodes, func(n NodeForecast) *Estimate { return n.Tokens })
	out.CostUSD = total(out.Nodes, func(n NodeForecast) *Estimate { return n.CostUSD })

	if slices.ContainsFunc(out.Nodes, func(n NodeForecast) bool { return n.DurationS == nil }) {
		return out
	}

	median, path := longest(g, out.Nodes, func(e Estimate) float64 { return e.Median })
	p90, _ := longest(g, out.Nodes, func(e Estimate) float64 { return e.P90 })
	out.DurationS, out.CriticalPath = &Estimate{Median: median, P90: p90}, path

	return out
}

// total adds up an estimate of all nodes; nil: one of them has none.
func total(nodes []NodeForecast, of func(NodeForecast) *Estimate) *Estimate {
	var sum Estimate

	for _, n := range nodes {
		e := of(n)
		if e == nil {
			return nil
		}

		sum.Median += e.Median
		sum.P90 += e.P90
	}

	return &sum
}

// longest returns the path of nodes that takes longest, and its duration. Nodes are in an order
// in which they can run.
func longest(g dag.Graph, nodes []NodeForecast, value func(Estimate) float64) (duration float64, path []string) {
	ends, before := map[string]float64{}, map[string]string{}
	sources := map[string][]string{}

	for _, e := range g.Edges {
		sources[e.Target] = append(sources[e.Target], e.Source)
	}

	last := ""

	for _, n := range nodes {
		start := 0.0

		for _, source := range sources[n.NodeID] {
			if before[n.NodeID] == "" || ends[source] > start {
				start, before[n.NodeID] = ends[source], source
			}
		}

		if ends[n.NodeID] = start + value(*n.DurationS); last == "" || ends[n.NodeID] >= ends[last] {
			last = n.NodeID
		}
	}

	for id := last; id != ""; id = before[id] {
		path = append(path, id)
	}

	slices.Reverse(path)

	return ends[last], path
}
