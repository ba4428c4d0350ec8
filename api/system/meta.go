package system

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"everloop/api/httpx"
	"everloop/api/sessiondetail"
	"everloop/domain"
)

// Version is the answer of GET /api/version.
type Version struct {
	Version string `json:"version" doc:"The calendar-style version of the running service." example:"2611.0.0"`
	MinSDK  string `json:"min_sdk" doc:"The lowest protocol level that a client must speak." example:"2611.0.0"`
}

// ClientConfig is what a front end must know of this installation.
type ClientConfig struct {
	ErrorTrackingDSN     string `json:"errorTrackingDsn" doc:"The DSN for error reports of front ends; empty: none."`
	AnalyticsKey         string `json:"analyticsKey" doc:"The key for analytics."`
	AnalyticsHost        string `json:"analyticsHost" doc:"The host for analytics; empty: none."`
	ASREnabled           bool   `json:"asrEnabled" doc:"Whether speech recognition is enabled."`
	ASRProvider          string `json:"asrProvider" doc:"Speech-recognition provider."`
	GISMapURL            string `json:"gisMapUrl" doc:"The address of the map; empty: there is none."`
	ServiceOSPath        string `json:"serviceOsPath" doc:"The path of the desktop front end."`
	PublicSharingEnabled bool   `json:"publicSharingEnabled" doc:"Whether public links are enabled."`
	MemoryEnabled        bool   `json:"memoryEnabled" doc:"Whether memory is enabled."`
}

type health struct {
	Status string `json:"status" enum:"ok" doc:"Its status."`
}

type ready struct {
	Status   string   `json:"status" enum:"ok,degraded" doc:"degraded: all serves, and something is short; see degraded."`
	Checks   []string `json:"checks" doc:"The dependencies that were asked, all serving." example:"[\"disk\", \"nats\", \"objects\", \"postgres\", \"temporal\"]"`
	Degraded []string `json:"degraded,omitempty" doc:"Those that are short: disk when only what is reserved for the engines is left."`
}

type modelItem struct {
	ID            string   `json:"id" doc:"Its id." example:"everloop-demo"`
	Name          string   `json:"name" doc:"Its name." example:"Everloop demo (scripted, not a real model)"`
	ContextWindow int64    `json:"context_window" doc:"Tokens." example:"128000"`
	MaxOutput     int64    `json:"max_output" doc:"Tokens of one answer; 0: the server does not say." example:"0"`
	Modalities    []string `json:"modalities" doc:"Supported input: text, image." example:"[\"text\", \"image\"]"`

	Supports domain.ModelSupport `json:"supports" doc:"The features that the model supports." example:"{\"json_schema\": true, \"thinking\": true, \"tools\": true}"`
	Price    *domain.Price       `json:"price,omitempty" doc:"For a million tokens; absent: not known."`

	PromptCut *domain.PromptCut `json:"prompt_cut,omitempty" doc:"The last prompt of a day that its server cut; absent: none is known."`
}

type modelList struct {
	Default string      `json:"default" doc:"The model of sessions that name none." example:"everloop-demo"`
	Models  []modelItem `json:"models" doc:"The models."`
}

// metaAPI describes the service itself.
type metaAPI struct {
	version      Version
	client       ClientConfig
	defaultModel string
	models       sessiondetail.Models
	readiness    Readiness
	metrics      *prometheus.Registry
}

