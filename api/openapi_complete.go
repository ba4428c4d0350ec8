package api

import (
	"cmp"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
)

// registration is where a described operation keeps what it was made of.
const registration = "operation"

// complete says in the document what the types of the operations do not: words,
// refusals, scopes, headers and examples. It runs once, when all operations are
// registered and before any is served.
func (s *server) complete() {
	doc := s.huma.OpenAPI()
	schemas := doc.Components.Schemas
	doc.Components.Responses = refusalAnswers(schemas.Schema(reflect.TypeFor[Problem](), true, ""))
	doc.Components.Headers = sharedHeaders
	doc.Components.Parameters = map[string]*huma.Param{headerIdempotencyKey: {
		Name: headerIdempotencyKey, In: "header", Example: "7b6c1f1e-4a53-4c0e-9a57-1f0d3c9f7d11",
		Description: "For 24 hours the same key and body give the first answer again.",
		Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: ptr(255)},
	}}
	for _, op := range operationsOf(doc) {
		completeOperation(op)
	}
	delete(schemas.Map(), "ExtraInfo") // its answers are described as ExtraInfoBody
	completeSchemas(schemas)
}

// headerRequestName names X-Request-Id among the components.
const headerRequestName = "RequestId"

// sharedHeaders are those of many answers, by their names among the components.
var sharedHeaders = map[string]*huma.Header{
	headerRequestName: {
		Description: "Names the request in the log of the service. One that the request brought (letters, digits and ._:-, at most 128) is taken over.",
		Schema:      &huma.Schema{Type: huma.TypeString}, Example: exampleRequestID,
	},
	"RateLimit-Limit":     {Description: "Requests that a key has at once. This and the two beside it are there where requests are limited.", Schema: &huma.Schema{Type: huma.TypeInteger}, Example: 600},
	"RateLimit-Remaining": {Description: "Requests that are left.", Schema: &huma.Schema{Type: huma.TypeInteger}, Example: 598},
	"RateLimit-Reset":     {Description: "Seconds until all are there again.", Schema: &huma.Schema{Type: huma.TypeInteger}, Example: 1},
}

// describeLimit says what an answer tells of the caller's limit.
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

func completeOperation(op *huma.Operation) {
	made := op.Metadata[registration].(operation)
	op.Description = strings.TrimSpace(op.Description + " " + descriptions[made.id])
	op.Security = security(made)
	for _, name := range unparsedHeaders[made.id] {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "header", Schema: &huma.Schema{Type: huma.TypeString}})
	}
	for _, p := range op.Parameters {
		completeParameter(op, p)
	}
	if made.method == fiber.MethodPost && !made.public {
		op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/" + headerIdempotencyKey})
	}
	if op.RequestBody != nil {
		completeRequest(op)
	}
	delete(op.Responses, "default")
	for status, response := range op.Responses {
		response.Headers = mapWith(response.Headers, "X-Request-Id", &huma.Header{Ref: "#/components/headers/" + headerRequestName})
		if !made.public {
			describeLimit(response.Headers)
		}
		for name, about := range answerHeaders[made.id] {
			response.Headers = mapWith(response.Headers, name, &huma.Header{Description: about, Schema: &huma.Schema{Type: huma.TypeString}})
		}
		for kind, media := range response.Content {
			if example, ok := examples[made.id].answer(status, kind); ok {
				media.Example = example
			}
		}
	}
	codes := refusalsOf(op, made)
	for status := range codes {
		op.Responses[status] = &huma.Response{Ref: "#/components/responses/" + refusalName(status)}
	}
	op.Extensions = mapWith(op.Extensions, "x-error-codes", any(codes))
}

// security says by which credentials, and by which scope of a restricted key, an
// operation can be called.
func security(made operation) []map[string][]string {
	if made.public {
		return []map[string][]string{{}}
	}
	scopes := []string{}
	if made.scope != "" {
		scopes = append(scopes, string(made.scope))
	}
	return []map[string][]string{{"bearer": scopes}, {"cookie": {}}}
}

