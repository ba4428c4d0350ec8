package openapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"everloop/api/httpx"
	"everloop/domain"
)

// exampleRequestID is the request id in all examples.
const exampleRequestID = "01a1fd9b-6416-7c68-9d3d-044707661ac6"

// responseName names the response of a status among the components, as NotFound.
func responseName(status string) string {
	code, _ := strconv.Atoi(status)
	return strings.ReplaceAll(http.StatusText(code), " ", "")
}

// errorResponses returns the responses with an error, each with an example: one shape for
// all, so that operations only refer to them.
func errorResponses(schema *huma.Schema) map[string]*huma.Response {
	text := func(about, example string) *huma.Header {
		return &huma.Header{Description: about, Schema: &huma.Schema{Type: huma.TypeString}, Example: example}
	}
	all := map[string]*huma.Response{}

	for _, e := range []struct {
		about   string
		example *domain.Error
	}{
		{"The request is malformed, or a path leaves the workspace.", httpx.Malformed("the body is not valid JSON")},
		{
			"Credentials are missing or invalid.",
			domain.Newf(domain.Unauthenticated, "unauthorized", "the credentials are missing or wrong"),
		},
		{"Not permitted.", domain.Newf(domain.Forbidden, "scope_missing", "the key lacks the scope sessions:write")},
		{
			"Not found, or owned by another user: the two are not distinguished.",
			domain.Newf(domain.NotFound, "session_not_found", "the session does not exist"),
		},
		{"Not possible in the current state.", domain.Newf(domain.Conflict, "session_busy", "the session is busy")},
		{"No longer available.", domain.Newf(domain.Gone, "share_gone", "the link was revoked or has expired")},
		{"A size limit is exceeded.", httpx.TooLarge()},
		{"The body has an unsupported content type, or is compressed.", httpx.UnsupportedBody()},
		{"The file has no such range.", domain.Newf(domain.Invalid, httpx.CodeRange, "the file has no such range")},
		{
			"A field is missing, has the wrong type or is out of bounds; errors lists the fields.",
			domain.Invalidf("body.name", "is required"),
		},
		{"Rate limit exceeded; retry after the time in Retry-After.", domain.Newf(domain.RateLimited, "rate_limited", "too many requests")},
		{"Internal error; see the log of the service.", domain.Newf(domain.Internal, "internal_error", "internal error")},
		{"A dependency is down; detail names it.", domain.Newf(domain.Unavailable, "dependency_unavailable", "postgres is not available")},
	} {
		problem := httpx.ProblemOf(e.example, exampleRequestID)
		status := strconv.Itoa(problem.Status)
		headers := map[string]*huma.Header{"X-Request-Id": {Ref: "#/components/headers/" + headerRequestName}}

		switch problem.Status {
		case http.StatusUnauthorized:
			headers["WWW-Authenticate"] = text("How to authenticate.", "Bearer")
		case http.StatusTooManyRequests:
			headers["Retry-After"] = text("Seconds to wait.", "12")
			describeLimit(headers)
		case http.StatusServiceUnavailable:
			headers["Retry-After"] = text("Seconds to wait, if known.", "12")
		}

		all[responseName(status)] = &huma.Response{
			Description: e.about, Headers: headers,
			Content: map[string]*huma.MediaType{"application/problem+json": {Schema: schema, Example: problem}},
		}
	}

	return all
}
