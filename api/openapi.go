package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
)

// document is the frame of the OpenAPI document; the operations enter it as they
// are registered, and complete says what their types do not.
func (s *server) document() huma.Config {
	cfg := huma.DefaultConfig("Everloop", s.Version.Version)
	if cfg.Info.Version == "" {
		cfg.Info.Version = "0.0.0"
	}
	cfg.Info.Description = introduction
	cfg.Info.License = &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"}
	cfg.Servers = []*huma.Server{{URL: "/", Description: "The service that gave this document."}}
	cfg.Tags = tags
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", "" // served below, with everything that surrounds a route
	cfg.CreateHooks = nil                                       // they add $schema to every body
	cfg.AllowAdditionalPropertiesByDefault = true
	cfg.Components.Schemas = huma.NewMapRegistry(schemaPrefix, schemaName)
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key, or a token of the identity service. Names beside it are the scopes of which a restricted key needs one."},
		"cookie": {Type: "apiKey", In: "cookie", Name: sessionCookie, Description: "The session of the identity service. A change by cookie needs the Origin of this service."},
	}
	return cfg
}

const schemaPrefix = "#/components/schemas/"

// schemaName names a schema as its type, and a body without one as its operation:
// create-user has CreateUserRequest.
func schemaName(t reflect.Type, hint string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(huma.DefaultSchemaNamer(t, hint), "-") {
		b.WriteString(strings.ToUpper(word[:min(1, len(word))]) + word[min(1, len(word)):])
	}
	return b.String()
}

// describeAs documents an answer that a handler writes by itself.
func describeAs(status int, contentTypes ...string) func(*huma.Operation) {
	return func(op *huma.Operation) {
		content := map[string]*huma.MediaType{}
		for _, ct := range contentTypes {
			schema := &huma.Schema{Type: huma.TypeString}
			switch {
			case ct == fiber.MIMEApplicationJSON:
				schema.Type = huma.TypeObject
			case !strings.HasPrefix(ct, "text/"):
				schema.Format = "binary"
			}
			content[ct] = &huma.MediaType{Schema: schema}
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