func completeParameter(op *huma.Operation, p *huma.Param) {
	words := wordsOf(op, p.Name)
	if p.Description == "" {
		p.Description = words.about
	}
	if p.Example == nil {
		p.Example = words.example
	}
	if p.Schema != nil {
		p.Schema.Description = "" // huma says it twice
		explainPattern(p.Schema, &p.Description)
	}
}

func completeRequest(op *huma.Operation) {
	content := op.RequestBody.Content
	if len(content) > 1 { // of a handler that looks at the bytes too
		delete(content, fiber.MIMEOctetStream)
	}
	for _, media := range content {
		if example := examples[op.OperationID].Request; example != nil {
			media.Example = example
		}
	}
}

// completeSchemas says what a Go type shows and huma does not: that a pointer to
// an object which is always told may be null (the objects of requests leave
// theirs out), and that null is one of the values of a field that may be null.
func completeSchemas(schemas huma.Registry) {
	for name, schema := range schemas.Map() {
		for _, field := range reflect.VisibleFields(schemas.TypeFromRef(schemaPrefix + name)) {
			tag := field.Tag.Get("json")
			property := schema.Properties[tag]
			if property == nil || property.Ref == "" || field.Type.Kind() != reflect.Pointer || field.Tag.Get("nullable") == "false" {
				continue
			}
			schema.Properties[tag] = &huma.Schema{
				Description: property.Description, AnyOf: []*huma.Schema{{Ref: property.Ref}, {Type: "null"}},
			}
		}
		describeFields(name, schema)
		for _, property := range schema.Properties {
			explainPattern(property, &property.Description)
			if property.Nullable && len(property.Enum) > 0 && !slices.Contains(property.Enum, nil) {
				property.Enum = append(property.Enum, nil)
			}
		}
	}
}

// describeFields gives words to the fields of a schema, and of objects in it, that
// have none beside their type.
func describeFields(name string, schema *huma.Schema) {
	for field, property := range schema.Properties {
		if property.Description == "" {
			property.Description = cmp.Or(fieldWords[name+"."+field], fieldWords[field])
		}
		describeFields(name+"."+field, property)
		if property.Items != nil {
			describeFields(name+"."+field, property.Items)
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

// refusalsOf gives the codes with which an operation may be refused, by status.
func refusalsOf(op *huma.Operation, made operation) map[string][]string {
	codes := map[string][]string{}
	add := func(status int, code string) {
		key := strconv.Itoa(status)
		if !slices.Contains(codes[key], code) {
			codes[key] = append(codes[key], code)
		}
	}
	add(http.StatusBadRequest, "malformed_request")
	add(http.StatusInternalServerError, "internal_error")
	if !made.public {
		add(http.StatusUnauthorized, "unauthorized")
		add(http.StatusTooManyRequests, "rate_limited")
		add(http.StatusServiceUnavailable, "dependency_unavailable")
		if made.scope != "" {
			add(http.StatusForbidden, "scope_missing")
		}
		if made.scope == "admin" {
			add(http.StatusForbidden, "administrator_required")
		}
		if !safe(made.method) {
			add(http.StatusForbidden, "origin_refused")
		}
		if made.method == fiber.MethodPost {
			add(http.StatusConflict, "idempotency_key_in_use")
			add(http.StatusConflict, "idempotency_key_reused")
			if made.secret {
				add(http.StatusConflict, "idempotency_secret_not_kept")
			}
		}
	}
	if op.RequestBody != nil {
		add(http.StatusRequestEntityTooLarge, "body_too_large")
		add(http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
	if op.RequestBody != nil || len(op.Parameters) > 0 {
		add(http.StatusUnprocessableEntity, "invalid_request")
	}
	if strings.Contains(op.Path, "/api/sessions/{session_id}") {
		add(http.StatusNotFound, "session_not_found")
		if !safe(made.method) {
			add(http.StatusForbidden, "forbidden") // a shared session of somebody else
		}
	}
	for status, list := range refusals[made.id] {
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
