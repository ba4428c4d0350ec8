package httpx

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"everloop/domain"
)

// Problem is the body of every error (RFC 9457). It
// never repeats what the client sent, which may be a secret.
type Problem struct {
	Type      string         `json:"type" doc:"Always about:blank: the code says what is wrong."`
	Title     string         `json:"title" doc:"The status in words."`
	Status    int            `json:"status" doc:"The HTTP status."`
	Detail    string         `json:"detail" doc:"What is wrong with this request, for people."`
	Code      string         `json:"code" doc:"What is wrong, for programs: a stable word in snake_case."`
	RequestID string         `json:"request_id" doc:"The X-Request-Id of the answer."`
	Retryable bool           `json:"retryable" doc:"Whether the same request may succeed later."`
	Errors    []domain.Field `json:"errors,omitempty" doc:"The fields that are wrong, when it is the input."`

	Valid    *bool            `json:"valid,omitempty" doc:"With validation_failed: false."`
	Warnings []domain.Finding `json:"warnings,omitzero" nullable:"false" doc:"With validation_failed: what is probably not meant."`

	CurrentVersion int        `json:"current_version,omitempty" doc:"With version_conflict: the newest version." example:"3"`
	ChangedBy      string     `json:"changed_by,omitempty" doc:"With version_conflict: the user who saved it."`
	ChangedAt      *time.Time `json:"changed_at,omitempty" doc:"With version_conflict: when it was saved."`
}

// Error makes a Problem an error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns what huma asks an error for.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType marks the body as a problem.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// statuses is the one table from kinds of errors to HTTP.
var statuses = map[domain.Kind]int{
	domain.Malformed:       http.StatusBadRequest,
	domain.Unauthenticated: http.StatusUnauthorized,
	domain.Forbidden:       http.StatusForbidden,
	domain.NotFound:        http.StatusNotFound,
	domain.Conflict:        http.StatusConflict,
	domain.Gone:            http.StatusGone,
	domain.TooLarge:        http.StatusRequestEntityTooLarge,
	domain.Unsupported:     http.StatusUnsupportedMediaType,
	domain.Invalid:         http.StatusUnprocessableEntity,
	domain.RateLimited:     http.StatusTooManyRequests,
	domain.Internal:        http.StatusInternalServerError,
	domain.Unavailable:     http.StatusServiceUnavailable,
}

// Codes whose status HTTP itself prescribes.
const (
	CodeRange   = "range_not_satisfiable"
	codeTimeout = "request_timeout"
)

func statusOf(e *domain.Error) int {
	switch e.Code {
	case CodeRange:
		return http.StatusRequestedRangeNotSatisfiable
	case codeTimeout:
		return http.StatusRequestTimeout
	}

	if status, ok := statuses[e.Kind]; ok {
		return status
	}

	return http.StatusInternalServerError
}

// ProblemOf returns the body of an error.
func ProblemOf(e *domain.Error, requestID string) *Problem {
	status := statusOf(e)

	p := &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: e.Message, Code: e.Code,
		RequestID: requestID, Retryable: e.Retryable(), Errors: e.Fields,
	}
	if e.Validation != nil {
		p.Valid, p.Warnings = &e.Validation.Valid, append([]domain.Finding{}, e.Validation.Warnings...)
	}

	if c := e.Version; c != nil {
		p.CurrentVersion, p.ChangedBy, p.ChangedAt = c.CurrentVersion, c.ChangedBy, &c.ChangedAt
	}

	return p
}

// Malformed returns the error of a request that cannot be read.
func Malformed(format string, args ...any) *domain.Error {
	return domain.Newf(domain.Malformed, "malformed_request", format, args...)
}

// errorHeaders are the headers that belong to an error in addition to its body.
func errorHeaders(e *domain.Error, set func(name, value string)) {
	if e.Kind == domain.Unauthenticated {
		set(fiber.HeaderWWWAuthenticate, "Bearer")
	}

	if e.Kind == domain.RateLimited || e.RetryAfter > 0 {
		set(fiber.HeaderRetryAfter, strconv.Itoa(max(e.RetryAfter, 1)))
	}
}

// Huma makes its errors through these two variables, which belong to the
// process: everything it refuses leaves in our shape.
func init() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return ProblemOf(refusal(status, message, errs), "")
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		e := refusal(status, message, errs)
		if e.Kind == domain.Invalid && len(e.Fields) == 0 {
			named := *e
			named.Fields = unkeepable(FiberOf(ctx))
			e = &named
		}

		errorHeaders(e, ctx.SetHeader)
		problem := ProblemOf(e, RequestOf(ctx.Context()).ID)
		FiberOf(ctx).Locals(causeKey, e)

		return problem
	}
	huma.DefaultArrayNullable = false
}

// causeKey is where a request keeps the error that it was answered with, for
// its line in the log.
const causeKey = "everloop.cause"

// refusal gives what huma refuses its place among the domain's errors.
func refusal(status int, message string, errs []error) *domain.Error {
	for _, err := range errs {
		if own, ok := err.(*cause); ok {
			return domain.AsError(own.error)
		}
	}

	switch status {
	case http.StatusBadRequest:
		if message == "request body is required" {
			return Malformed("a JSON body is required")
		}

		return Malformed("the body is not valid JSON")
	case http.StatusUnsupportedMediaType:
		return UnsupportedBody()
	case http.StatusRequestEntityTooLarge:
		return TooLarge()
	case http.StatusUnprocessableEntity:
		return invalid(errs)
	}

	for _, err := range errs {
		return domain.AsError(err)
	}

	return domain.AsError(errors.New(message))
}

