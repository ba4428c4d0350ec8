package httpx

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
)

// adapter lets huma register its operations on Fiber. It differs from huma's own
// in five points: a colon in a path is a literal one, the parameters file_path
// and dir_path reach over slashes, path parameters are decoded exactly once, a
// request body is never decompressed unasked, and a body is optional where all of
// its fields are.
type adapter struct {
	app *fiber.App
	api huma.API
}

// greedy names the path parameters that may hold slashes.
func greedy(name string) bool { return name == "file_path" || name == "dir_path" }

// fiberPath translates an OpenAPI path into Fiber's pattern.
func fiberPath(path string) string {
	var b strings.Builder

	for len(path) > 0 {
		open := strings.IndexByte(path, '{')
		if open < 0 {
			open = len(path)
		}

		b.WriteString(strings.NewReplacer(":", `\:`, "*", `\*`, "+", `\+`).Replace(path[:open]))

		if path = path[open:]; path == "" {
			break
		}

		name, rest, _ := strings.Cut(path[1:], "}")
		if greedy(name) {
			b.WriteByte('*')
		} else {
			b.WriteString(":" + name)
		}

		path = rest
	}

	return b.String()
}

func (a *adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	optional := a.makeBodyOptional(op)
	serve := func(c *fiber.Ctx) error {
		RequestOf(c.UserContext()).Route = op.Path
		handler(&exchange{op: op, c: c, api: a.api, bodyless: optional && isBodyless(c)})

		return nil
	}
	a.app.Add(op.Method, fiberPath(op.Path), serve)

	if op.Method == fiber.MethodGet && op.Metadata[streams] == nil {
		a.app.Add(fiber.MethodHead, fiberPath(op.Path), serve)
	}
}

// makeBodyOptional lets clients leave out a JSON body none of whose fields is required: it
// is then the empty object, with the defaults of its fields. A body without declared fields
// is its own value and stays required.
func (a *adapter) makeBodyOptional(op *huma.Operation) bool {
	if op.RequestBody == nil || !op.RequestBody.Required || op.RequestBody.Content[fiber.MIMEApplicationJSON] == nil {
		return false
	}

	schema := op.RequestBody.Content[fiber.MIMEApplicationJSON].Schema
	if schema.Ref != "" {
		schema = a.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref)
	}

	optional := len(schema.Properties) > 0 && len(schema.Required) == 0
	op.RequestBody.Required = !optional

	return optional
}

// isBodyless reports whether a request has no body, or an empty one.
func isBodyless(c *fiber.Ctx) bool {
	return RequestOf(c.UserContext()).body == nil && len(c.Request().Body()) == 0
}

// ServeHTTP is not used: Fiber is the server.
func (a *adapter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNotImplemented)
}

// exchange is one request and its response, as huma sees it.
type exchange struct {
	op       *huma.Operation
	c        *fiber.Ctx
	api      huma.API
	bodyless bool // it has no body and needs none: handlers read the empty object
	status   int
}

func exchangeOf(ctx huma.Context) *exchange {
	for {
		if wrapped, ok := ctx.(interface{ Unwrap() huma.Context }); ok {
			ctx = wrapped.Unwrap()
			continue
		}

		return ctx.(*exchange)
	}
}

// FiberOf returns the Fiber context below huma's.
func FiberOf(ctx huma.Context) *fiber.Ctx { return exchangeOf(ctx).c }

func (x *exchange) Operation() *huma.Operation { return x.op }
func (x *exchange) Context() context.Context   { return x.c.UserContext() }
func (x *exchange) Method() string             { return x.c.Method() }
func (x *exchange) Host() string               { return x.c.Hostname() }
func (x *exchange) RemoteAddr() string         { return x.c.Context().RemoteAddr().String() }
func (x *exchange) Query(name string) string   { return x.c.Query(name) }
func (x *exchange) TLS() *tls.ConnectionState  { return x.c.Context().TLSConnectionState() }
func (x *exchange) Version() huma.ProtoVersion { return huma.ProtoVersion{Proto: x.c.Protocol()} }

// Header returns a media type in small letters: it is one in any case. Where there is no
// body, its type says nothing.
func (x *exchange) Header(name string) string {
	value := x.c.Get(name)
	if name == fiber.HeaderContentType && x.bodyless {
		return ""
	}

	if name == fiber.HeaderContentType {
		kind, _, _ := strings.Cut(value, ";")
		value = strings.ToLower(kind) + value[len(kind):]
	}

	return value
}

func (x *exchange) URL() url.URL {
	return url.URL{Path: x.c.Path(), RawQuery: string(x.c.Request().URI().QueryString())}
}

// Param decodes the parameter once; rejectBadPath has passed only decodable paths
// on. The root of a workspace is ".".
func (x *exchange) Param(name string) string {
	key := name
	if greedy(name) {
		key = "*1"
	}

	value, err := url.PathUnescape(x.c.Params(key))
	if err != nil {
		return x.c.Params(key)
	}

	if name != "dir_path" {
		return value
	}

	if value == "" {
		value = "."
	}
	// Fiber takes the closing slash away, by which a browser knows a directory.
	if bytes.HasSuffix(x.c.Request().URI().PathOriginal(), []byte("/")) && !strings.HasSuffix(value, "/") {
		value += "/"
	}

	return value
}

func (x *exchange) EachHeader(cb func(name, value string)) {
	for k, v := range x.c.Request().Header.All() {
		cb(string(k), string(v))
	}
}

func (x *exchange) BodyReader() io.Reader {
	if in := RequestOf(x.c.UserContext()).body; in != nil {
		return in
	}

	if x.bodyless {
		return strings.NewReader("{}")
	}

	return bytes.NewReader(x.c.Request().Body())
}

// GetMultipartForm is not used: forms are read as they come (see OpenForm).
func (x *exchange) GetMultipartForm() (*multipart.Form, error) {
	return nil, http.ErrNotMultipart
}

// SetReadDeadline does nothing: the body was read before the handler started, and
// a deadline would stay behind on the connection.
func (x *exchange) SetReadDeadline(time.Time) error { return nil }

func (x *exchange) SetStatus(code int) {
	x.status = code
	x.c.Status(code)
}

func (x *exchange) Status() int                     { return x.status }
func (x *exchange) AppendHeader(name, value string) { x.c.Append(name, value) }
func (x *exchange) SetHeader(name, value string)    { x.c.Set(name, value) }
func (x *exchange) BodyWriter() io.Writer           { return x.c.Response().BodyWriter() }

// rejectBadPath answers paths with a broken escape before any route sees them.
func rejectBadPath(c *fiber.Ctx) error {
	path := c.Path()
	if strings.IndexByte(path, '%') >= 0 {
		if _, err := url.PathUnescape(path); err != nil {
			return Malformed("the path holds a broken percent escape")
		}
	}

	return c.Next()
}
