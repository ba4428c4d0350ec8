package dag

import (
	"fmt"
	"slices"
	"strings"

	"everloop/domain"
)

// The codes of findings.
const (
	CodeCycle            = "cycle"
	CodeUnreachable      = "unreachable"
	CodeDanglingEdge     = "dangling_edge"
	CodeMissingStart     = "missing_start"
	CodeMissingEnd       = "missing_end"
	CodeDuplicateID      = "duplicate_id"
	CodeUnknownReference = "unknown_reference"
	CodeTypeMismatch     = "type_mismatch"
	CodeMissingConfig    = "missing_config"
	CodeMissingAgent     = "missing_agent"
	CodeMissingSkill     = "missing_skill"
	CodeSecretInPrompt   = "secret_in_prompt"
	CodeUnboundedLoop    = "unbounded_loop"
)

func (n Node) config() Config {
	if n.Config == nil {
		return Config{}
	}

	return *n.Config
}

// Validate returns all findings that prevent a graph from running.
func Validate(g Graph, known Referable) domain.Validation {
	v := &validator{Graph: g, known: known, links: newLinks(g), node: map[string]*Node{}, before: map[int][]bool{}}
	v.back = v.links.reversed()
	v.result = domain.Validation{Errors: []domain.Finding{}, Warnings: []domain.Finding{}}
	v.checkIDs()
	v.checkEdges()
	v.checkPaths()
	v.checkNodes()
	v.result.Valid = len(v.result.Errors) == 0

	return v.result
}

type validator struct {
	Graph
	known  Referable
	links  links
	back   links
	node   map[string]*Node // by id, the first of each
	start  *Node            // its output_schema describes the input; nil: there is no single start node
	before map[int][]bool   // predecessors of a node, computed on demand
	cyclic bool
	result domain.Validation
}

func (v *validator) fail(f domain.Finding) { v.result.Errors = append(v.result.Errors, f) }
func (v *validator) warn(f domain.Finding) { v.result.Warnings = append(v.result.Warnings, f) }

func (v *validator) checkIDs() {
	starts, ends := 0, 0

	for i := range v.Nodes {
		n := &v.Nodes[i]
		if v.node[n.ID] != nil {
			v.fail(domain.Finding{
				Code: CodeDuplicateID, Message: fmt.Sprintf("another node has the id %s already", n.ID), NodeID: n.ID,
				Path: fmt.Sprintf("nodes[%d].id", i),
			})

			continue
		}

		v.node[n.ID] = n
		switch n.Type {
		case Start:
			starts++
			v.start = n
		case End:
			ends++
		default:
		}
	}

	if starts > 1 {
		v.start = nil
	}

	if starts == 0 {
		v.fail(domain.Finding{Code: CodeMissingStart, Message: "there is no node of the type start", Path: "nodes"})
	}

	if ends == 0 {
		v.fail(domain.Finding{Code: CodeMissingEnd, Message: "there is no node of the type end", Path: "nodes"})
	}
}

func (v *validator) checkEdges() {
	seen := map[string]bool{}

	for i, e := range v.Edges {
		at := fmt.Sprintf("edges[%d]", i)

		fail := func(code, field, format string, args ...any) {
			v.fail(domain.Finding{Code: code, Message: fmt.Sprintf(format, args...), EdgeID: e.ID, Path: at + "." + field})
		}
		if seen[e.ID] {
			fail(CodeDuplicateID, "id", "another edge has the id %s already", e.ID)
		}

		seen[e.ID] = true

		source, target := v.node[e.Source], v.node[e.Target]
		if source == nil {
			fail(CodeDanglingEdge, "source", "the edge leaves node %s, which does not exist", e.Source)
		}

		if target == nil {
			fail(CodeDanglingEdge, "target", "the edge leads to node %s, which does not exist", e.Target)
		}

		if source != nil && source.Type == End {
			fail(CodeTypeMismatch, "source", "no edge can leave %s, which is an end", e.Source)
		}

		if target != nil && target.Type == Start {
			fail(CodeTypeMismatch, "target", "no edge can lead to %s, which is a start", e.Target)
		}

		if source != nil && e.Kind == EdgeError && source.OnError != ErrorIsRouted {
			v.warn(domain.Finding{
				Code: CodeUnreachable, Message: fmt.Sprintf("the edge is never taken: set on_error of node %s to route", e.Source),
				EdgeID: e.ID, Path: at + ".kind",
			})
		}

		v.checkCondition(e, at+".condition", source)
	}
}

func (v *validator) checkCondition(e Edge, path string, source *Node) {
	if e.Condition == "" {
		return
	}

	finding := domain.Finding{Code: CodeUnknownReference, EdgeID: e.ID, Path: path}
	if !v.checkReferences(e.Condition, source, true, finding) {
		return
	}

	if err := checkCondition(e.Condition); err != nil {
		finding.Code, finding.Message = CodeTypeMismatch, "the condition is not valid: "+err.Error()
		v.fail(finding)
	}
}

// checkPaths reports cycles and unreachable nodes.
func (v *validator) checkPaths() {
	for _, cycle := range v.links.cycles() {
		v.cyclic = true
		v.fail(domain.Finding{
			Code: CodeCycle, NodeID: cycle[0],
			Message: "these nodes lead back to themselves: " + shorten(strings.Join(cycle, ", ")),
			Path:    fmt.Sprintf("nodes[%d]", slices.IndexFunc(v.Nodes, func(n Node) bool { return n.ID == cycle[0] })),
		})
	}

	var starts, ends []int

	for id, n := range v.node {
		switch n.Type {
		case Start:
			starts = append(starts, v.links.number[id])
		case End:
			ends = append(ends, v.links.number[id])
		default:
		}
	}

	fromStart, toEnd := v.links.reach(starts...), v.back.reach(ends...)
	for i, n := range v.Nodes {
		number := v.links.number[n.ID]
		switch at := fmt.Sprintf("nodes[%d]", i); {
		case len(starts) > 0 && !fromStart[number]:
			v.fail(domain.Finding{
				Code: CodeUnreachable, Message: fmt.Sprintf("no path leads from a start to node %s", n.ID), NodeID: n.ID, Path: at,
			})
		case len(ends) > 0 && !toEnd[number]:
			v.warn(domain.Finding{
				Code: CodeUnreachable, Message: fmt.Sprintf("no path leads from node %s to an end", n.ID), NodeID: n.ID, Path: at,
			})
		}
	}
}
