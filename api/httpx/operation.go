package httpx

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
)

// RequestTimeout bounds a request that is not a stream: a client that has left
// is not noticed otherwise.
const RequestTimeout = 30 * time.Second

// TransferTime bounds reading or writing one archive or one upload.
const TransferTime = time.Hour

// Operation describes one route next to its handler.
type Operation struct {
	ID      string // operationId of the document
	Method  string
	Path    string
	Tag     string
	Summary string // an imperative phrase
	// Description says what the summary does not; empty: nothing.
	Description string

	Scope  auth.Scope
	Public bool   // no credentials are needed
	Audit  string // action of the audit trail that its success is; see audited
	Hidden bool   // not in the document

	Status  int  // of success; 0: 200, or 204 without a body
	Stream  bool // may take longer than RequestTimeout
	Repeats bool // answers a repeated Idempotency-Key itself
	Joins   bool // a repeat waits for the first request that still runs, or that a crash has cut off
	Secret  bool // its answer holds a secret and is not kept for repeats

	// Errors are its error codes in addition to those that follow from how it is called;
	// docs/errors.md explains them.
	Errors  Codes
	Headers map[string]string // of its responses, by name, in addition to X-Request-Id

	Example string // of the request body, in JSON

	Replies []Reply      // answers that the handler writes by itself
	Body    reflect.Type // of the JSON body, for a handler that parses it itself
	Form    *Form        // of a multipart body, which the handler reads by itself
}

// Codes are error codes by HTTP status, separated by spaces.
type Codes map[int]string

// Reply documents an answer that a handler writes by itself.
type Reply struct {
	Status int
	Types  []string     // content types; none: an answer without content
	Of     reflect.Type // of the answer in JSON; nil: any object

	// Example is one of the first content type; empty: that of the fields of Of.
	Example string
}

// ReplyExample returns the example of a content type that a reply gives; empty: none.
func (o Operation) ReplyExample(contentType string) string {
	for _, reply := range o.Replies {
		if len(reply.Types) > 0 && reply.Types[0] == contentType {
			return reply.Example
		}
	}

	return ""
}

// JSONReply documents an answer of type T.
func JSONReply[T any](status int) Reply {
	return Reply{Status: status, Types: []string{fiber.MIMEApplicationJSON}, Of: reflect.TypeFor[T]()}
}

// Form documents a multipart body. Its texts are by field.
type Form struct {
	File   string // the field of the file
	Many   string // what the field holds when it may come several times; empty: one file
	Fields map[string]string
}

// Metadata is where a described operation keeps the Operation that it was made of.
const Metadata = "operation"

// streams marks an operation whose answer has no end of its own: there is no
// HEAD of it.
const streams = "stream"

// Register adds an operation to the interface, with everything that surrounds its handler.
func Register[I, O any](s *Server, op Operation, handler func(context.Context, *I) (*O, error)) {
	described := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Tags: []string{op.Tag}, Summary: op.Summary, Description: op.Description,
		DefaultStatus: op.Status, Hidden: op.Hidden, MaxBodyBytes: maxJSON + 1,
		Middlewares: huma.Middlewares{admit(op)}, Metadata: map[string]any{Metadata: op},
	}
	if op.Stream {
		described.Metadata[streams] = true
	}

	if !op.Public {
		// What is rejected further on counts too, and says what is left.
		described.Middlewares = huma.Middlewares{s.auth.authenticate, rateLimit(s.limiter), admit(op)}
		if op.Method == fiber.MethodPost {
			described.Middlewares = append(described.Middlewares, s.once.middleware(op))
		}
	}

	if op.Method == fiber.MethodPatch {
		described.Middlewares = append(described.Middlewares, rejectUnchangeable(s.API))
	}

	schemas := s.API.OpenAPI().Components.Schemas
	for _, reply := range op.Replies {
		reply.describe(&described, schemas)
	}

	huma.Register(s.API, described, func(ctx context.Context, in *I) (*O, error) {
		if !op.Stream {
			var cancel context.CancelFunc

			ctx, cancel = context.WithTimeout(ctx, RequestTimeout)
			defer cancel()
		}

		out, err := handler(ctx, in)
		if err == nil {
			audited(ctx, s.auth.auditor, op)
		}

		return out, err
	})
	// Afterwards: huma would check a body that it knows before, and decode a form as JSON.
	switch {
	case op.Body != nil:
		s.API.OpenAPI().Paths[op.Path].Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			fiber.MIMEApplicationJSON: {Schema: schemas.Schema(op.Body, true, op.ID)},
		}}
	case op.Form != nil:
		s.API.OpenAPI().Paths[op.Path].Post.RequestBody = op.Form.describe()
	}
}

func (r Reply) describe(op *huma.Operation, schemas huma.Registry) {
	content := map[string]*huma.MediaType{}

	for _, kind := range r.Types {
		schema := &huma.Schema{Type: huma.TypeString}

		switch {
		case kind == fiber.MIMEApplicationJSON && r.Of != nil:
			schema = schemas.Schema(r.Of, true, op.OperationID)
		case kind == fiber.MIMEApplicationJSON:
			schema.Type = huma.TypeObject
		case !strings.HasPrefix(kind, "text/"):
			schema.Format = "binary"
		}

		content[kind] = &huma.MediaType{Schema: schema}
	}

	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}

	status := strconv.Itoa(r.Status)
	if op.Responses[status] == nil {
		op.Responses[status] = &huma.Response{Description: http.StatusText(r.Status)}
	}

	if len(content) > 0 {
		maps.Copy(content, op.Responses[status].Content)
		op.Responses[status].Content = content
	}
}

func (f *Form) describe() *huma.RequestBody {
	file := &huma.Schema{Type: huma.TypeString, Format: "binary"}
	if f.Many != "" {
		file = &huma.Schema{Type: huma.TypeArray, Items: file, Description: f.Many}
	}

	properties := map[string]*huma.Schema{f.File: file}
	for name, text := range f.Fields {
		properties[name] = &huma.Schema{Type: huma.TypeString, Description: text}
	}

	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		fiber.MIMEMultipartForm: {Schema: &huma.Schema{Type: huma.TypeObject, Properties: properties, Required: []string{f.File}}},
	}}
}
