package dag

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"everloop/domain"
	"everloop/domain/pattern"
)

// ServiceDir is the directory of a workspace that belongs to the service: its files are not
// passed on.
const ServiceDir = ".everloop"

// maxFilePattern is the maximum length of a pattern of output files, in bytes.
const maxFilePattern = 512

// WorkspaceOf returns the node whose session started the workspace that a node works in: the
// node itself, unless it names an earlier one.
func (g Graph) WorkspaceOf(id string) string {
	for range g.Nodes { // a chain is shorter, unless it is a cycle
		at := slices.IndexFunc(g.Nodes, func(n Node) bool { return n.ID == id })
		if at < 0 || g.Nodes[at].Workspace == "" {
			return id
		}

		id = g.Nodes[at].Workspace
	}

	return id
}

// workedBefore returns the node that works in the workspace of a node before it; empty: none does.
func (g Graph) workedBefore(id string) (before string) {
	root := g.WorkspaceOf(id)
	if root == id {
		return ""
	}

	for _, other := range g.Order() {
		if other == id {
			break
		}

		if g.WorkspaceOf(other) == root {
			before = other
		}
	}

	return before
}

// hasWorkspace reports whether a node works in the workspace of one session.
func (n Node) hasWorkspace() bool { return n.Type == Agent || n.Type == Tool || n.Type == Code }

// hasFiles reports whether a node, or each item of it, works in the workspace of a session.
func (n Node) hasFiles() bool {
	return n.hasWorkspace() || n.Type == Map && n.config().ProdSolutionID == ""
}

// checkFiles checks the files that a node passes on and is given, and the node whose workspace
// it works in.
func (v *validator) checkFiles(n *Node, at string) {
	fail := func(code, field, format string, args ...any) {
		v.fail(domain.Finding{Code: code, Message: fmt.Sprintf(format, args...), NodeID: n.ID, Path: at + "." + field})
	}

	if !n.hasFiles() {
		const reason = "node %s has no files: only agents, tools, code and maps of agents and tools have"
		if n.GivesFiles() {
			fail(CodeTypeMismatch, "outputs.files", reason, n.ID)
		}

		if len(n.InputsFiles) > 0 {
			fail(CodeTypeMismatch, "inputs_files", reason, n.ID)
		}
	}

	if n.Outputs != nil {
		for i, name := range n.Outputs.Files {
			if fault := pathFault(name, true); fault != "" {
				fail(CodeTypeMismatch, fmt.Sprintf("outputs.files[%d]", i), "an output file of node %s %s", n.ID, fault)
			}
		}
	}

	for i, in := range n.InputsFiles {
		field := fmt.Sprintf("inputs_files[%d].", i)
		if fault := v.sourceFault(in.From, n); fault != "" {
			fail(CodeUnknownReference, field+"from", "%s", fault)
		} else if !v.node[in.From].GivesFiles() {
			fail(CodeUnknownReference, field+"from", "node %s names no output files (outputs.files)", in.From)
		}

		if fault := pathFault(in.Path, true); in.Path != "" && fault != "" {
			fail(CodeTypeMismatch, field+"path", "the path %s", fault)
		}

		if fault := pathFault(in.To, false); in.To != "" && fault != "" {
			fail(CodeTypeMismatch, field+"to", "the path %s", fault)
		}
	}

	v.checkWorkspace(n, fail)
}

func (v *validator) checkWorkspace(n *Node, fail func(code, field, format string, args ...any)) {
	if n.Workspace == "" {
		return
	}

	if !n.hasWorkspace() {
		fail(CodeTypeMismatch, "workspace", "node %s has no workspace: only agents, tools and code have one", n.ID)
		return
	}

	if fault := v.sourceFault(n.Workspace, n); fault != "" {
		fail(CodeUnknownReference, "workspace", "%s", fault)
	} else if !v.node[n.Workspace].hasWorkspace() {
		fail(CodeTypeMismatch, "workspace", "node %s has no workspace: only agents, tools and code have one", n.Workspace)
	}
}

// sourceFault returns why a node cannot use files of the node with an id; empty: it can.
func (v *validator) sourceFault(id string, n *Node) string {
	source := v.node[id]

	switch {
	case source == nil:
		return fmt.Sprintf("there is no node %s", shorten(id))
	case !v.cyclic && !v.runsBefore(source, n):
		return fmt.Sprintf("node %s does not run before %s", id, n.ID)
	default:
		return ""
	}
}

// checkWorkspaces checks that the nodes of one workspace run one after another: of two nodes a
// path must lead from one to the other.
func (v *validator) checkWorkspaces() {
	if v.cyclic {
		return
	}

	last := map[string]*Node{} // by the node that started the workspace
	users := map[string]bool{}

	for _, n := range v.Nodes {
		if n.Workspace != "" && v.sourceFault(n.Workspace, v.node[n.ID]) == "" {
			users[n.ID], users[v.WorkspaceOf(n.ID)] = true, true
		}
	}

	for _, id := range v.links.order() {
		if !users[id] {
			continue
		}

		n, root := v.node[id], v.WorkspaceOf(id)
		if before := last[root]; before != nil && !v.runsBefore(before, n) {
			v.fail(domain.Finding{
				Code: CodeTypeMismatch, NodeID: id,
				Message: fmt.Sprintf("nodes %s and %s could work in one workspace at the same time: let a path lead from one to the other",
					before.ID, id),
				Path: fmt.Sprintf("nodes[%d].workspace", slices.IndexFunc(v.Nodes, func(n Node) bool { return n.ID == id })),
			})
		}

		last[root] = n
	}
}

// pathFault returns what is wrong with a path within a workspace; empty: nothing.
func pathFault(name string, wildcards bool) string {
	clean := path.Clean(name)

	switch {
	case name == "":
		return "must not be empty"
	case len(name) > maxFilePattern:
		return fmt.Sprintf("must have at most %d bytes", maxFilePattern)
	case path.IsAbs(name):
		return "must be relative to the workspace"
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "must not contain .."
	case strings.ContainsFunc(name, unicode.IsControl):
		return "must not contain control characters"
	case clean == ServiceDir || strings.HasPrefix(clean, ServiceDir+"/"):
		return "must not be in " + ServiceDir + ", which belongs to the service"
	case wildcards && !pattern.ValidGlob(name):
		return "is not a valid pattern"
	default:
		return ""
	}
}
