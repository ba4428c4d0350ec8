package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// Diagnostics tell administrators how the service is set up and how its
// dependencies stand.
type Diagnostics interface {
	Configuration() []domain.ConfigGroup
	Checks() []domain.Check
}

func (s *server) diagnosticRoutes() {
	const tag = "Environment"
	add(s, operation{
		id: "get-env-config", method: fiber.MethodGet, path: "/api/env/config", tag: tag,
		summary: "The service's configuration, secrets masked", scope: auth.Admin,
	}, func(context.Context, *struct{}) (*body[[]domain.ConfigGroup], error) {
		return answer(s.Diagnostics.Configuration(), nil)
	})
	add(s, operation{
		id: "run-diagnostics", method: fiber.MethodGet, path: "/api/env/diagnostics", tag: tag,
		summary: "Check every dependency, as server-sent events", scope: auth.Admin, stream: true,
		changes: describeAs(http.StatusOK, "text/event-stream"),
	}, s.diagnose)
	add(s, operation{
		id: "run-diagnostic", method: fiber.MethodGet, path: "/api/env/diagnostics/{check}", tag: tag,
		summary: "Check one dependency", scope: auth.Admin, stream: true,
		changes: func(op *huma.Operation) {
			describeJSON[domain.CheckResult](s)(op)
			op.Responses["200"].Content["text/event-stream"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		},
	}, s.diagnoseOne)
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

func (s *server) diagnose(context.Context, *struct{}) (*streamed, error) {
	return &streamed{func(ctx huma.Context) { s.streamChecks(ctx, s.Diagnostics.Checks()) }}, nil
}

// diagnoseOne answers with JSON, or with the events of one check for a client
// that asks for them.
func (s *server) diagnoseOne(ctx context.Context, in *struct {
	Check  string `path:"check"`
	Accept string `header:"Accept"`
},
) (*streamed, error) {
	checks := s.Diagnostics.Checks()
	at := slices.IndexFunc(checks, func(c domain.Check) bool { return c.ID == in.Check })
	if at < 0 {
		return nil, domain.Newf(domain.NotFound, "check_not_found", "there is no check of this name")
	}
	if strings.Contains(in.Accept, "text/event-stream") {
		return &streamed{func(ctx huma.Context) { s.streamChecks(ctx, checks[at:at+1]) }}, nil
	}
	result, err := json.Marshal(checks[at].Do(ctx))
	if err != nil {
		return nil, err
	}
	return &streamed{func(ctx huma.Context) {
		c := fiberOf(ctx)
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		_ = c.Send(result)
	}}, nil
}

func (s *server) streamChecks(ctx huma.Context, checks []domain.Check) {
	s.openStream(ctx, func(ctx context.Context, out *eventStream) error {
		tell := func(name string, v any) error {
			data, err := json.Marshal(v)
			if err != nil {
				return err
			}
			out.named(name, data)
			return out.flush()
		}
		var done checksDone
		for _, check := range checks {
			if err := tell("check_started", checkStarted{check.ID, check.Title}); err != nil {
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
			if err := tell("check_result", result); err != nil {
				return err
			}
		}
		return tell("done", done)
	})
}
