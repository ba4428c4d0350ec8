package dag

import (
	"encoding/json"
	"fmt"
	"strings"

	"everloop/domain"
)

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

	if r.Root == RootLoop {
		condition := strings.HasSuffix(finding.Path, ".config.condition")

		switch {
		case edge || n == nil || n.Type != Loop:
			fail("%s is known only in a loop", r)
		case r.Path[0] == LoopOutput && !condition:
			fail("%s is known only in the condition of a loop", r)
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

// runsBefore reports whether there is a path from source to n.
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

// checkField reports fields that the output_schema of a node does not have, and returns the
// type at the path of the reference; empty: unknown.
func (v *validator) checkField(r Reference, source *Node, finding domain.Finding) (kind string) {
	if source.OutputSchema == nil || source.Type == Loop { // the output of a loop holds that of its last iteration
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

// checkItems checks that a map iterates over a list, where the type is known.
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

// kindOf returns the type of a reference by the schema of its node; empty: unknown. Faults of
// the reference are reported as part of its text.
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
