// Package tracing sends traces, and the metrics of model calls, to an OpenTelemetry
// collector, and instruments Temporal and PostgreSQL for it. A trace starts with a
// request of a client: work that no request has asked for leaves no spans. What leaves
// the process of a span is its name, its times, whether it failed, and the attributes
// that the exporter knows: never what users, models or tools wrote.
package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// GRPC is the protocol of OTLP over gRPC; any other value is OTLP over HTTP.
const GRPC = "grpc"

// Config says where traces go. The OTEL_… variables of the OpenTelemetry
// specification count too, as those for headers, certificates and the sampler.
type Config struct {
	Endpoint string // http:// or https:// address of a collector; empty: there are no traces
	Protocol string // GRPC, or OTLP over HTTP
	Version  string // of this program
	Logger   *slog.Logger

	CloseWithin time.Duration // how long Close waits for the collector at most; 0: five seconds
}

// Check returns what is wrong with an endpoint, which may be empty.
func Check(endpoint string) error {
	if endpoint == "" {
		return nil
	}

	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return errors.New("must be http:// or https:// with a host, as http://127.0.0.1:4318, without credentials or a query")
	}

	return nil
}

// Tracing is the traces of one process. The nil one has none, at no cost.
type Tracing struct {
	provider *sdktrace.TracerProvider
	metrics  *modelMetrics // nil: there are none
	failures *failureLog

	closeWithin time.Duration
}

// maxAttribute bounds the characters of one attribute, unless
// OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT does.
const maxAttribute = 2048

// Open makes the exporter of a process; nil without an endpoint. It does not wait
// for the collector. The caller closes what it returns.
func Open(ctx context.Context, cfg Config) (*Tracing, error) {
	if cfg.Endpoint == "" {
		return nil, nil
	}

	if err := Check(cfg.Endpoint); err != nil {
		return nil, fmt.Errorf("the endpoint of traces %w", err)
	}

	exporter, err := otlptrace.New(ctx, cfg.client())
	if err != nil {
		return nil, fmt.Errorf("open the exporter of traces: %w", err)
	}

	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "everloop"), attribute.String("service.version", cfg.Version)),
		resource.WithFromEnv(), // the operator's names win
	)
	if err != nil { // the rest of it counts
		cfg.Logger.Warn("failed to read some attributes of this process for traces", "error", err)
	}

	failures := &failureLog{logger: cfg.Logger, every: failureInterval, now: time.Now}
	otel.SetErrorHandler(failures)

	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxAttribute
	}

	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&exporterOfKnown{exporter, failures}), // drops spans when its queue is full
		sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits),
	)

	metrics, err := openMetrics(ctx, cfg, about)
	if err != nil {
		return nil, err
	}

	return &Tracing{provider, metrics, failures, cmp.Or(cfg.CloseWithin, closeTimeout)}, nil
}

// client reaches the collector. An endpoint for traces alone, which only the SDK
// reads, wins.
func (c Config) client() otlptrace.Client {
	own := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	if c.Protocol == GRPC {
		if own {
			return otlptracegrpc.NewClient()
		}

		return otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(c.Endpoint))
	}

	if own {
		return otlptracehttp.NewClient()
	}

	base, _ := url.Parse(c.Endpoint) // Check has parsed it

	return otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(base.JoinPath("v1", "traces").String()))
}

// closeTimeout bounds how long the end of a process waits for the collector, unless Config does.
const closeTimeout = 5 * time.Second

// Close sends the spans that have ended and the last metrics, within the time of Config.
func (t *Tracing) Close() {
	if t == nil {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), t.closeWithin)
	defer cancel()

	var rest sync.WaitGroup
	if t.metrics != nil {
		rest.Go(func() {
			if err := t.metrics.provider.Shutdown(ctx); err != nil {
				t.failures.Handle(fmt.Errorf("send the last metrics: %w", err))
			}
		})
	}

	if err := t.provider.Shutdown(ctx); err != nil {
		t.failures.Handle(fmt.Errorf("send the last spans: %w", err))
	}

	rest.Wait()
}

const scope = "everloop"

// Requests gives the tracer of what clients ask for, which starts traces; nil
// where there are none.
func (t *Tracing) Requests() trace.Tracer {
	if t == nil {
		return nil
	}

	return t.provider.Tracer(scope)
}

// Work gives the tracer of work below requests: without a span in its context it
// starts none.
func (t *Tracing) Work() trace.Tracer {
	if t == nil {
		return noop.NewTracerProvider().Tracer(scope)
	}

	return below{Tracer: t.provider.Tracer(scope)}
}

// below starts no root spans.
type below struct{ trace.Tracer }

// Start implements trace.Tracer.
func (b below) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, noop.Span{}
	}

	return b.Tracer.Start(ctx, name, options...)
}
