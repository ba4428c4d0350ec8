package dagrun

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/document"
	"everloop/domain/schema"
)

// Request is the input of a node, with all references resolved.
type Request struct {
	Prompt    string         `json:"prompt,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"`
	Inputs    map[string]any `json:"inputs,omitempty"`
	Before    []Before       `json:"before,omitempty"` // outputs of the nodes before it
	Files     []FilesFrom    `json:"files,omitempty"`  // that are put into its workspace
	// Workspace is the unit that worked in the workspace before, by its row; empty: none did.
	Workspace string `json:"workspace,omitempty"`
}

// Before is the output of a predecessor of a node.
type Before struct {
	NodeID string `json:"node_id"`
	Output any    `json:"output"`
}

// scope contains the values of references.
type scope struct {
	outputs func(nodeID string) any
	input   any
	item    any
	left    *int // bytes that texts may still grow by; references multiply the referenced text
}

// take subtracts the bytes of a value, and reports whether enough were left.
func (s scope) take(value any) bool {
	if *s.left >= 0 {
		*s.left -= sizeOf(value, *s.left)
	}

	return *s.left >= 0
}

// sizeOf returns a lower bound of the size of a value as JSON, in bytes; it stops above a
// limit.
func sizeOf(value any, limit int) (size int) {
	switch value := value.(type) {
	case string:
		size = len(value)
	case []any:
		size = 1

		for _, element := range value {
			if size += 1 + sizeOf(element, limit-size); size > limit {
				return size
			}
		}
	case map[string]any:
		for name, element := range value {
			if size += 4 + len(name) + sizeOf(element, limit-size); size > limit {
				return size
			}
		}
	default:
		size = 1
	}

	return size
}

// value returns the value of a reference; null if it does not exist.
func (s scope) value(r dag.Reference) any {
	var at any

	switch r.Root {
	case dag.RootNodes:
		at = s.outputs(r.NodeID)
	case dag.RootInput:
		at = s.input
	default:
		at = s.item
	}

	for _, field := range r.Path {
		if text, isText := at.(string); isText && field == "text" {
			at = text // an output without JSON is its text
			continue
		}

		object, _ := at.(map[string]any)
		at = object[field]
	}

	return at
}

// text resolves a template: to the value itself if the template is a single reference.
func (s scope) text(text string) any {
	template, err := dag.ParseTemplate(text)
	if err != nil {
		return text // validation has rejected it
	}

	if whole := template.Whole(); whole != nil {
		if value := s.value(*whole); s.take(value) {
			return value
		}

		return nil
	}

	var out strings.Builder

	for _, segment := range template {
		var value any = segment.Text
		if segment.Reference != nil {
			value = s.value(*segment.Reference)
		}

		if !s.take(value) {
			return nil
		}

		out.WriteString(asText(value))
	}

	return out.String()
}

// asText returns the form of a value within a text: text unchanged, null as the empty text,
// anything else as JSON.
func asText(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		raw, _ := marshal(value)
		return string(raw)
	}
}

// marshal encodes JSON without HTML escapes (< and &).
func marshal(value any) (json.RawMessage, error) {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)

	return bytes.TrimRight(out.Bytes(), "\n"), err
}

// any resolves the texts within a JSON value.
func (s scope) any(value any) any {
	switch value := value.(type) {
	case string:
		return s.text(value)
	case []any:
		out := make([]any, len(value))
		for i, inner := range value {
			out[i] = s.any(inner)
		}

		return out
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, inner := range value {
			out[name] = s.any(inner)
		}

		return out
	default:
		s.take(value)
		return value
	}
}

func (s scope) values(given map[string]json.RawMessage) map[string]any {
	if len(given) == 0 {
		return nil
	}

	out := make(map[string]any, len(given))
	for name, raw := range given {
		out[name] = s.any(decode(raw))
	}

	return out
}

// decode parses stored JSON; invalid JSON is null.
func decode(raw json.RawMessage) any {
	var value any

	_ = json.Unmarshal(raw, &value)

	return value
}

