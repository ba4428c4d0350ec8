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

// leaf is a field that holds one value, and where it is.
type leaf struct {
	field []any
	kind  string
}

// leaves returns the texts and numbers of a body, as the document has them.
func (d *bounds) leaves(s *shape, field []any) []leaf {
	s = d.of(s)
	below := func(step any) []any { return append(slices.Clone(field), step) }

	switch s.kind() {
	case "string", "integer", "number":
		return []leaf{{field, s.kind()}}
	case "array":
		return d.leaves(s.Items, below(0))
	}

	var all []leaf
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, d.leaves(s.Properties[name], below(name))...)
	}

	var values shape
	if json.Unmarshal(s.Additional, &values) == nil && values.Type != nil {
		all = append(all, d.leaves(&values, below("K"))...)
	}

	return all
}

// Texts and numbers, as they stand in JSON, that are hard to keep or to reckon
// with.
var (
	oddStrings = []string{
		`"\u0000"`,
		`"a\u0000b"`,
		`"\ud800"`,
		`"\udfff\ud800"`,
		`"\u202e\ufeff\u200b"`,
		`"😀👩‍👩‍👧‍👦"`,
		`"\uffff\ufffe"`,
		"\"\xff\xfe\"",
		`"\u001b[31m\r\n\t"`,
		`"../../etc/passwd"`,
		`"'; DROP TABLE sessions; --"`,
		`"%00%s%n{{.}}"`,
	}
	oddNumbers = []string{
		"1e400",
		"-1e400",
		"1e-400",
		"9223372036854775807",
		"9223372036854775808",
		"-9223372036854775809",
		"123456789012345678901234567890",
		"-0",
		"1.0",
		"0.1",
	}
)

// answered checks that whatever was sent, the answer is one that clients can
// read, and no fault of the service.
func (w *world) answered(c call, r reply, about string) {
	w.t.Helper()

	if r.status >= 400 && r.status != c.status {
		r.problem(r.status)
		require.Less(w.t, r.status, 500, "%s: %s", about, r.text)
	}
}

// large are operations of which each reads its body in its own way.
var large = []string{
	"/api/sessions",
	"/api/sessions/{session_id}/chat",
	"/api/sessions/{session_id}/upset_extra_info",
	"/api/profile",
	"/api/sessions/tokenize/prompt",
}

func TestOddBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.bounds()
	huge := `{"zz":"` + strings.Repeat("x", 10<<20) + `"}`

	for _, c := range walk {
		if !c.hasBody || c.stream {
			continue
		}

		t.Run(c.method+" "+c.path, func(t *testing.T) {
			w := *w
			w.t = t
			c, who := w.ready(c)
			body := d.Paths[c.path][strings.ToLower(c.method)].RequestBody
			schema := body.Content["application/json"].Schema
			send := func(body string, changes ...with) reply { return w.do(c.method, c.url, who, body, changes...) }

			if body.Required {
				send("", header("Content-Type", "application/json")).code(400, "malformed_request")
			}

			for _, other := range []string{`[]`, `"x"`, `5`, `true`, `[{}]`} {
				require.Equal(t, []string{"body"}, send(other).fields(), other)
			}

			w.answered(c, send(`null`), "null")

			for _, kind := range []string{
				"text/plain", "application/x-www-form-urlencoded", "application/xml", "application/cbor", "x",
				"multipart/form-data; boundary=x",
			} {
				r := send(`{}`, header("Content-Type", kind))
				require.Contains(t, []int{400, 415}, r.status, "%s: %s", kind, r.text)
				r.problem(r.status)
			}

			send(strings.Repeat(`{"a":`, 20_000)).code(400, "malformed_request")
			send(`{"zz":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`}`).code(400, "malformed_request")
			w.answered(c, send(`{"zz":`+strings.Repeat("[", 9_000)+strings.Repeat("]", 9_000)+`}`), "a deep unknown field")

			if slices.Contains(large, c.path) {
				send(huge).code(413, "body_too_large")
			}

			var right any = map[string]any{}
			if c.body != "" {
				require.NoError(t, json.Unmarshal([]byte(c.body), &right))
			}

			for _, l := range d.leaves(schema, nil) {
				values := oddNumbers
				if l.kind == "string" {
					values = oddStrings
				}

				for _, v := range values {
					text, err := json.Marshal(d.put(schema, right, l.field, json.RawMessage(v)))
					require.NoError(t, err)
					w.answered(c, send(string(text)), fmt.Sprintf("%s is %q", trial{field: l.field}.location(), v))
				}
			}

			w.namesCount(c, who, right)
		})
	}
}

// TestBodiesWithoutRequiredFields sends no body, and an empty one of any type, to each
// operation whose body has no required field: it is as good as the empty object.
func TestBodiesWithoutRequiredFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.bounds()

	var tried []string

	for _, c := range walk {
		op := d.Paths[c.path][strings.ToLower(c.method)]
		if c.stream || op.RequestBody == nil || op.RequestBody.Content["application/json"].Schema == nil {
			continue
		}

		schema := d.of(op.RequestBody.Content["application/json"].Schema)
		if schema.kind() != "object" || len(schema.Properties) == 0 || len(schema.Required) > 0 {
			continue
		}

		if c.path == "/api/sessions/{session_id}/chat" || c.path == "/api/inbox/{question_id}/answer" {
			needy, who := w.ready(c)
			w.do(c.method, needy.url, who, "{}").problem(422) // one of its fields is needed

			continue
		}

		tried = append(tried, c.method+" "+c.path)

		t.Run(c.method+" "+c.path, func(t *testing.T) {
			require.False(t, op.RequestBody.Required, "the document asks for a body")

			w := *w
			w.t = t
			without, who := w.ready(c)
			r := w.do(c.method, without.url, who, "")
			with, who := w.ready(c) // it may work once only
			require.Equal(t, w.do(c.method, with.url, who, "{}").status, r.status, "unlike the empty object: %s", r.text)

			for _, kind := range []string{"application/json", "text/plain"} {
				again := w.do(c.method, with.url, who, "", header("Content-Type", kind))
				require.NotContains(t, []int{400, 415, 500}, again.status, "%s: %s", kind, again.text)
			}
		})
	}

	for _, one := range []string{
		"POST /api/sessions",
		"POST /api/prod_solution/dag/{prod_solution_id}/publish",
		"POST /api/prod_solution/architecture/{prod_solution_id}/publish",
		"POST /api/prod_solution/dag/{prod_solution_id}/runs",
		"POST /api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/retry",
		"POST /api/prod_workspaces/{workspace_id}/issues/query",
	} {
		require.Contains(t, tried, one)
	}
}

// TestUnknownFields sends every declared object of every body with a further field, which
// is ignored.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.bounds()

	for _, c := range walk {
		op := d.Paths[c.path][strings.ToLower(c.method)]
		if c.stream || op.RequestBody == nil || op.RequestBody.Content["application/json"].Schema == nil {
			continue
		}

		t.Run(c.method+" "+c.path, func(t *testing.T) {
			schema := op.RequestBody.Content["application/json"].Schema
			require.Empty(t, d.closed(schema, "body", map[string]bool{}), "objects that take no further fields")

			w := *w
			w.t = t
			c, who := w.ready(c)

			var right any = map[string]any{}
			if c.body != "" {
				require.NoError(t, json.Unmarshal([]byte(c.body), &right))
			}

			body, err := json.Marshal(d.extended(schema, right))
			require.NoError(t, err)

			r := w.do(c.method, c.url, who, string(body))
			require.Equal(t, c.status, r.status, "%s: %s", body, r.text)
		})
	}
}

// TestCreated checks which operations answer 201, and that all others do not.
func TestCreated(t *testing.T) {
	t.Parallel()

	var created []string

	for _, c := range walk {
		if c.status == 201 {
			created = append(created, c.method+" "+c.path)
		}
	}

	require.ElementsMatch(t, []string{
		"POST /api/memories", "POST /api/user/api-keys/", "POST /api/scheduled-tasks", "POST /api/admin/users",
		"POST /api/triggers",
	}, created)
}

// closed returns the places of a body whose objects take declared fields only.
func (d *bounds) closed(s *shape, at string, seen map[string]bool) (places []string) {
	if s.Ref != "" && seen[s.Ref] {
		return nil
	}

	seen[s.Ref] = true

	s = d.of(s)
	if string(s.Additional) == "false" {
		places = append(places, at)
	}

	for name, inner := range s.Properties {
		places = append(places, d.closed(inner, at+"."+name, seen)...)
	}

	if s.Items != nil {
		places = append(places, d.closed(s.Items, at+"[0]", seen)...)
	}

	return places
}

// extended returns a body whose objects with declared fields have one more.
func (d *bounds) extended(s *shape, body any) any {
	s = d.of(s)

	switch body := body.(type) {
	case map[string]any:
		if len(s.Properties) == 0 {
			return body
		}

		more := map[string]any{"zz": map[string]any{"zz": []any{1}}}

		for name, value := range body {
			more[name] = value
			if inner := s.Properties[name]; inner != nil {
				more[name] = d.extended(inner, value)
			}
		}

		return more
	case []any:
		more := slices.Clone(body)
		for i := range more {
			if s.Items != nil {
				more[i] = d.extended(s.Items, more[i])
			}
		}

		return more
	default:
		return body
	}
}

// namesCount sends fields twice, and in another case next to the right one: the
// last of the exact name counts, and other names are unknown.
func (w *world) namesCount(c call, who string, right any) {
	fields, _ := right.(map[string]any)
	for name, v := range fields {
		value, err := json.Marshal(v)
		require.NoError(w.t, err)

		others := maps.Clone(fields)
		delete(others, name)
		rest, err := json.Marshal(others)
		require.NoError(w.t, err)

		for _, twice := range []string{
			fmt.Sprintf(`{%q:{"zz":[]},%q:%s`, name, name, value),
			fmt.Sprintf(`{%q:%s,%q:{"zz":[]}`, name, value, strings.ToUpper(name)),
			fmt.Sprintf(`{%q:{"zz":[]},%q:%s`, strings.ToUpper(name), name, value),
		} {
			if inner := strings.TrimPrefix(string(rest), "{"); inner != "}" {
				twice += ","
			}

			r := w.do(c.method, c.url, who, twice+strings.TrimPrefix(string(rest), "{"))
			w.answered(c, r, twice)
			require.NotContains(w.t, []int{400, 422}, r.status, "%s: %s", twice, r.text)
		}
	}
}

// TestWalkLooksForWhatIsMissing holds the walk to one thing that does not exist
// for each operation on one thing. The list is of those that have no such thing.
func TestWalkLooksForWhatIsMissing(t *testing.T) {
	t.Parallel()

	var without []string

	for _, c := range walk {
		if strings.Contains(c.path, "{") && c.missing == "" {
			without = append(without, c.method+" "+c.path)
		}
	}

	require.ElementsMatch(t, []string{
		"GET /api/sessions/extra_info/by_task/{task_id}", // 200 with nothing
		"GET /api/user/preferences/{key}",                // 200 with null
		"PUT /api/user/preferences/{key}",                // made
		"PUT /api/env/buckets/{bucket}",                  // made
	}, without)
}
