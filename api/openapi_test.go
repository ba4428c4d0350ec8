package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"everloop/api"
)

// contract is the document that answers and examples must follow.
type contract struct {
	raw        map[string]any
	schemas    *jsonschema.Compiler // as published
	closed     *jsonschema.Compiler // where an object holds what is declared and nothing else
	operations []*documented
}

// documented is one operation of the document.
type documented struct {
	id, method string
	at         string // JSON pointer
	path       *regexp.Regexp
	literal    int // characters of the path that are no parameter's
	public     bool
	content    map[string]map[string]*media // by status and content type
	codes      map[string][]string          // by status
	parameters []map[string]any
	request    map[string]*media // by content type
}

// media is one content of an answer or a request.
type media struct {
	at      string // JSON pointer to its schema; empty: it has none
	example any
	given   bool // it has an example

	once   sync.Once
	closed *jsonschema.Schema
	err    error
}

// theContract is read once: it depends on no configuration.
var theContract = sync.OnceValues(readContract)

func readContract() (*contract, error) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	app := api.New(api.Config{Version: "1.0.0", Logger: quiet}, api.Areas{})
	request := httptest.NewRequest("GET", "/api/openapi.json", nil)
	request.Host = "localhost"

	answer, err := app.Test(request, -1)
	if err != nil {
		return nil, err
	}

	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}

	c := &contract{}
	if c.schemas, err = compilerOf(text, nil); err != nil {
		return nil, err
	}

	if c.closed, err = compilerOf(text, closeObjects); err != nil {
		return nil, err
	}

	if err := json.Unmarshal(text, &c.raw); err != nil {
		return nil, err
	}

	for path, item := range c.raw["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			c.operations = append(c.operations, c.read(path, method, op.(map[string]any)))
		}
	}
	// The most literal path first: files/{path}/copy is not the file "…/copy".
	slices.SortFunc(c.operations, func(a, b *documented) int { return b.literal - a.literal })

	return c, nil
}

const documentURL = "mem:///openapi.json"

func compilerOf(text []byte, change func(any)) (*jsonschema.Compiler, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}

	if change != nil {
		change(doc.(map[string]any)["components"])
		change(doc.(map[string]any)["paths"])
	}

	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()

	return compiler, compiler.AddResource(documentURL, doc)
}

// closeObjects refuses, in every object whose fields are declared, all others.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"]; ok && v["type"] == "object" {
			v["additionalProperties"] = false
		}

		for _, inner := range v {
			closeObjects(inner)
		}
	case []any:
		for _, inner := range v {
			closeObjects(inner)
		}
	}
}

var parameter = regexp.MustCompile(`\\\{([a-z_]+)\\\}`)

func pointer(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}

	return b.String()
}

