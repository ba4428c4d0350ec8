package dag

import (
	"maps"
	"slices"
)

// Referable is what exists outside the graph: production agents, skills and production
// solutions, by id.
type Referable struct {
	SolutionID string // of the graph itself
	Agents     map[string]bool
	Skills     map[string]bool
	Solutions  map[string]bool
	Webhooks   map[string]bool
	Colleagues map[string]bool // users who share a workspace with the owner and can act in it
	Tools      map[string]bool // tools of a tool node's session, without the tools of tool servers
}

// ToolServerPrefix is the prefix of each tool of a tool server (docs/mcp.md). The tools of a
// server are known only after connecting, so validation does not look them up.
const ToolServerPrefix = "mcp__"

// called returns the tool that a node calls directly; empty: none.
func (n Node) called() string {
	if n.Type == Tool || n.Type.Repeats() {
		return n.config().Tool
	}

	return ""
}

// CallsTools reports whether a node of the graph calls a tool directly.
func (g Graph) CallsTools() bool {
	return slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.called() != "" })
}

// Names returns the skills and production solutions of a graph, sorted.
func (g Graph) Names() (skills, solutions []string) {
	named := [2]map[string]bool{{}, {}}

	for _, n := range g.Nodes {
		if c := n.config(); c.Skill != "" {
			named[0][c.Skill] = true
		}

		if c := n.config(); c.ProdSolutionID != "" {
			named[1][c.ProdSolutionID] = true
		}
	}

	return slices.Sorted(maps.Keys(named[0])), slices.Sorted(maps.Keys(named[1]))
}

// Agents returns the agent_ids of a graph's production agents, sorted.
func (g Graph) Agents() []string {
	named := map[string]bool{}

	for _, n := range g.Nodes {
		if c := n.config(); c.AgentID != "" {
			named[c.AgentID] = true
		}
	}

	return slices.Sorted(maps.Keys(named))
}

// Escalations returns the webhooks and users of a graph, sorted.
func (g Graph) Escalations() (webhooks, users []string) {
	named := [2]map[string]bool{{}, {}}

	for _, n := range g.Nodes {
		if n.Approval == nil || n.Approval.Escalation == nil {
			continue
		}

		for _, id := range n.Approval.Escalation.Webhooks {
			named[0][id] = true
		}

		if id := n.Approval.Escalation.UserID; id != "" {
			named[1][id] = true
		}
	}

	return slices.Sorted(maps.Keys(named[0])), slices.Sorted(maps.Keys(named[1]))
}
