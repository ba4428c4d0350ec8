package dag

import (
	"fmt"
	"slices"
	"strings"
)

// The roots of references.
const (
	RootNodes = "nodes" // the output of a node
	RootInput = "input" // the input of the run
	RootItem  = "item"  // of a map: the current item
	RootLoop  = "loop"  // of a loop: the current iteration
)

// Reference names a value of a run: {{nodes.ID.output}}, {{nodes.ID.output.field}},
// {{input.field}}, in a map node {{item}} and {{item.field}}, and in a loop {{loop.iteration}} and
// {{loop.previous}}, in its condition {{loop.output}}, too.
type Reference struct {
	Root   string
	NodeID string // with RootNodes
	Path   []string
}

// String returns the reference in template syntax.
func (r Reference) String() string {
	parts := []string{r.Root}
	if r.Root == RootNodes {
		parts = append(parts, r.NodeID, "output")
	}

	return "{{" + strings.Join(append(parts, r.Path...), ".") + "}}"
}

// Segment is a part of a template: literal text, or a reference.
type Segment struct {
	Text      string
	Reference *Reference
}

// Template is a text with references.
type Template []Segment

// SyntaxError reports where a text has an invalid reference. Offset counts bytes.
type SyntaxError struct {
	Offset  int
	Message string
}

// Error implements error.
func (e *SyntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Message) }

const (
	opening = "{{"
	closing = "}}"
	escaped = `\{{` // represents {{ in the text
)

// maxReference bounds the text of one reference in bytes.
const maxReference = 500

// maxSyntaxErrors bounds the reported faults of one text.
const maxSyntaxErrors = 20

// ParseTemplate parses the references in a text. Literal braces are written as \{{.
func ParseTemplate(text string) (Template, error) {
	template, faults := parseTemplate(text)
	if len(faults) > 0 {
		return nil, faults[0]
	}

	return template, nil
}

// parseTemplate parses the references in a text, and reports all invalid ones.
func parseTemplate(text string) (out Template, faults []*SyntaxError) {
	var literal strings.Builder

	flush := func() {
		if literal.Len() > 0 {
			out = append(out, Segment{Text: literal.String()})
			literal.Reset()
		}
	}

	for at := 0; at < len(text) && len(faults) < maxSyntaxErrors; {
		rest := text[at:]
		switch {
		case strings.HasPrefix(rest, escaped):
			literal.WriteString(opening)

			at += len(escaped)
		case strings.HasPrefix(rest, opening):
			end := strings.Index(rest, closing)
			if end < 0 || end > maxReference {
				faults = append(faults, &SyntaxError{at, "{{ without }}; write \\{{ for braces that are text"})

				if end < 0 {
					return out, faults
				}

				at += len(opening)

				continue
			}

			reference, err := parseReference(rest[len(opening):end])
			if err != nil {
				faults = append(faults, &SyntaxError{at, err.Error()})
			} else {
				flush()

				out = append(out, Segment{Reference: &reference})
			}

			at += end + len(closing)
		default:
			literal.WriteByte(text[at])
			at++
		}
	}

	flush()

	return out, faults
}

// String returns a text that parses to the template.
func (t Template) String() string {
	var out strings.Builder

	for _, s := range t {
		if s.Reference != nil {
			out.WriteString(s.Reference.String())
			continue
		}

		out.WriteString(strings.ReplaceAll(s.Text, opening, escaped))
	}

	return out.String()
}

// References returns the references of the template, in order.
func (t Template) References() []Reference {
	var out []Reference

	for _, s := range t {
		if s.Reference != nil {
			out = append(out, *s.Reference)
		}
	}

	return out
}

// Whole returns the reference that is the entire template; nil: there is other text or no
// reference. Such a template yields the value itself, others yield text.
func (t Template) Whole() *Reference {
	if len(t) == 1 {
		return t[0].Reference
	}

	return nil
}

func parseReference(text string) (Reference, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	for _, p := range parts {
		if !isName(p) {
			return Reference{}, fmt.Errorf("%q is not a reference; write {{nodes.ID.output}}, {{nodes.ID.output.field}} or {{input.field}}",
				shorten(text))
		}
	}

	switch root := parts[0]; {
	case root == RootNodes && len(parts) >= 3 && parts[2] == "output":
		return Reference{Root: root, NodeID: parts[1], Path: parts[3:]}, nil
	case root == RootNodes:
		return Reference{}, fmt.Errorf(
			"%q does not refer to an output; write {{nodes.ID.output}} or {{nodes.ID.output.field}}",
			shorten(text),
		)
	case root == RootInput && len(parts) >= 2, root == RootItem:
		return Reference{Root: root, Path: parts[1:]}, nil
	case root == RootLoop && len(parts) >= 2 && slices.Contains(loopFields, parts[1]):
		return Reference{Root: root, Path: parts[1:]}, nil
	case root == RootLoop:
		return Reference{}, fmt.Errorf("%q names nothing of a loop; write {{loop.iteration}}, {{loop.previous}} or {{loop.output}}",
			shorten(text))
	case root == RootInput:
		return Reference{}, fmt.Errorf("%q does not refer to a field; write {{input.field}}", shorten(text))
	}

	return Reference{}, fmt.Errorf("%q begins with neither nodes, input, item nor loop", shorten(text))
}

// The fields of the reference loop.
const (
	LoopIteration = "iteration" // its number, from 1
	LoopPrevious  = "previous"  // the output of the iteration before it; null: it is the first one
	LoopOutput    = "output"    // its output, in the condition
)

var loopFields = []string{LoopIteration, LoopPrevious, LoopOutput}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}

	return s != ""
}

// shorten shortens a value for messages, so that they contain little of a possible secret.
func shorten(s string) string {
	const most = 60
	if s = strings.TrimSpace(s); len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}

	return s
}
