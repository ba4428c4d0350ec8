package dag

import (
	"encoding/json"
	"slices"
)

// Part returns the graph of a run of one node: the node, and the nodes whose outputs, files and
// workspace it is given, without what is between them. Its edges lead from the direct predecessors to the node
// unconditionally. With false the node does not exist.
func (g Graph) Part(id string) (part Graph, found bool) {
	at := slices.IndexFunc(g.Nodes, func(n Node) bool { return n.ID == id })
	if at < 0 {
		return part, false
	}

	sources := map[string]bool{id: true}
	for _, r := range g.Nodes[at].references() {
		sources[r.NodeID] = r.Root == RootNodes || sources[r.NodeID]
	}

	for _, in := range g.Nodes[at].InputsFiles {
		sources[in.From] = true
	}

	before := g.workedBefore(id)
	if before != "" {
		sources[before] = true
	}

	linked := map[string]bool{}

	for _, e := range g.Edges {
		if e.Target == id && !linked[e.Source] {
			sources[e.Source], linked[e.Source] = true, true
			part.Edges = append(part.Edges, Edge{ID: e.ID, Source: e.Source, Target: id})
		}
	}

	for _, n := range g.Nodes {
		if n.ID == id {
			n.OnError, n.Workspace = ErrorFails, before
		} else {
			n.Workspace = ""
		}

		if sources[n.ID] {
			part.Nodes = append(part.Nodes, n)
		}
	}

	return part, true
}

// OnlyAfterError reports whether every edge between two nodes is taken only when the first one
// fails.
func (g Graph) OnlyAfterError(source, target string) bool {
	found := false

	for _, e := range g.Edges {
		if e.Source != source || e.Target != target {
			continue
		}

		if found = true; e.Kind != EdgeError {
			return false
		}
	}

	return found
}

// references returns the references in the texts of a node.
func (n Node) references() []Reference {
	c := n.config()
	found := append(referencesIn(c.Prompt), referencesIn(c.Condition)...)

	for _, values := range []map[string]json.RawMessage{c.Arguments, n.Inputs} {
		for _, raw := range values {
			var value any
			if json.Unmarshal(raw, &value) == nil {
				found = append(found, referencesIn(value)...)
			}
		}
	}

	return found
}

// referencesIn returns the references in the texts of a JSON value.
func referencesIn(value any) (found []Reference) {
	switch value := value.(type) {
	case string:
		template, _ := parseTemplate(value)
		return template.References()
	case []any:
		for _, inner := range value {
			found = append(found, referencesIn(inner)...)
		}
	case map[string]any:
		for _, inner := range value {
			found = append(found, referencesIn(inner)...)
		}
	}

	return found
}
