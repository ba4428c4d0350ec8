package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsPage string

var docsTemplate = template.Must(template.New("docs").Parse(docsPage))

// docsOperation is an operation as the page shows it.
type docsOperation struct {
	ID, Method, Path, Summary, Description string

	Public    bool
	Scope     string
	Params    []docsParam
	Request   *docsContent
	Responses []docsContent
	Refusals  []docsRefusal
}

type docsParam struct{ Name, In, Type, Doc, Example string }

// docsContent is a body: its schema and an example.
type docsContent struct{ Status, Type, Schema, Example string }

type docsRefusal struct{ Status, Codes string }

// renderDocument makes the page from the document, so that the two agree.
func renderDocument(doc *huma.OpenAPI) ([]byte, error) {
	type group struct {
		Tag, About string
		Operations []docsOperation
	}
	groups := []group{}
	for _, tag := range doc.Tags {
		g := group{Tag: tag.Name, About: tag.Description}
		for _, op := range operationsOf(doc) {
			if op.Tags[0] == tag.Name {
				g.Operations = append(g.Operations, docsOf(doc, op))
			}
		}
		groups = append(groups, g)
	}
	type schema struct{ Name, JSON string }
	schemas := []schema{}
	for name, s := range doc.Components.Schemas.Map() {
		schemas = append(schemas, schema{name, indented(s)})
	}
	slices.SortFunc(schemas, func(a, b schema) int { return strings.Compare(a.Name, b.Name) })
	var page bytes.Buffer
	err := docsTemplate.Execute(&page, map[string]any{"Info": doc.Info, "Groups": groups, "Schemas": schemas})
	return page.Bytes(), err
}

func docsOf(doc *huma.OpenAPI, op *huma.Operation) docsOperation {
	made := op.Metadata[registration].(operation)
	out := docsOperation{
		ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description,
		Public: made.public, Scope: string(made.scope),
	}
	for _, p := range op.Parameters {
		if p.Ref != "" {
			p = doc.Components.Parameters[p.Ref[strings.LastIndex(p.Ref, "/")+1:]]
		}
		out.Params = append(out.Params, docsParam{p.Name, p.In, p.Schema.Type, p.Description, indented(p.Example)})
	}
	if op.RequestBody != nil {
		for kind, media := range op.RequestBody.Content {
			content := contentOf("", kind, media)
			out.Request = &content
		}
	}
	for status, response := range op.Responses {
		if response.Ref != "" {
			continue // a refusal: told by its codes
		}
		if len(response.Content) == 0 {
			out.Responses = append(out.Responses, docsContent{Status: status})
		}
		for kind, media := range response.Content {
			out.Responses = append(out.Responses, contentOf(status, kind, media))
		}
	}
	slices.SortFunc(out.Responses, func(a, b docsContent) int { return strings.Compare(a.Status+a.Type, b.Status+b.Type) })
	for status, codes := range refusalsOf(op, made) {
		out.Refusals = append(out.Refusals, docsRefusal{status, strings.Join(codes, ", ")})
	}
	slices.SortFunc(out.Refusals, func(a, b docsRefusal) int { return strings.Compare(a.Status, b.Status) })
	return out
}

func contentOf(status, kind string, media *huma.MediaType) docsContent {
	out := docsContent{Status: status, Type: kind, Example: indented(media.Example)}
	var text string
	if raw, ok := media.Example.(json.RawMessage); ok && json.Unmarshal(raw, &text) == nil {
		out.Example = text
	}
	if media.Schema != nil && kind == "application/json" || media.Schema != nil && len(media.Schema.Properties) > 0 {
		out.Schema = indented(media.Schema)
	}
	return out
}

// indented lays a value out as JSON; nil is nothing.
func indented(v any) string {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil || string(raw) == "null" {
		return ""
	}
	return string(raw)
}
