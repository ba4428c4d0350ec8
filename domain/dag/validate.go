package dag

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/schema"
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

// Known is what exists outside the graph: production agents, skills and production
// solutions, by id.
type Known struct {
	SolutionID string // of the graph itself
	Agents     map[string]bool
	Skills     map[string]bool
	Solutions  map[string]bool
	Webhooks   map[string]bool
	Colleagues map[string]bool // users who share a workspace with the owner and may act in it
}

// Names are the skills and production solutions that a graph names, sorted.
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

// Agents are the agent_ids of production agents that a graph names, sorted.
func (g Graph) Agents() []string {
	named := map[string]bool{}

	for _, n := range g.Nodes {
		if c := n.config(); c.AgentID != "" {
			named[c.AgentID] = true
		}
	}

	return slices.Sorted(maps.Keys(named))
}

// Escalations are the webhooks and users that a graph names, sorted.
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

func (n Node) config() Config {
	if n.Config == nil {
		return Config{}
	}

	return *n.Config
}

// Validate finds everything that keeps a graph from being run.
func Validate(g Graph, known Known) domain.Validation {
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
	known  Known
	links  links
	back   links
	node   map[string]*Node // by id, the first of each
	start  *Node            // whose output_schema says what the input is; nil: there is no single one
	before map[int][]bool   // what runs before a node, of those that were asked for
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

	finding := domain.Finding{EdgeID: e.ID, Path: path}

	references, err := checkCondition(e.Condition)
	if err != nil {
		finding.Code, finding.Message = CodeTypeMismatch, "the condition is not valid: "+err.Error()
		if _, syntax := err.(*SyntaxError); syntax {
			finding.Code = CodeUnknownReference
		}

		v.fail(finding)

		return
	}

	for _, r := range references {
		v.checkReference(r, source, true, finding)
	}
}

// checkPaths looks at cycles, and at nodes that no run comes to.
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

func (v *validator) checkNodes() {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		at := fmt.Sprintf("nodes[%d]", i)
		v.checkConfig(n, at)
		v.checkSchema(n, at)
		v.checkTexts(n, at)
		v.checkBounds(n, at)
		v.checkEscalation(n, at+".approval.escalation")
	}
}

// checkConfig checks what a node of its type cannot do without, and the names in it.
func (v *validator) checkConfig(n *Node, at string) {
	c := n.config()
	fail := func(code, field, format string, args ...any) {
		v.fail(domain.Finding{Code: code, Message: fmt.Sprintf(format, args...), NodeID: n.ID, Path: at + "." + field})
	}
	need := func(given bool, field, what string) {
		if !given {
			fail(CodeMissingConfig, field, "node %s of the type %s needs %s", n.ID, n.Type, what)
		}
	}

	switch n.Type {
	case Agent:
		need(c.AgentID != "" || c.Prompt != "", "config.prompt", "an agent_id or a prompt")
	case Tool:
		need(c.Tool != "", "config.tool", "the name of a tool")
	case Map:
		need(n.Inputs["items"] != nil, "inputs.items", "a list of items")
		need(c.AgentID != "" || c.Prompt != "" || c.Tool != "" || c.ProdSolutionID != "", "config", "a prompt, an agent_id, a tool or "+
			"a prod_solution_id")
	case Human:
		need(c.Prompt != "", "config.prompt", "a question as prompt")
	case Subflow:
		need(c.ProdSolutionID != "", "config.prod_solution_id", "a prod_solution_id")
	case Code:
		need(strings.TrimSpace(c.Code) != "", "config.code", "a script as code")

		if len(c.Code) > MaxCode {
			fail(CodeTypeMismatch, "config.code", "the code of node %s has %d bytes; at most %d are possible", n.ID, len(c.Code), MaxCode)
		}
	case Wait:
		need(c.WaitS > 0, "config.wait_s", "a wait_s above 0")
	case Condition:
		need(slices.ContainsFunc(v.Edges, func(e Edge) bool { return e.Source == n.ID && e.Condition != "" }),
			"config", "an edge that leaves it with a condition")
	case Start, End, Join: // they need nothing
	}

	if n.OnError == ErrorIsRouted {
		need(slices.ContainsFunc(v.Edges, func(e Edge) bool { return e.Source == n.ID && e.Kind == EdgeError }),
			"on_error", "an edge of the kind error that leaves it")
	}

	if a := n.Approval; a != nil && a.Policy != ApprovalRequired && a.Policy != ApprovalNone {
		fail(CodeTypeMismatch, "approval.policy", "the approval policy of node %s is neither required nor none", n.ID)
	}

	if c.AgentID != "" && !v.known.Agents[c.AgentID] {
		fail(CodeMissingAgent, "config.agent_id", "there is no production agent %s", shorten(c.AgentID))
	}

	if c.Skill != "" && !v.known.Skills[c.Skill] {
		fail(CodeMissingSkill, "config.skill", "there is no skill %s", shorten(c.Skill))
	}

	switch {
	case c.ProdSolutionID == "":
	case c.ProdSolutionID == v.known.SolutionID:
		fail(CodeUnboundedLoop, "config.prod_solution_id", "node %s runs the DAG that it is part of, without end", n.ID)
	case !v.known.Solutions[c.ProdSolutionID]:
		fail(CodeUnknownReference, "config.prod_solution_id", "there is no production solution %s", shorten(c.ProdSolutionID))
	}
}