// resolve returns the request of a node. It adds the output of each predecessor whose whole
// output is not part of the node's texts already. It subtracts the used bytes from left, which
// is negative when they exceed it.
func (s scope) resolve(n dag.Node, before []string, left *int) Request {
	s.left = left
	c := configOf(n)
	request := Request{Prompt: asText(s.text(c.Prompt)), Arguments: s.values(c.Arguments), Inputs: s.values(n.Inputs)}

	named := wholeOutputs(n)
	for _, id := range before {
		if output := s.outputs(id); !named[id] && s.take(output) {
			request.Before = append(request.Before, Before{id, output})
		}
	}

	return request
}

// wholeOutputs returns the nodes whose whole output the texts of a node refer to.
func wholeOutputs(n dag.Node) map[string]bool {
	found := map[string]bool{}
	look := func(text string) {
		template, err := dag.ParseTemplate(text)
		if err != nil {
			return
		}

		for _, r := range template.References() {
			if r.Root == dag.RootNodes && len(r.Path) == 0 {
				found[r.NodeID] = true
			}
		}
	}
	look(configOf(n).Prompt)

	for _, raw := range n.Inputs {
		if text, isText := decode(raw).(string); isText {
			look(text)
		}
	}

	return found
}

// Message is the text that is sent to an agent.
func (r Request) Message() string {
	var out strings.Builder
	out.WriteString(r.Prompt)

	section := func(title string, value any) {
		text := asText(value)
		if text == "" || text == "{}" {
			return
		}

		fmt.Fprintf(&out, "\n\n%s:\n%s", title, text)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Inputs)) {
		section("Input "+name, r.Inputs[name])
	}

	for _, b := range r.Before {
		section("Output of "+b.NodeID, b.Output)
	}

	for _, f := range r.Files {
		section("Files of "+f.From, fmt.Sprintf("%d in the workspace, at %s", f.Files, cmp.Or(f.To, ".")))
	}

	return strings.TrimSpace(out.String())
}

func configOf(n dag.Node) dag.Config {
	if n.Config == nil {
		return dag.Config{}
	}

	return *n.Config
}

// digestOf returns a digest of a value: equal values have equal digests.
func digestOf(value any) string {
	raw, err := document.Encode(value)
	if err != nil {
		return "" // differs from every digest
	}

	return document.Digest(raw)
}

// Definition returns the digest of a node's behavior: its name and position do not count.
func Definition(n dag.Node) string {
	n.Name, n.Position, n.Retry, n.TimeoutS, n.HeartbeatS, n.OnError, n.Concurrency = "", nil, nil, nil, nil, "", nil
	n.Approval = nil

	return digestOf(n)
}

// CheckOutput checks an output against the schema of its node.
func CheckOutput(outputSchema map[string]json.RawMessage, output json.RawMessage) *NodeFailure {
	if outputSchema == nil {
		return nil
	}

	raw, err := json.Marshal(outputSchema)
	if err != nil {
		return &NodeFailure{CodeInvalidOutput, "its output_schema cannot be read"}
	}

	compiled, err := schema.Compile(raw)
	if err != nil {
		return &NodeFailure{CodeInvalidOutput, domain.AsError(err).Message}
	}

	value, err := schema.ParseJSON(string(output))
	if err == nil {
		err = compiled.Validate(value)
	}

	if err != nil {
		return &NodeFailure{CodeInvalidOutput, cut("the output does not follow output_schema: " + err.Error())}
	}

	return nil
}

// CheckInputs validates the inputs of a run against the output_schema of the start node.
func CheckInputs(g dag.Graph, inputs json.RawMessage) error {
	for _, n := range g.Nodes {
		if n.Type != dag.Start {
			continue
		}

		if failure := CheckOutput(n.OutputSchema, inputs); failure != nil {
			text := strings.Replace(failure.Message, "output does", "inputs do", 1)

			return &domain.Error{
				Kind: domain.Invalid, Code: CodeInvalidInputs, Message: text,
				Fields: []domain.Field{{Location: "body.inputs", Message: text}},
			}
		}
	}

	return nil
}

// cut shortens the text of a failure.
func cut(text string) string {
	const most = 2000
	if len(text) <= most {
		return text
	}

	return strings.ToValidUTF8(text[:most], "") + "…"
}
