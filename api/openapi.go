package api

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
)

// document is the frame of the OpenAPI document; the operations enter it as they
// are registered.
func (s *server) document() huma.Config {
	cfg := huma.DefaultConfig("Everloop", s.Version.Version)
	cfg.Info.Description = "Durable agent sessions: the REST interface. Errors are application/problem+json."
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", "" // served below, with everything that surrounds a route
	cfg.CreateHooks = nil                                       // they add $schema to every body
	cfg.AllowAdditionalPropertiesByDefault = true
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key, or a token of the identity service."},
		"cookie": {Type: "apiKey", In: "cookie", Name: sessionCookie, Description: "The session of the identity service."},
	}
	return cfg
}

// describeAs documents an answer that a handler writes by itself.
func describeAs(status int, contentTypes ...string) func(*huma.Operation) {
	return func(op *huma.Operation) {
		content := map[string]*huma.MediaType{}
		for _, ct := range contentTypes {
			content[ct] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		}
		putResponse(op, status, content)
	}
}

// describeJSON documents an answer of type T that a handler writes by itself.
func describeJSON[T any](s *server) func(*huma.Operation) {
	return func(op *huma.Operation) {
		schema := s.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, op.OperationID)
		putResponse(op, http.StatusOK, map[string]*huma.MediaType{fiber.MIMEApplicationJSON: {Schema: schema}})
	}
}

// describeErrors documents the one shape of everything that is refused.
func (s *server) describeErrors(op *huma.Operation) {
	schema := s.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{
		Description: "Refused or failed; the code says why.",
		Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: schema}},
	}
}

func putResponse(op *huma.Operation, status int, content map[string]*huma.MediaType) {
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: content}
}

func (s *server) documentRoutes() {
	document := sync.OnceValues(func() ([]byte, error) { return json.Marshal(s.huma.OpenAPI()) })
	add(s, operation{
		id: "get-openapi", method: fiber.MethodGet, path: "/api/openapi.json", tag: "Service",
		summary: "This description (OpenAPI 3.1)", public: true, changes: describeAs(http.StatusOK, fiber.MIMEApplicationJSON),
	}, func(context.Context, *struct{}) (*streamed, error) {
		content, err := document()
		return &streamed{respondWith(fiber.MIMEApplicationJSON, content)}, err
	})
	page := sync.OnceValues(func() ([]byte, error) { return renderDocument(s.huma.OpenAPI()) })
	add(s, operation{
		id: "get-docs", method: fiber.MethodGet, path: "/api/docs", tag: "Service",
		summary: "This description, for people", public: true, changes: describeAs(http.StatusOK, fiber.MIMETextHTML),
	}, func(context.Context, *struct{}) (*streamed, error) {
		content, err := page()
		return &streamed{func(ctx huma.Context) {
			ctx.SetHeader(fiber.HeaderContentSecurityPolicy, "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
			respondWith(fiber.MIMETextHTMLCharsetUTF8, content)(ctx)
		}}, err
	})
}

func respondWith(contentType string, content []byte) func(huma.Context) {
	return func(ctx huma.Context) {
		ctx.SetHeader(fiber.HeaderContentType, contentType)
		_, _ = ctx.BodyWriter().Write(content)
	}
}

//go:embed docs.html
var docsPage string

var docsTemplate = template.Must(template.New("docs").Parse(docsPage))

// docsOperation is an operation as the page shows it.
type docsOperation struct {
	ID, Method, Path, Summary string
	Public                    bool
	Params                    []docsParam
	Request                   string // JSON of the body's schema
	Responses                 []docsResponse
}

type docsParam struct{ Name, In, Type, Doc string }

type docsResponse struct{ Status, Type, Schema string }

// renderDocument makes the page from the document, so that the two agree.
func renderDocument(doc *huma.OpenAPI) ([]byte, error) {
	byTag := map[string][]docsOperation{}
	for path, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op != nil {
				byTag[op.Tags[0]] = append(byTag[op.Tags[0]], docsOf(path, op))
			}
		}
	}
	type group struct {
		Tag        string
		Operations []docsOperation
	}
	groups := []group{}
	for tag, operations := range byTag {
		slices.SortFunc(operations, func(a, b docsOperation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
		groups = append(groups, group{tag, operations})
	}
	slices.SortFunc(groups, func(a, b group) int { return strings.Compare(a.Tag, b.Tag) })
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

func docsOf(path string, op *huma.Operation) docsOperation {
	out := docsOperation{ID: op.OperationID, Method: op.Method, Path: path, Summary: op.Summary, Public: len(op.Security) == 0}
	for _, p := range op.Parameters {
		kind := ""
		if p.Schema != nil {
			kind = p.Schema.Type
		}
		out.Params = append(out.Params, docsParam{p.Name, p.In, kind, p.Description})
	}
	if op.RequestBody != nil {
		for _, media := range op.RequestBody.Content {
			out.Request = indented(media.Schema)
		}
	}
	for status, response := range op.Responses {
		if len(response.Content) == 0 {
			out.Responses = append(out.Responses, docsResponse{Status: status})
		}
		for kind, media := range response.Content {
			out.Responses = append(out.Responses, docsResponse{status, kind, indented(media.Schema)})
		}
	}
	slices.SortFunc(out.Responses, func(a, b docsResponse) int { return strings.Compare(a.Status+a.Type, b.Status+b.Type) })
	return out
}

func indented(schema *huma.Schema) string {
	raw, err := json.Marshal(schema)
	if err != nil {
		return ""
	}
	var out bytes.Buffer
	_ = json.Indent(&out, raw, "", "  ")
	return out.String()
}