func (v *validator) checkBounds(n *Node, at string) {
	unused := func(field, why string) {
		v.warn(domain.Finding{
			Code:    CodeTypeMismatch,
			Message: fmt.Sprintf("node %s has a field without effect: %s", n.ID, why),
			NodeID:  n.ID,
			Path:    at + "." + field,
		})
	}
	if c := n.config(); c.AgentID != "" && c.Skill != "" {
		unused("config.skill", "the skills are those of the production agent")
	}

	if n.Type != Code && n.config().Code != "" {
		unused("config.code", "only a node of the type code runs it")
	}

	if n.HeartbeatS != nil && !n.Watched() {
		unused("heartbeat_s", "only agents, tools, code and maps of them are watched")
	}

	if n.Retry != nil && n.Retry.MaxAttempts == 0 {
		v.fail(domain.Finding{
			Code: CodeUnboundedLoop, Message: fmt.Sprintf("node %s is tried again without end: set max_attempts", n.ID), NodeID: n.ID,
			Path: at + ".retry.max_attempts",
		})
	}
}

// checkEscalation checks what becomes of a question that no user answers.
func (v *validator) checkEscalation(n *Node, at string) {
	if n.Approval == nil || n.Approval.Escalation == nil {
		return
	}

	e := n.Approval.Escalation
	asks := n.Approval.Policy == ApprovalRequired
	fail := func(wrong bool, code, field, format string, args ...any) {
		if wrong {
			v.fail(domain.Finding{Code: code, Message: fmt.Sprintf(format, args...), NodeID: n.ID, Path: at + field})
		}
	}

	if !asks && n.Type != Human {
		fail(true, CodeTypeMismatch, "", "node %s asks nothing: an escalation needs the policy required, or a human node", n.ID)
		return
	}

	fail(e.TimeoutS == 0 && e.EscalateAfterS == 0, CodeMissingConfig, "", "the escalation of node %s needs timeout_s or "+
		"escalate_after_s", n.ID)
	fail(e.TimeoutS == 0 && e.DefaultAnswer != "", CodeMissingConfig, ".timeout_s", "default_answer of node %s needs timeout_s", n.ID)
	fail(e.EscalateAfterS == 0 && (len(e.Webhooks) > 0 || e.UserID != ""), CodeMissingConfig, ".escalate_after_s",
		"webhooks and user_id of node %s need escalate_after_s", n.ID)
	fail(e.TimeoutS > 0 && e.EscalateAfterS >= e.TimeoutS, CodeTypeMismatch, ".escalate_after_s",
		"escalate_after_s of node %s is not below its timeout_s", n.ID)

	options := n.config().Options
	if asks {
		options = []string{AnswerApprove, AnswerReject, ""}
	}

	fail(!asks && e.TimeoutS > 0 && e.DefaultAnswer == "", CodeMissingConfig, ".default_answer", "timeout_s of node %s needs "+
		"default_answer", n.ID)
	fail(e.DefaultAnswer != "" && len(options) > 0 && !slices.Contains(options, e.DefaultAnswer), CodeTypeMismatch, ".default_answer",
		"default_answer of node %s is none of its answers", n.ID)

	for i, id := range e.Webhooks {
		fail(!v.known.Webhooks[id], CodeUnknownReference, fmt.Sprintf(".webhooks[%d]", i), "there is no webhook %s", shorten(id))
	}

	fail(e.UserID != "" && !v.known.Colleagues[e.UserID], CodeUnknownReference, ".user_id",
		"user %s is no member of a workspace of the owner who may act in it", shorten(e.UserID))
}