func (c *contract) read(path, method string, op map[string]any) *documented {
	quoted := regexp.QuoteMeta(path)

	d := &documented{
		id: op["operationId"].(string), method: strings.ToUpper(method), at: pointer("paths", path, method),
		literal: len(parameter.ReplaceAllString(quoted, "")), content: map[string]map[string]*media{}, codes: map[string][]string{},
		path: regexp.MustCompile("^" + parameter.ReplaceAllStringFunc(quoted, func(name string) string {
			if strings.Contains(name, "file_path") || strings.Contains(name, "dir_path") {
				return ".*"
			}

			return "[^/]+"
		}) + "$"),
	}
	for _, requirement := range op["security"].([]any) {
		d.public = d.public || len(requirement.(map[string]any)) == 0
	}

	for status, response := range op["responses"].(map[string]any) {
		at := d.at + pointer("responses", status)
		if ref, ok := response.(map[string]any)["$ref"].(string); ok {
			at = strings.TrimPrefix(ref, "#")
			response = c.raw["components"].(map[string]any)["responses"].(map[string]any)[ref[strings.LastIndex(ref, "/")+1:]]
		}

		d.content[status] = contentOf(at, response.(map[string]any))
	}

	for status, codes := range op["x-error-codes"].(map[string]any) {
		for _, code := range codes.([]any) {
			d.codes[status] = append(d.codes[status], code.(string))
		}
	}

	for _, p := range listOf(op["parameters"]) {
		p := p.(map[string]any)
		if ref, ok := p["$ref"].(string); ok {
			p = c.raw["components"].(map[string]any)["parameters"].(map[string]any)[ref[strings.LastIndex(ref, "/")+1:]].(map[string]any)
		}

		d.parameters = append(d.parameters, p)
	}

	if body, ok := op["requestBody"].(map[string]any); ok {
		d.request = contentOf(d.at+"/requestBody", body)
	}

	return d
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

func contentOf(at string, from map[string]any) map[string]*media {
	out := map[string]*media{}

	content, _ := from["content"].(map[string]any)
	for kind, m := range content {
		m := m.(map[string]any)
		out[kind] = &media{}

		out[kind].example, out[kind].given = m["example"]
		if m["schema"] != nil {
			out[kind].at = at + pointer("content", kind, "schema")
		}
	}

	return out
}

// find returns the operation that answers a request; nil: there is none.
func (c *contract) find(method, path string) *documented {
	path, _, _ = strings.Cut(path, "?")

	if method == "HEAD" {
		method = "GET"
	}

	for _, d := range c.operations {
		if d.method == method && (d.path.MatchString(path) || d.path.MatchString(path+"/")) {
			return d
		}
	}

	return nil
}

// compiling is for the compilers, which are not made for several at once.
var compiling sync.Mutex

// fits holds a value to the closed schema.
func (m *media) fits(c *contract, value any) error {
	m.once.Do(func() {
		compiling.Lock()
		defer compiling.Unlock()

		m.closed, m.err = c.closed.Compile(documentURL + "#" + m.at)
	})

	if m.err != nil {
		return m.err
	}

	return m.closed.Validate(value)
}

// hold checks an answer of the interface: its status is declared, its content
// too, its body fits its schema, and what refuses has one of the declared codes.
func (r reply) hold(method, path string) {
	r.t.Helper()

	c, err := theContract()
	require.NoError(r.t, err)

	d := c.find(method, path)
	if d == nil || r.status == 405 || r.status == 404 && strings.Contains(r.text, `"route_not_found"`) {
		return // no operation answered
	}

	status := strconv.Itoa(r.status)

	content, declared := d.content[status]
	if !declared {
		r.t.Errorf("%s answers %s, which is not documented: %s", d.id, status, r.text)
		return
	}

	if r.text == "" { // HEAD, and what has no content
		return
	}

	kind, _, _ := mime.ParseMediaType(r.header.Get("Content-Type"))

	m := content[kind]
	if major, _, _ := strings.Cut(kind, "/"); m == nil && content[major+"/*"] != nil {
		m = content[major+"/*"]
	}

	if m == nil {
		m = content["*/*"]
	}

	if m == nil {
		m = content["application/octet-stream"] // files: any type
	}

	if m == nil {
		r.t.Errorf("%s answers %s with %s, which is not documented", d.id, status, kind)
		return
	}

	if !strings.HasSuffix(kind, "json") || m.at == "" {
		return
	}

	value, err := jsonschema.UnmarshalJSON(strings.NewReader(r.text))
	require.NoError(r.t, err, r.text)

	if err := m.fits(c, value); err != nil {
		r.t.Errorf("%s answers %s with what its schema does not say: %v\n%s", d.id, status, err, r.text)
	}

	if r.status >= 400 {
		code := value.(map[string]any)["code"].(string)
		if !slices.Contains(d.codes[status], code) {
			r.t.Errorf("%s answers %s with the code %s, which is not documented: add it to Errors of the operation", d.id, status, code)
		}
	}
}

// TestDocumentIsComplete holds the document to what its readers need.
func TestDocumentIsComplete(t *testing.T) {
	t.Parallel()

	c, err := theContract()
	require.NoError(t, err)

	tags := map[string]bool{}
	for _, tag := range c.raw["tags"].([]any) {
		tags[tag.(map[string]any)["name"].(string)] = true
	}

	used := map[string]bool{}

	for _, d := range c.operations {
		op := d.raw(c)
		if op["summary"] == nil || len(d.codes) == 0 {
			t.Errorf("%s lacks a summary or error codes", d.id)
		}

		for _, tag := range op["tags"].([]any) {
			used[tag.(string)] = true
			require.True(t, tags[tag.(string)], "%s has the tag %s, which has no description", d.id, tag)
		}

		for _, p := range d.parameters {
			if p["description"] == nil || p["example"] == nil {
				t.Errorf("%s: the parameter %s lacks a text or an example: add doc and example tags", d.id, p["name"])
			}
		}
	}

	for name, schema := range c.raw["components"].(map[string]any)["schemas"].(map[string]any) {
		fields, _ := schema.(map[string]any)["properties"].(map[string]any)
		for field, property := range fields {
			if property.(map[string]any)["description"] == nil {
				t.Errorf("nothing says what the field %s of %s is: add a doc tag", field, name)
			}
		}
	}

	require.Equal(t, slices.Sorted(maps.Keys(tags)), slices.Sorted(maps.Keys(used)))
}

func (d *documented) raw(c *contract) map[string]any {
	at := any(c.raw)
	for part := range strings.SplitSeq(strings.TrimPrefix(d.at, "/"), "/") {
		at = at.(map[string]any)[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}

	return at.(map[string]any)
}

// TestExamplesFit holds every example to its schema, and asks for one wherever
// there is JSON.
func TestExamplesFit(t *testing.T) {
	t.Parallel()

	c, err := theContract()
	require.NoError(t, err)

	for _, d := range c.operations {
		all := map[string]map[string]*media{"request": d.request}
		maps.Copy(all, d.content)

		for status, content := range all {
			for kind, m := range content {
				at := d.id + " " + status + " " + kind
				switch {
				case !m.given && (strings.HasSuffix(kind, "json") || kind == "text/event-stream"):
					t.Errorf("%s has no example: add Example to the operation or the reply", at)
				case m.given && m.at != "":
					if err := m.fits(c, m.example); err != nil {
						t.Errorf("the example of %s does not fit: %v", at, err)
					}
				}
			}
		}

		for i, p := range d.parameters {
			if p["example"] == nil || p["name"] == "Idempotency-Key" {
				continue
			}

			m := &media{at: d.at + pointer("parameters", strconv.Itoa(i), "schema")}
			if err := m.fits(c, p["example"]); err != nil {
				t.Errorf("the example of %s %s does not fit: %v", d.id, p["name"], err)
			}
		}
	}
}