// Register adds the operations of the area to the interface.
func (a *metaAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "get-version", Method: fiber.MethodGet, Path: "/api/version", Tag: "Service",
		Summary:     "Get the version",
		Description: "min_sdk is the lowest protocol level that a client must support.",
		Public:      true,
	}, func(context.Context, *struct{}) (*httpx.Body[Version], error) { return httpx.Answer(a.version, nil) })
	httpx.Register(r, httpx.Operation{
		ID: "get-health", Method: fiber.MethodGet, Path: "/api/health", Tag: "Service",
		Summary:     "Check liveness",
		Description: "For load balancers; asks no dependency.",
		Public:      true,
	}, a.health)
	httpx.Register(r, httpx.Operation{
		ID: "get-healthz", Method: fiber.MethodGet, Path: "/healthz", Tag: "Service",
		Summary:     "Check liveness",
		Description: "The same as /api/health.",
		Public:      true,
	}, a.health)
	httpx.Register(r, httpx.Operation{
		ID: "get-readiness", Method: fiber.MethodGet, Path: "/readyz", Tag: "Service",
		Summary:     "Check readiness",
		Description: "503 names the dependencies that are down.",
		Public:      true,
		Errors:      httpx.Codes{503: "dependency_unavailable"},
	}, a.ready)
	httpx.Register(r, httpx.Operation{
		ID: "get-config", Method: fiber.MethodGet, Path: "/api/config", Tag: "Service",
		Summary:     "Get the configuration of front ends",
		Description: "Feature switches and addresses.",
	}, func(context.Context, *struct{}) (*httpx.Body[ClientConfig], error) {
		return httpx.Answer(a.client, nil)
	})
	httpx.Register(r, httpx.Operation{
		ID: "list-models", Method: fiber.MethodGet, Path: "/api/config/models", Tag: "Service",
		Summary:     "List the available models",
		Description: "default is the model of sessions that do not name one.",
	}, a.listModels)
	a.registerMetrics(r)
}

func (a *metaAPI) health(context.Context, *struct{}) (*httpx.Body[health], error) {
	return httpx.Answer(health{"ok"}, nil)
}

// ready answers 503 with the names of the dependencies that are down; why they
// are is for the log only.
func (a *metaAPI) ready(ctx context.Context, _ *struct{}) (*httpx.Body[ready], error) {
	out := ready{Status: "ok", Checks: []string{}}
	if a.readiness == nil {
		return httpx.Answer(out, nil)
	}

	var (
		down []string
		why  []error
	)

	for name, err := range a.readiness(ctx) {
		out.Checks = append(out.Checks, name)
		if _, short := errors.AsType[Degraded](err); short {
			out.Status, out.Degraded = "degraded", append(out.Degraded, name)
			continue
		}

		if err != nil {
			down, why = append(down, name), append(why, err)
		}
	}

	slices.Sort(out.Checks)
	slices.Sort(down)

	if len(down) > 0 {
		return nil, domain.Unavailablef(strings.Join(down, ", "), errors.Join(why...))
	}

	return httpx.Answer(out, nil)
}

func (a *metaAPI) listModels(ctx context.Context, _ *struct{}) (*httpx.Body[modelList], error) {
	found, err := a.models.Models(ctx)
	if err != nil {
		if _, ok := errors.AsType[*domain.Error](err); !ok {
			err = domain.Unavailablef("the model gateway", err)
		}

		return nil, err
	}

	out := modelList{Default: a.defaultModel, Models: []modelItem{}}
	if out.Default == "" && len(found) > 0 { // as chats find theirs: not each model writes text
		if chosen, err := a.models.Resolve(ctx, ""); err == nil {
			out.Default = chosen.ID
		}
	}

	for _, m := range found {
		item := modelItem{m.ID, m.Name, m.ContextWindow, m.MaxOutput, m.Modalities, m.Supports, m.Price, m.PromptCut}
		if len(item.Modalities) == 0 { // its server does not say: text is what all take
			item.Modalities = []string{"text"}
		}

		if item.Name == "" {
			item.Name = m.ID
		}

		out.Models = append(out.Models, item)
	}

	return httpx.Answer(out, nil)
}

// registerMetrics serves the metrics of Prometheus.
func (a *metaAPI) registerMetrics(r *httpx.Server) {
	serve := adaptor.HTTPHandler(promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{}))

	httpx.Register(r, httpx.Operation{
		ID: "get-metrics", Method: fiber.MethodGet, Path: "/metrics", Tag: "Service",
		Summary:     "Get metrics for Prometheus",
		Description: "In the text format of Prometheus.",
		Public:      true,
		Replies: []httpx.Reply{{
			Status: http.StatusOK, Types: []string{"text/plain"},
			Example: "everloop_http_request_seconds_count{method=\"GET\",route=\"/api/sessions\",status=\"200\"} 12\n",
		}},
	}, func(context.Context, *struct{}) (*httpx.Streamed, error) {
		return &httpx.Streamed{Body: func(ctx huma.Context) { _ = serve(httpx.FiberOf(ctx)) }}, nil
	})
}
