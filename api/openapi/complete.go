package openapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

// Complete adds to the document what the types of the operations do not say:
// errors, scopes, headers and examples. Call it once, when all operations are
// registered and before any is served.
func Complete(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas
	doc.Components.Responses = errorResponses(schemas.Schema(reflect.TypeFor[httpx.Problem](), true, ""))
	doc.Components.Headers = sharedHeaders
	doc.Components.Parameters = map[string]*huma.Param{httpx.HeaderIdempotencyKey: {
		Name: httpx.HeaderIdempotencyKey, In: "header", Example: "7b6c1f1e-4a53-4c0e-9a57-1f0d3c9f7d11",
		Description: "A repeat with the same key and body within 24 hours returns the first response.",
		Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: ptr(255)},
	}}

	delete(schemas.Map(), "ExtraInfo") // its answers are described as ExtraInfoBody
	CompleteSchemas(schemas, schemaPrefix)

	for _, op := range operationsOf(doc) {
		completeOperation(schemas, op)
	}
}

// headerRequestName names X-Request-Id among the components.
const headerRequestName = "RequestId"

// sharedHeaders are those of many answers, by their names among the components.
var sharedHeaders = map[string]*huma.Header{
	headerRequestName: {
		Description: "The id of the request in the log of the service. The request may set it: letters, digits and ._:-, at most 128.",
		Schema:      &huma.Schema{Type: huma.TypeString}, Example: exampleRequestID,
	},
	"RateLimit-Limit": {
		Description: "Requests that a key may make at once. Sent where requests are limited, as are the two others.",
		Schema:      &huma.Schema{Type: huma.TypeInteger}, Example: 600,
	},
	"RateLimit-Remaining": {
		Description: "Requests that remain.", Schema: &huma.Schema{Type: huma.TypeInteger}, Example: 598,
	},
	"RateLimit-Reset": {
		Description: "Seconds until the full limit is available again.", Schema: &huma.Schema{Type: huma.TypeInteger}, Example: 1,
	},
}

// describeLimit adds the headers of the caller's limit.
func describeLimit(headers map[string]*huma.Header) {
	for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
		headers[name] = &huma.Header{Ref: "#/components/headers/" + name}
	}
}

// operationsOf lists the operations of a document, by path and method.
func operationsOf(doc *huma.OpenAPI) []*huma.Operation {
	var all []*huma.Operation

	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op != nil {
				all = append(all, op)
			}
		}
	}

	slices.SortFunc(all, func(a, b *huma.Operation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})

	return all
}

func completeOperation(schemas huma.Registry, op *huma.Operation) {
	made := op.Metadata[httpx.Metadata].(httpx.Operation)

	op.Security = security(made)
	for _, p := range op.Parameters {
		completeParameter(schemas, p)
	}

	if made.Method == fiber.MethodPost && !made.Public {
		op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/" + httpx.HeaderIdempotencyKey})
	}

	if op.RequestBody != nil {
		completeRequest(op, made)
	}

	delete(op.Responses, "default")

	for _, response := range op.Responses {
		response.Headers = mapWith(response.Headers, "X-Request-Id", &huma.Header{Ref: "#/components/headers/" + headerRequestName})
		if !made.Public {
			describeLimit(response.Headers)
		}

		for name, about := range made.Headers {
			response.Headers = mapWith(
				response.Headers,
				name,
				&huma.Header{Description: about, Schema: &huma.Schema{Type: huma.TypeString}},
			)
		}

		for kind, media := range response.Content {
			switch {
			case made.ReplyExample(kind) != "":
				media.Example = given(kind, made.ReplyExample(kind))
			case isJSON(kind):
				media.Example = exampleOf(schemas, media.Schema)
			}
		}
	}

	codes := errorsOf(op, made)
	for status := range codes {
		op.Responses[status] = &huma.Response{Ref: "#/components/responses/" + responseName(status)}
	}

	op.Extensions = mapWith(op.Extensions, "x-error-codes", any(codes))
}

// security says by which credentials, and by which scope of a restricted key, an
// operation can be called.
func security(made httpx.Operation) []map[string][]string {
	if made.Public {
		return []map[string][]string{{}}
	}

	scopes := []string{}
	if made.Scope != "" {
		scopes = append(scopes, string(made.Scope))
	}

	return []map[string][]string{{"bearer": scopes}, {"cookie": {}}}
}

// completeParameter takes what huma keeps in the parameter's schema to the parameter.
func completeParameter(schemas huma.Registry, p *huma.Param) {
	if p.Schema == nil {
		return
	}

	p.Schema.Description = ""
	p.Example, p.Schema.Examples = exampleOf(schemas, p.Schema), nil
	explainPattern(p.Schema, &p.Description)
}

