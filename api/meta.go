package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"everloop/domain"
)

// Version is the answer of GET /api/version (agent-service.md "Versioning").
type Version struct {
	Version string `json:"version" doc:"The calendar-style version of the running service."`
	MinSDK  string `json:"min_sdk" doc:"The lowest protocol level that a client must speak."`
}

// ClientConfig is what a front end has to know of this installation.
type ClientConfig struct {
	ErrorTrackingDSN     string `json:"errorTrackingDsn"`
	AnalyticsKey         string `json:"analyticsKey"`
	AnalyticsHost        string `json:"analyticsHost"`
	ASREnabled           bool   `json:"asrEnabled"`
	ASRProvider          string `json:"asrProvider"`
	GISMapURL            string `json:"gisMapUrl"`
	ServiceOSPath        string `json:"serviceOsPath"`
	PublicSharingEnabled bool   `json:"publicSharingEnabled"`
	MemoryEnabled        bool   `json:"memoryEnabled"`
}

type health struct {
	Status string `json:"status" enum:"ok"`
}

type ready struct {
	Status string   `json:"status" enum:"ok"`
	Checks []string `json:"checks" doc:"The dependencies that were asked, all well."`
}

type modelItem struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	ContextWindow int64    `json:"context_window" doc:"Tokens."`
	MaxOutput     int64    `json:"max_output" doc:"Tokens of one answer; 0: the server does not say."`
	Modalities    []string `json:"modalities"`

	Supports domain.ModelSupport `json:"supports"`
	Price    *domain.Price       `json:"price,omitempty" doc:"For a million tokens; absent: not known."`
}

type modelList struct {
	Default string      `json:"default" doc:"The model of sessions that name none."`
	Models  []modelItem `json:"models"`
}

func (s *server) metaRoutes() {
	add(s, operation{
		id: "get-version", method: fiber.MethodGet, path: "/api/version", tag: "Service", summary: "Version", public: true,
	}, func(context.Context, *struct{}) (*body[Version], error) { return answer(s.Version, nil) })
	for id, path := range map[string]string{"get-health": "/api/health", "get-healthz": "/healthz"} {
		add(s, operation{id: id, method: fiber.MethodGet, path: path, tag: "Service", summary: "Whether the process lives", public: true},
			func(context.Context, *struct{}) (*body[health], error) { return answer(health{"ok"}, nil) })
	}
	add(s, operation{
		id: "get-readiness", method: fiber.MethodGet, path: "/readyz", tag: "Service",
		summary: "Whether all dependencies answer", public: true,
	}, s.ready)
	add(s, operation{
		id: "get-config", method: fiber.MethodGet, path: "/api/config", tag: "Service", summary: "Configuration of front ends",
	}, func(context.Context, *struct{}) (*body[ClientConfig], error) { return answer(s.Client, nil) })
	add(s, operation{
		id: "list-models", method: fiber.MethodGet, path: "/api/config/models", tag: "Service", summary: "Models that can be used",
	}, s.models)
	s.metricsRoute()
}

// ready answers 503 with the names of the dependencies that are down; why they
// are is for the log only.
func (s *server) ready(ctx context.Context, _ *struct{}) (*body[ready], error) {
	out := ready{Status: "ok", Checks: []string{}}
	if s.Readiness == nil {
		return answer(out, nil)
	}
	var down []string
	var why []error
	for name, err := range s.Readiness(ctx) {
		out.Checks = append(out.Checks, name)
		if err != nil {
			down, why = append(down, name), append(why, err)
		}
	}
	slices.Sort(out.Checks)
	slices.Sort(down)
	if len(down) > 0 {
		return nil, domain.Unavailablef(strings.Join(down, ", "), errors.Join(why...))
	}
	return answer(out, nil)
}

func (s *server) models(ctx context.Context, _ *struct{}) (*body[modelList], error) {
	found, err := s.Models.Models(ctx)
	if err != nil {
		if _, ok := errors.AsType[*domain.Error](err); !ok {
			err = domain.Unavailablef("the model gateway", err)
		}
		return nil, err
	}
	out := modelList{Default: s.Setup.DefaultModel, Models: []modelItem{}}
	if out.Default == "" && len(found) > 0 { // as chats find theirs: not each model writes text
		if chosen, err := s.ModelFinder.Resolve(ctx, ""); err == nil {
			out.Default = chosen.ID
		}
	}
	for _, m := range found {
		item := modelItem{m.ID, m.Name, m.ContextWindow, m.MaxOutput, orEmpty(m.Modalities), m.Supports, m.Price}
		if item.Name == "" {
			item.Name = m.ID
		}
		out.Models = append(out.Models, item)
	}
	return answer(out, nil)
}

// checkModel refuses a model that the gateway knows neither by its id nor by an
// alias. When the list cannot be had the model is believed: the chat will tell.
func (s *server) checkModel(ctx context.Context, model *string) error {
	if model == nil || *model == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := s.ModelFinder.Resolve(ctx, *model); !domain.HasCode(err, domain.CodeUnknownModel) {
		return nil
	}
	e := domain.Invalidf("body.model", "is not a model of the gateway")
	e.Code = domain.CodeUnknownModel
	return e
}

// metricsRoute serves Prometheus on this door's own registry.
func (s *server) metricsRoute() {
	serve := adaptor.HTTPHandler(promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}))
	type output struct {
		Body func(huma.Context)
	}
	add(s, operation{
		id: "get-metrics", method: fiber.MethodGet, path: "/metrics", tag: "Service", summary: "Metrics for Prometheus", public: true,
		changes: describeAs(http.StatusOK, "text/plain"),
	}, func(context.Context, *struct{}) (*output, error) {
		return &output{func(ctx huma.Context) { _ = serve(fiberOf(ctx)) }}, nil
	})
}

// orEmpty keeps a missing list from becoming null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