func (v *validator) checkSchema(n *Node, at string) {
	if n.OutputSchema == nil {
		return
	}

	raw, err := json.Marshal(n.OutputSchema)
	if err == nil {
		_, err = schema.Compile(raw)
	}

	if err != nil {
		v.fail(domain.Finding{Code: CodeTypeMismatch, Message: domain.AsError(err).Message, NodeID: n.ID, Path: at + ".output_schema"})
	}
}

// assigned matches what looks like a credential that is given by name.
var assigned = regexp.MustCompile(`(?i)\b(?:password|passwd|secret|api[_-]?key|access[_-]?token)\b["']?\s*[:=]\s*["']?[^\s"'{}<>$]{8,}`)

// checkTexts looks at all texts of a node that may hold references or secrets.
func (v *validator) checkTexts(n *Node, at string) {
	c := n.config()
	v.checkText(c.Prompt, n, at+".config.prompt")
	v.checkSecrets(c.Code, n, at+".config.code") // braces are part of many languages

	for _, name := range slices.Sorted(maps.Keys(c.Arguments)) {
		v.checkValue(c.Arguments[name], n, at+".config.arguments."+name)
	}

	for _, name := range slices.Sorted(maps.Keys(n.Inputs)) {
		v.checkValue(n.Inputs[name], n, at+".inputs."+name)
	}

	if n.Type == Map && n.Inputs["items"] != nil {
		v.checkItems(n, at+".inputs.items")
	}
}

func (v *validator) checkValue(raw json.RawMessage, n *Node, path string) {
	var value any
	if json.Unmarshal(raw, &value) == nil {
		v.walkTexts(value, n, path)
	}
}

func (v *validator) walkTexts(value any, n *Node, path string) {
	switch value := value.(type) {
	case string:
		v.checkText(value, n, path)
	case []any:
		for i, inner := range value {
			v.walkTexts(inner, n, fmt.Sprintf("%s[%d]", path, i))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			v.walkTexts(value[name], n, path+"."+name)
		}
	}
}

func (v *validator) checkText(text string, n *Node, path string) {
	v.checkSecrets(text, n, path)
	finding := domain.Finding{Code: CodeUnknownReference, NodeID: n.ID, Path: path}

	template, err := ParseTemplate(text)
	if err != nil {
		finding.Message = err.Error()
		v.fail(finding)

		return
	}

	for _, r := range template.References() {
		v.checkReference(r, n, false, finding)
	}
}

func (v *validator) checkSecrets(text string, n *Node, path string) {
	finding := domain.Finding{Code: CodeSecretInPrompt, NodeID: n.ID, Path: path}

	switch {
	case domain.SecretShapes.MatchString(text):
		finding.Message = "the text holds a credential: keep it in an environment bucket"
		v.fail(finding)
	case assigned.MatchString(text):
		finding.Message = "the text may hold a credential: keep it in an environment bucket"
		v.warn(finding)
	}
}