func completeRequest(op *huma.Operation, made httpx.Operation) {
	content := op.RequestBody.Content
	if len(content) > 1 { // of a handler that reads the bytes too
		delete(content, fiber.MIMEOctetStream)
	}

	for kind, media := range content {
		if made.Example != "" {
			media.Example = given(kind, made.Example)
		}
	}
}

// given returns an example as its operation has it: JSON, or a text of another type.
func given(contentType, example string) any {
	if isJSON(contentType) || contentType == fiber.MIMEMultipartForm {
		return json.RawMessage(example)
	}

	return example
}

// NewSchemas returns a registry of the schemas of Go types.
func NewSchemas(prefix string, name func(reflect.Type, string) string) huma.Registry {
	schemas := huma.NewMapRegistry(prefix, name)
	schemas.RegisterTypeAlias(reflect.TypeFor[domain.Cost](), reflect.TypeFor[float64]()) // as its MarshalJSON writes it

	return schemas
}

// CompleteSchemas adds to the schemas of a registry with that prefix what a Go type shows and huma does not: that a pointer to
// an object which is always present may be null (the objects of requests leave
// theirs out), and that null is one of the values of a field that may be null.
func CompleteSchemas(schemas huma.Registry, prefix string) {
	for name, schema := range schemas.Map() {
		for _, field := range reflect.VisibleFields(schemas.TypeFromRef(prefix + name)) {
			tag := field.Tag.Get("json")

			property := schema.Properties[tag]
			if property == nil || property.Ref == "" || field.Type.Kind() != reflect.Pointer || field.Tag.Get("nullable") == "false" {
				continue
			}

			schema.Properties[tag] = &huma.Schema{
				Description: property.Description, AnyOf: []*huma.Schema{{Ref: property.Ref}, {Type: "null"}},
			}
		}

		for _, property := range schema.Properties {
			explainPattern(property, &property.Description)

			if property.Nullable && len(property.Enum) > 0 && !slices.Contains(property.Enum, nil) {
				property.Enum = append(property.Enum, nil)
			}
		}
	}
}

// explainPattern moves huma's own keyword into the description. What it refuses
// keeps the words: they were made when the operation was registered.
func explainPattern(schema *huma.Schema, about *string) {
	if schema.PatternDescription == "" {
		return
	}

	*about = strings.TrimSpace(*about + " It is " + schema.PatternDescription + ".")
	schema.PatternDescription = ""
}

// errorsOf returns the error codes of an operation by status.
func errorsOf(op *huma.Operation, made httpx.Operation) map[string][]string {
	codes := map[string][]string{}
	add := func(status int, code string) {
		key := strconv.Itoa(status)
		if !slices.Contains(codes[key], code) {
			codes[key] = append(codes[key], code)
		}
	}
	add(http.StatusBadRequest, "malformed_request")
	add(http.StatusInternalServerError, "internal_error")
	add(http.StatusTooManyRequests, httpx.CodeTooManyConnections)

	if !made.Public {
		add(http.StatusUnauthorized, "unauthorized")
		add(http.StatusTooManyRequests, "rate_limited")
		add(http.StatusTooManyRequests, auth.CodeTooManyGuesses)
		add(http.StatusServiceUnavailable, "dependency_unavailable")

		if made.Scope != "" {
			add(http.StatusForbidden, "scope_missing")
		}

		if made.Scope == "admin" {
			add(http.StatusForbidden, "administrator_required")
		}

		if !httpx.IsSafe(made.Method) {
			add(http.StatusForbidden, "origin_refused")
		}

		if made.Method == fiber.MethodPost {
			add(http.StatusConflict, httpx.CodeKeyInUse)
			add(http.StatusConflict, "idempotency_key_reused")

			if made.Secret {
				add(http.StatusConflict, "idempotency_secret_not_kept")
			}
		}
	}

	if op.RequestBody != nil {
		add(http.StatusRequestEntityTooLarge, "body_too_large")
		add(http.StatusUnsupportedMediaType, "unsupported_media_type")
		add(http.StatusServiceUnavailable, httpx.CodeBodyBudget)
	}

	if op.RequestBody != nil || len(op.Parameters) > 0 {
		add(http.StatusUnprocessableEntity, "invalid_request")
	}

	if strings.Contains(op.Path, "/api/sessions/{session_id}") {
		add(http.StatusNotFound, "session_not_found")

		if !httpx.IsSafe(made.Method) {
			add(http.StatusForbidden, "forbidden") // a shared session of another user
		}
	}

	for status, list := range made.Errors {
		for code := range strings.FieldsSeq(list) {
			add(status, code)
		}
	}

	return codes
}

func mapWith[V any](m map[string]V, name string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}

	m[name] = v

	return m
}

func ptr[T any](v T) *T { return &v }
