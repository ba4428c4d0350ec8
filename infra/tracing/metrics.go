package tracing

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// maxSeries bounds the combinations of attributes of one metric; what is beyond it is
// counted together.
const maxSeries = 500

// The bounds of the buckets that OpenTelemetry's conventions for generative AI recommend.
var (
	tokenBounds = []float64{
		1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864,
	}
	secondBounds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
)

// modelMetrics are the metrics of model calls.
type modelMetrics struct {
	provider *sdkmetric.MeterProvider
	tokens   metric.Int64Histogram
	duration metric.Float64Histogram
}

// openMetrics creates the exporter of metrics, to the collector of the traces; nil where
// OTEL_METRICS_EXPORTER is none.
func openMetrics(ctx context.Context, cfg Config, about *resource.Resource) (*modelMetrics, error) {
	if os.Getenv("OTEL_METRICS_EXPORTER") == "none" {
		return nil, nil
	}

	exporter, err := cfg.metricExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the exporter of metrics: %w", err)
	}

	m := &modelMetrics{provider: sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)), sdkmetric.WithResource(about),
		sdkmetric.WithCardinalityLimit(maxSeries),
	)}
	meter := m.provider.Meter(scope)

	m.tokens, err = meter.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"),
		metric.WithDescription("Number of input and output tokens used."), metric.WithExplicitBucketBoundaries(tokenBounds...))
	if err == nil {
		m.duration, err = meter.Float64Histogram("gen_ai.client.operation.duration", metric.WithUnit("s"),
			metric.WithDescription("Duration of model calls."), metric.WithExplicitBucketBoundaries(secondBounds...))
	}

	if err != nil {
		return nil, fmt.Errorf("make the metrics of model calls: %w", err)
	}

	return m, nil
}

// metricExporter reaches the collector. An endpoint for metrics alone, which only the SDK
// reads, wins.
func (c Config) metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	own := os.Getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") != ""

	switch {
	case c.Protocol == GRPC && own:
		return otlpmetricgrpc.New(ctx)
	case c.Protocol == GRPC:
		return otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(c.Endpoint))
	case own:
		return otlpmetrichttp.New(ctx)
	}

	base, _ := url.Parse(c.Endpoint) // Check has parsed it

	return otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base.JoinPath("v1", "metrics").String()))
}

// ModelCalled counts one model call: the model that was requested, the one that answered,
// the kind of its fault (empty: none), its tokens, where they are known, and how long it took.
func (t *Tracing) ModelCalled(ctx context.Context, requested, answered, fault string, input, output int64, took time.Duration) {
	if t == nil || t.metrics == nil {
		return
	}

	about := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "openai"),
		attribute.String("gen_ai.request.model", requested),
	}
	if answered != "" {
		about = append(about, attribute.String("gen_ai.response.model", answered))
	}

	for kind, tokens := range map[string]int64{"input": input, "output": output} {
		if tokens > 0 {
			t.metrics.tokens.Record(ctx, tokens, metric.WithAttributes(about...),
				metric.WithAttributes(attribute.String("gen_ai.token.type", kind)))
		}
	}

	if fault != "" {
		about = append(about, attribute.String("error.type", fault))
	}

	t.metrics.duration.Record(ctx, took.Seconds(), metric.WithAttributes(about...))
}
