package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shape is a JSON schema of the document, as far as bounds are concerned.
type shape struct {
	Ref        string            `json:"$ref"`
	AnyOf      []*shape          `json:"anyOf"`
	Type       any               `json:"type"`
	Format     string            `json:"format"`
	Pattern    string            `json:"pattern"`
	Enum       []any             `json:"enum"`
	Default    any               `json:"default"`
	Minimum    *float64          `json:"minimum"`
	Maximum    *float64          `json:"maximum"`
	MinLength  *int              `json:"minLength"`
	MaxLength  *int              `json:"maxLength"`
	MinItems   *int              `json:"minItems"`
	MaxItems   *int              `json:"maxItems"`
	Required   []string          `json:"required"`
	Properties map[string]*shape `json:"properties"`
	Items      *shape            `json:"items"`
	Additional json.RawMessage   `json:"additionalProperties"`
}

// bounds is the document as the bounds of what operations take.
type bounds struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Name, In, Ref string
			Required      bool
			Schema        *shape
		} `json:"parameters"`
		RequestBody *struct {
			Required bool
			Content  map[string]struct{ Schema *shape }
		} `json:"requestBody"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]*shape `json:"schemas"`
	} `json:"components"`
}

func (w *world) bounds() *bounds {
	w.t.Helper()

	var d bounds
	require.NoError(w.t, json.Unmarshal([]byte(w.do("GET", "/api/openapi.json", "", "").text), &d))

	return &d
}

// of follows references, and takes the object of one that may be null.
func (d *bounds) of(s *shape) *shape {
	for s.Ref != "" || len(s.AnyOf) == 2 {
		if s.Ref == "" {
			s = s.AnyOf[0]
			continue
		}

		s = d.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}

	return s
}

// kind returns the type next to null; empty: anything fits.
func (s *shape) kind() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if one != "null" {
				return one.(string)
			}
		}
	}

	return ""
}

func (s *shape) nullable() bool {
	list, _ := s.Type.([]any)
	return slices.Contains(list, any("null"))
}

// example makes a value that fits.
func (d *bounds) example(s *shape) any {
	s = d.of(s)
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.kind() == "string" && s.Format == "date-time":
		return "2099-01-01T00:00:00Z"
	case s.kind() == "string":
		return strings.Repeat("a", max(1, at(s.MinLength)))
	case s.kind() == "integer" || s.kind() == "number":
		return max(1, at(s.Minimum))
	case s.kind() == "boolean":
		return true
	case s.kind() == "array":
		return d.many(s, at(s.MinItems))
	case s.kind() == "object":
		out := map[string]any{}
		for _, name := range s.Required {
			out[name] = d.example(s.Properties[name])
		}

		return out
	default:
		return "a"
	}
}

func (d *bounds) many(s *shape, n int) []any { return slices.Repeat([]any{d.example(s.Items)}, n) }

func at[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}

	return v
}

// sides returns values on the inner side of each bound of a value, and values on
// the outer side.
func (d *bounds) sides(s *shape) (inside, outside []any) {
	object, list := map[string]any{}, []any{}
	in := func(v ...any) { inside = append(inside, v...) }
	out := func(v ...any) { outside = append(outside, v...) }

	switch s.kind() {
	case "string":
		out(5, true, list, object)
		in(s.Enum...)

		if s.MinLength != nil && s.Pattern == "" {
			in(strings.Repeat("ä", *s.MinLength))
		}

		if at(s.MinLength) > 0 {
			out(strings.Repeat("a", *s.MinLength-1))
		}

		if s.MaxLength != nil {
			out(strings.Repeat("a", *s.MaxLength+1))

			if s.Pattern == "" {
				in(strings.Repeat("ä", *s.MaxLength))
			}
		}

		if len(s.Enum) > 0 || s.Pattern != "" || s.Format == "date-time" {
			out(" ")
		}
	case "integer", "number":
		out("1", true, list, object)

		if s.kind() == "integer" {
			out(1.5)
		}

		if s.Minimum != nil {
			in(*s.Minimum)
			out(*s.Minimum - 1)
		}

		if s.Maximum != nil {
			in(*s.Maximum)
			out(*s.Maximum + 1)
		}

		if len(s.Enum) > 0 {
			in(s.Enum...)
			out(-1)
		}
	case "boolean":
		in(true, false)
		out("true", 1, list, object)
	case "array":
		out("x", 5, object)
		in(d.many(s, at(s.MinItems)))

		if at(s.MinItems) > 0 {
			out(d.many(s, *s.MinItems-1))
		}

		if s.MaxItems != nil {
			in(d.many(s, *s.MaxItems))
			out(d.many(s, *s.MaxItems+1))
		}
	case "object":
		out("x", 5, list)
	}

	return inside, outside
}

// gone stands for a field that is left out.
type gone struct{}

// trial is one value of one field, which is refused or is not.
type trial struct {
	field   []any // names and indexes from the body down
	value   any
	refused bool
}

func (t trial) location() string {
	out := "body"

	for _, step := range t.field {
		if _, index := step.(int); index {
			out += fmt.Sprintf("[%d]", step)
		} else {
			out += fmt.Sprintf(".%s", step)
		}
	}

	return out
}

// trials returns what must be tried with a value and all that is in it. Fields
// of which nothing is declared go to free.
func (d *bounds) trials(s *shape, field []any, required bool, free *[]string) []trial {
	s = d.of(s)

	var all []trial

	inside, outside := d.sides(s)
	for _, v := range inside {
		all = append(all, trial{field, v, false})
	}

	for _, v := range outside {
		all = append(all, trial{field, v, true})
	}

	if len(outside) == 0 {
		*free = append(*free, trial{field: field}.location())
	}

	if len(field) > 0 && required && s.kind() != "" {
		all = append(all, trial{field, nil, !s.nullable()})
	}

	if _, named := last(field).(string); named && required {
		all = append(all, trial{field, gone{}, true})
	}

	below := func(step any) []any { return append(slices.Clone(field), step) }
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, d.trials(s.Properties[name], below(name), slices.Contains(s.Required, name), free)...)
	}

	if s.Items != nil && len(s.Enum) == 0 {
		for _, t := range d.trials(s.Items, below(0), true, free) {
			if _, left := t.value.(gone); !left || len(t.field) > len(field)+1 {
				all = append(all, t)
			}
		}
	}

	var values shape
	if json.Unmarshal(s.Additional, &values) == nil && (values.Type != nil || values.Ref != "") {
		for _, t := range d.trials(&values, below("K"), true, free) {
			if _, left := t.value.(gone); !left || len(t.field) > len(field)+1 {
				all = append(all, t)
			}
		}
	}

	return all
}

func last(field []any) any {
	if len(field) == 0 {
		return nil
	}

	return field[len(field)-1]
}

// put gives the body with a field set; what is missing on the way is made.
func (d *bounds) put(s *shape, body any, field []any, value any) any {
	if len(field) == 0 {
		return value
	}

	if s = d.of(s); body == nil {
		body = d.example(s)
	}

	switch step := field[0].(type) {
	case int:
		list := slices.Clone(body.([]any))
		if len(list) == 0 {
			list = d.many(s, 1)
		}

		list[step] = d.put(s.Items, list[step], field[1:], value)

		return list
	default:
		name := step.(string)

		object := maps.Clone(body.(map[string]any))
		if _, left := value.(gone); left && len(field) == 1 {
			delete(object, name)
			return object
		}

		inner := s.Properties[name]
		if inner == nil {
			inner = &shape{}
			_ = json.Unmarshal(s.Additional, inner)
		}

		object[name] = d.put(inner, object[name], field[1:], value)

		return object
	}
}

// unbounded are the fields of which anything is taken, or that are checked by
// their handlers: the walk has rows for those. The list may only shrink.
var unbounded = []string{
	"POST /api/sessions/{session_id}/chat body.message",
	"POST /api/payloads/{payload_id}/annotations body.value",
	"PATCH /api/payloads/{payload_id}/annotations/{annotation_id} body.value",
	"POST /api/sessions/tokenize/messages body.messages[0].content",
	"POST /api/sessions/tokenize/messages body.messages[0].tool_calls[0]",
	"POST /api/sessions/tokenize/messages body.tools[0]",
}

// TestEveryBound tries each field of each operation on both sides of each of its
// bounds, with other types, with null and left out, as the document has them.
func TestEveryBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.bounds()

	var loose []string

	for _, c := range walk {
		op := d.Paths[c.path][strings.ToLower(c.method)]
		where := *w
		c, who := where.ready(c)
		free := []string{}

		if op.RequestBody != nil {
			if form, ok := op.RequestBody.Content["application/json"]; ok {
				t.Run(c.method+" "+c.path+" body", func(t *testing.T) {
					where.t = t
					where.tryBody(d, c, who, form.Schema, &free)
				})
			}
		}

		for _, p := range op.Parameters {
			if p.In != "query" && p.In != "path" || p.Schema == nil {
				continue
			}

			t.Run(c.method+" "+c.path+" "+p.Name, func(t *testing.T) {
				where.t = t
				where.tryParameter(d, c, who, p.In, p.Name, p.Required, p.Schema)
			})
		}

		for _, field := range free {
			loose = append(loose, c.method+" "+c.path+" "+field)
		}
	}

	require.ElementsMatch(t, unbounded, loose)
}

func (w *world) tryBody(d *bounds, c call, who string, s *shape, free *[]string) {
	t := w.t
	require.True(t, c.hasBody, "the walk knows that it takes a body")

	var right any = map[string]any{}
	if c.body != "" {
		require.NoError(t, json.Unmarshal([]byte(c.body), &right))
	}

	for _, trial := range d.trials(s, nil, true, free) {
		body, err := json.Marshal(d.put(s, right, trial.field, trial.value))
		require.NoError(t, err)

		about := fmt.Sprintf("%s is %.60v", trial.location(), trial.value)

		r := w.do(c.method, c.url, who, string(body))
		if trial.refused {
			require.Equal(t, 422, r.status, "%s: %s", about, r.text)
			require.Contains(t, r.fields(), blamed(trial.location()), "%s: %s", about, r.text)

			continue
		}

		w.notRefused(c, r, trial.location(), about)
	}
}

// blamed returns the location that a refusal names for a field: for these lists and maps
// of a chat and of an answer, that of the whole.
func blamed(location string) string {
	for _, whole := range []string{
		"body.askuser_answer.selections", "body.askuser_answer.custom", "body.whatif.deprecate_entry_ids",
		"body.selections", "body.custom",
	} {
		if strings.HasPrefix(location, whole+".") || strings.HasPrefix(location, whole+"[") {
			return whole
		}
	}

	return location
}

// notRefused takes what an answer says about a field's meaning, and nothing
// about its form.
func (w *world) notRefused(c call, r reply, location, about string) {
	t := w.t

	if r.status < 400 || r.status == c.status {
		return
	}

	p := r.problem(r.status)
	require.Less(t, r.status, 500, "%s: %s", about, r.text)

	if p["code"] == "invalid_path" {
		return // file systems count bytes
	}

	require.NotEqual(t, 400, r.status, "%s: %s", about, r.text)

	fields, _ := p["errors"].([]any)
	for _, f := range fields {
		f := f.(map[string]any)
		if f["location"] == location {
			require.NotContains(t, f["message"], "expected", "%s: %s", about, r.text)
		}
	}
}
