package system

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

// exampleChecks is an example of the events of a check.
const exampleChecks = "event: check_started\ndata: {\"id\":\"postgres\",\"title\":\"PostgreSQL\"}\n\n" +
	"event: done\ndata: {\"ok\":1,\"warn\":0,\"fail\":0}\n\n"

// diagnosticsAPI shows the configuration and checks the dependencies.
type diagnosticsAPI struct {
	configuration func() []domain.ConfigGroup
	checks        func() []domain.Check
	streams       *httpx.Streams
}

// Register adds the operations of the area to the interface.
func (a *diagnosticsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "get-env-config", Method: fiber.MethodGet, Path: "/api/env/config", Tag: "Environment",
		Summary:     "Get the service's configuration",
		Description: "Secrets are masked as ***.",
		Scope:       auth.Admin,
	}, func(context.Context, *struct{}) (*httpx.Body[[]domain.ConfigGroup], error) {
		return httpx.Answer(a.configuration(), nil)
	})
	httpx.Register(r, httpx.Operation{
		ID: "run-diagnostics", Method: fiber.MethodGet, Path: "/api/env/diagnostics", Tag: "Environment",
		Summary:     "Check every dependency, as server-sent events",
		Description: "Sends check_started and check_result for each check, then done with the counts.",
		Scope:       auth.Admin, Stream: true,
		Replies: []httpx.Reply{{Status: http.StatusOK, Types: []string{"text/event-stream"}, Example: exampleChecks}},
	}, a.diagnose)
	httpx.Register(r, httpx.Operation{
		ID: "run-diagnostic", Method: fiber.MethodGet, Path: "/api/env/diagnostics/{check}", Tag: "Environment",
		Summary:     "Check one dependency",
		Description: "Returns JSON or, with Accept: text/event-stream, check_started, check_result and done of this check.",
		Scope:       auth.Admin, Stream: true,
		Errors: httpx.Codes{404: "check_not_found"},
		Replies: []httpx.Reply{
			httpx.JSONReply[domain.CheckResult](http.StatusOK),
			{Status: http.StatusOK, Types: []string{"text/event-stream"}, Example: exampleChecks},
		},
	}, a.diagnoseOne)
}

type checkStarted struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

type checksDone struct {
	OK   int `json:"ok"`
	Warn int `json:"warn"`
	Fail int `json:"fail"`
}

func (a *diagnosticsAPI) diagnose(context.Context, *struct{}) (*httpx.Streamed, error) {
	return &httpx.Streamed{Body: func(ctx huma.Context) { a.streamChecks(ctx, a.checks()) }}, nil
}

// diagnoseOne answers with JSON, or with the events of one check for a client
// that asks for them.
func (a *diagnosticsAPI) diagnoseOne(ctx context.Context, in *struct {
	Check  string `path:"check" doc:"The check; run-diagnostics returns all names." example:"postgres"`
	Accept string `header:"Accept" doc:"text/event-stream: the response is a stream of server-sent events." example:"application/json"`
},
) (*httpx.Streamed, error) {
	checks := a.checks()

	at := slices.IndexFunc(checks, func(c domain.Check) bool { return c.ID == in.Check })
	if at < 0 {
		return nil, domain.Newf(domain.NotFound, "check_not_found", "there is no check of this name")
	}

	if strings.Contains(in.Accept, "text/event-stream") {
		return &httpx.Streamed{Body: func(ctx huma.Context) { a.streamChecks(ctx, checks[at:at+1]) }}, nil
	}

	result, err := json.Marshal(checks[at].Do(ctx))
	if err != nil {
		return nil, err
	}

	return &httpx.Streamed{Body: func(ctx huma.Context) {
		c := httpx.FiberOf(ctx)
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		_ = c.Send(result)
	}}, nil
}

func (a *diagnosticsAPI) streamChecks(ctx huma.Context, checks []domain.Check) {
	a.streams.Open(ctx, func(ctx context.Context, out *httpx.EventStream) error {
		emit := func(name string, v any) error {
			data, err := json.Marshal(v)
			if err != nil {
				return err
			}

			out.Named(name, data)

			return out.Flush()
		}

		var done checksDone

		for _, check := range checks {
			if err := emit("check_started", checkStarted{check.ID, check.Title}); err != nil {
				return err // the client has left
			}

			result := check.Do(ctx)
			switch result.Status {
			case domain.CheckOK:
				done.OK++
			case domain.CheckWarn:
				done.Warn++
			case domain.CheckFail:
				done.Fail++
			case domain.CheckSkipped:
			}

			if err := emit("check_result", result); err != nil {
				return err
			}
		}

		return emit("done", done)
	})
}