// UnsupportedBody returns the error of a body of another type than JSON.
func UnsupportedBody() *domain.Error {
	return domain.Newf(domain.Unsupported, "unsupported_media_type", "the body must be application/json")
}

// TooLarge returns the error of a body above the limit.
func TooLarge() *domain.Error {
	return domain.Newf(domain.TooLarge, "body_too_large", "the body is larger than %d MB", maxJSON>>20)
}

// invalid lists the fields that did not fit. A missing field is named itself,
// not the object that lacks it.
func invalid(errs []error) *domain.Error {
	out := &domain.Error{Kind: domain.Invalid, Code: domain.CodeInvalidRequest, Message: "the request is invalid"}

	for _, err := range errs {
		if e, ok := errors.AsType[*domain.Error](err); ok {
			out.Fields = append(out.Fields, e.Fields...)
			continue
		}

		field := domain.Field{Location: "body", Message: "is invalid"}

		if d, ok := err.(huma.ErrorDetailer); ok {
			detail := d.ErrorDetail()
			field.Location = detail.Location

			field.Message = detail.Message
			if name, ok := strings.CutPrefix(detail.Message, "expected required property "); ok {
				field.Location += "." + strings.TrimSuffix(name, " to be present")
				field.Message = "is required"
			}

			if strings.HasPrefix(detail.Message, "invalid date/time for format 2006-01-02T") { // a layout of Go
				field.Message = "expected string to be RFC 3339 date-time"
			}

			if strings.HasPrefix(detail.Message, "json: ") { // names Go types and may repeat the value
				field.Message = "has a value of the wrong type or out of range"
			}
		}

		out.Fields = append(out.Fields, field)
	}

	if len(out.Fields) > 0 {
		out.Message = fmt.Sprintf("%s: %s", out.Fields[0].Location, out.Fields[0].Message)
	}

	return out
}

// fail answers what never reaches huma, in the same shape: unknown routes, other
// methods, bodies that were not read, panics.
func fail(c *fiber.Ctx, err error) error {
	id := RequestOf(c.UserContext()).ID
	if id == "" { // refused before any handler
		id = domain.NewID()
		c.Set(fiber.HeaderXRequestID, id)
		drain(c)
	}

	e := routingError(err)
	errorHeaders(e, c.Set)
	c.Locals(causeKey, e)

	p := ProblemOf(e, id)
	if raw, ok := errors.AsType[*fiber.Error](err); ok && e.Code == "method_not_allowed" {
		p.Status, p.Title = raw.Code, http.StatusText(raw.Code)
	}

	c.Response().ResetBody()

	return c.Status(p.Status).JSON(p, p.ContentType(""))
}

// rejectUnknownMethods answers methods that Fiber does not know, which it would
// otherwise do by itself, in plain text.
func rejectUnknownMethods(app *fiber.App) {
	server := app.Server()
	inner := server.Handler
	server.Handler = func(ctx *fasthttp.RequestCtx) {
		if slices.Contains(fiber.DefaultMethods, string(ctx.Method())) {
			inner(ctx)
			return
		}

		c := app.AcquireCtx(ctx)
		defer app.ReleaseCtx(c)

		ctx.SetConnectionClose() // with whatever of a body is still on its way
		c.Set(fiber.HeaderAllow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		_ = fail(c, fiber.ErrMethodNotAllowed)
	}
}

// drain takes what the client still sends of a body that is refused unread: a
// client whose connection is closed while it writes never sees the answer.
func drain(c *fiber.Ctx) {
	const most, patience = 64 << 20, 10 * time.Second

	length := c.Request().Header.ContentLength()
	if length <= 0 || length > most || c.Get(fiber.HeaderExpect) != "" {
		return
	}

	conn := c.Context().Conn()
	if conn.SetReadDeadline(time.Now().Add(patience)) != nil {
		return
	}
	// The server has read a part of the body itself, so that the end is not
	// known exactly: a short silence is taken for it.
	buffer := make([]byte, 64<<10)
	for read := 0; read < length; {
		n, err := conn.Read(buffer)
		if read += n; err != nil {
			return
		}

		if length-read < 64<<10 {
			_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		}
	}
}

func routingError(err error) *domain.Error {
	raw, ok := errors.AsType[*fiber.Error](err)
	if !ok {
		return domain.AsError(err)
	}

	switch raw.Code {
	case http.StatusNotFound:
		return domain.Newf(domain.NotFound, "route_not_found", "there is no such route")
	case http.StatusMethodNotAllowed:
		return domain.Newf(domain.Malformed, "method_not_allowed", "the route does not know this method")
	case http.StatusRequestEntityTooLarge:
		return TooLarge()
	case http.StatusRequestTimeout:
		// Also of a connection that was opened ahead and is never used: clients take
		// 408 there for the end of the connection, and any other status for the answer
		// to the request that they send at the same moment.
		return domain.Newf(domain.Malformed, codeTimeout, "the request did not arrive in time")
	case http.StatusInternalServerError:
		return domain.AsError(err)
	default:
		return Malformed("the request could not be read")
	}
}