// checkReference checks one reference of node n, or of an edge that leaves it. An edge
// may refer to the output of its source.
func (v *validator) checkReference(r Reference, n *Node, edge bool, finding domain.Finding) {
	finding.Code = CodeUnknownReference
	fail := func(format string, args ...any) {
		finding.Message = fmt.Sprintf(format, args...)
		v.fail(finding)
	}

	if r.Root == RootItem {
		if edge || n == nil || n.Type != Map {
			fail("%s is known only in a map node", r)
		}

		return
	}

	if r.Root == RootInput {
		if v.start != nil {
			v.checkField(r, v.start, finding)
		}

		return
	}

	source := v.node[r.NodeID]
	switch {
	case source == nil:
		fail("%s names node %s, which does not exist", r, r.NodeID)
		return
	case n == nil, edge && source == n:
	case !v.cyclic && !v.runsBefore(source, n):
		fail("%s names node %s, which does not run before %s", r, r.NodeID, n.ID)
		return
	}

	v.checkField(r, source, finding)
}

// runsBefore reports whether a path leads from one node to another.
func (v *validator) runsBefore(source, n *Node) bool {
	number := v.links.number[n.ID]

	before, known := v.before[number]
	if !known {
		before = v.back.reach(v.back.next[number]...)
		v.before[number] = before
	}

	return before[v.links.number[source.ID]]
}

// schemaAt is the part of a JSON Schema that validation looks at.
type schemaAt struct {
	Type       any                        `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Additional json.RawMessage            `json:"additionalProperties"`
}

// checkField reports fields that the output_schema of a node does not have, and returns
// the type that it gives the place of the reference; empty: unknown.
func (v *validator) checkField(r Reference, source *Node, finding domain.Finding) (kind string) {
	if source.OutputSchema == nil {
		return ""
	}

	raw, err := json.Marshal(source.OutputSchema)
	if err != nil {
		return ""
	}

	for i := 0; ; i++ {
		var s schemaAt
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}

		kind, _ = s.Type.(string)
		if i == len(r.Path) {
			return kind
		}

		field := r.Path[i]

		if kind != "" && kind != "object" && kind != "array" {
			finding.Code = CodeTypeMismatch
			finding.Message = fmt.Sprintf(
				"%s takes the field %s of what is a %s by the output_schema of node %s",
				r,
				field,
				kind,
				source.ID,
			)
			v.fail(finding)

			return ""
		}

		next, found := s.Properties[field]
		if !found {
			if len(s.Properties) > 0 || string(s.Additional) == "false" {
				finding.Message = fmt.Sprintf(
					"%s names the field %s, which the output_schema of node %s does not have",
					r,
					field,
					source.ID,
				)
				if string(s.Additional) == "false" {
					v.fail(finding)
				} else {
					v.warn(finding)
				}
			}

			return ""
		}

		raw = next
	}
}

// checkItems checks that what a map goes over is a list, as far as that is known.
func (v *validator) checkItems(n *Node, path string) {
	finding := domain.Finding{Code: CodeTypeMismatch, NodeID: n.ID, Path: path}

	var value any
	if json.Unmarshal(n.Inputs["items"], &value) != nil {
		return
	}

	kind := "array"

	switch value := value.(type) {
	case []any:
	case string:
		template, err := ParseTemplate(value)
		if err != nil {
			return // reported as a text
		}

		if kind = "string"; template.Whole() != nil {
			kind = v.kindOf(*template.Whole())
		}
	default:
		kind = "value of another type"
	}

	if kind != "array" && kind != "" {
		finding.Message = fmt.Sprintf("a map goes over a list; items is a %s", kind)
		v.fail(finding)
	}
}

// kindOf is the type of a reference by the schema of its node; empty: unknown. What
// is wrong with it is reported as part of its text.
func (v *validator) kindOf(r Reference) string {
	quiet := &validator{}

	switch source := v.node[r.NodeID]; {
	case r.Root == RootInput && v.start != nil:
		return quiet.checkField(r, v.start, domain.Finding{})
	case r.Root == RootNodes && source != nil:
		return quiet.checkField(r, source, domain.Finding{})
	}

	return ""
}
