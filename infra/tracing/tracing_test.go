package tracing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	otlpmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"everloop/internal/testkit"
)

func open(t *testing.T, endpoint string, log *bytes.Buffer) *Tracing {
	t.Helper()
	traces, err := Open(t.Context(), Config{
		Endpoint: endpoint, Version: "1", Logger: slog.New(slog.NewTextHandler(log, nil)), CloseWithin: time.Minute,
	})
	require.NoError(t, err)

	return traces
}

func TestOpen_withoutEndpointHasNoTraces(t *testing.T) {
	t.Parallel()
	traces := open(t, "", nil)
	require.Nil(t, traces)
	require.Nil(t, traces.Requests())
	require.Nil(t, traces.Statements())
	interceptors, err := traces.Interceptors()
	require.NoError(t, err)
	require.Empty(t, interceptors)
	_, span := traces.Work().Start(t.Context(), "work")
	require.False(t, span.IsRecording())
	traces.Close()
}

// grpcCollector receives traces by OTLP over gRPC.
type grpcCollector struct {
	otlp.UnimplementedTraceServiceServer
	received chan *otlp.ExportTraceServiceRequest
}

func (c grpcCollector) Export(_ context.Context, r *otlp.ExportTraceServiceRequest) (*otlp.ExportTraceServiceResponse, error) {
	c.received <- r
	return &otlp.ExportTraceServiceResponse{}, nil
}

// grpcMetrics receives metrics by OTLP over gRPC.
type grpcMetrics struct {
	otlpmetrics.UnimplementedMetricsServiceServer
	received chan *otlpmetrics.ExportMetricsServiceRequest
}

func (c grpcMetrics) Export(_ context.Context, r *otlpmetrics.ExportMetricsServiceRequest) (
	*otlpmetrics.ExportMetricsServiceResponse, error,
) {
	c.received <- r
	return &otlpmetrics.ExportMetricsServiceResponse{}, nil
}

func TestTracing_ModelCalled_ofAFailedCall(t *testing.T) {
	t.Parallel()
	collector := testkit.Traces(t)
	traces := open(t, collector.URL, &bytes.Buffer{})
	traces.ModelCalled(t.Context(), "m", "", "timeout", 0, 0, 2*time.Second)
	traces.Close()

	require.Empty(t, collector.Points("gen_ai.client.token.usage"), "its tokens are not known")
	points := collector.Points("gen_ai.client.operation.duration")
	require.Len(t, points, 1)
	require.Equal(t, map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m", "error.type": "timeout",
	}, points[0].Attributes)
	require.InDelta(t, 2, points[0].GetSum(), 0.001)

	var none *Tracing

	none.ModelCalled(t.Context(), "m", "", "", 1, 1, time.Second)
}

func TestOpen_withoutMetrics(t *testing.T) {
	t.Setenv("OTEL_METRICS_EXPORTER", "none")

	collector := testkit.Traces(t)
	traces := open(t, collector.URL, &bytes.Buffer{})
	traces.ModelCalled(t.Context(), "m", "m", "", 1, 1, time.Second)
	_, span := traces.Requests().Start(t.Context(), "request")
	span.End()
	traces.Close()
	require.Len(t, collector.Spans(), 1)
	require.Empty(t, collector.Points("gen_ai.client.operation.duration"))
}

func TestOpen_gRPC(t *testing.T) {
	t.Parallel()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	collector := grpcCollector{received: make(chan *otlp.ExportTraceServiceRequest, 1)}
	server := grpc.NewServer()

	measured := grpcMetrics{received: make(chan *otlpmetrics.ExportMetricsServiceRequest, 1)}

	otlp.RegisterTraceServiceServer(server, collector)

	otlpmetrics.RegisterMetricsServiceServer(server, measured)
	go func() { _ = server.Serve(listener) }()

	defer server.Stop()

	traces, err := Open(t.Context(), Config{
		Endpoint: "http://" + listener.Addr().String(), Protocol: GRPC, Logger: slog.New(slog.DiscardHandler), CloseWithin: time.Minute,
	})
	require.NoError(t, err)
	_, span := traces.Requests().Start(t.Context(), "request")
	span.End()
	traces.ModelCalled(t.Context(), "m", "m", "", 3, 4, time.Second)
	traces.Close()
	require.Len(t, (<-measured.received).ResourceMetrics[0].ScopeMetrics[0].Metrics, 2)
	require.Equal(t, "request", (<-collector.received).ResourceSpans[0].ScopeSpans[0].Spans[0].Name)
}

func TestCheck(t *testing.T) {
	t.Parallel()

	for _, good := range []string{"", "http://127.0.0.1:4318", "https://collector.example/otlp"} {
		require.NoError(t, Check(good), good)
	}

	for _, bad := range []string{
		"127.0.0.1:4318", "ftp://host", "http://", "http://user:secret@host", "http://host?key=secret", "http://h\x00st",
	} {
		err := Check(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestExport_onlyKnownAttributesAndNoTexts(t *testing.T) {
	t.Parallel()
	collector := testkit.Traces(t)
	traces := open(t, collector.URL, &bytes.Buffer{})
	_, span := traces.Requests().Start(t.Context(), "GET /api/me")
	span.SetAttributes(attribute.String("http.route", "/api/me"), attribute.String("message", "s3cret"))
	span.RecordError(errors.New("s3cret"))
	span.AddEvent("s3cret")
	span.SetStatus(codes.Error, "s3cret")
	span.SetAttributes(attribute.String("db.query.text", strings.Repeat("x", 3*maxAttribute)))
	span.End()
	traces.Close()

	spans := collector.Spans()
	require.Len(t, spans, 1)
	require.Equal(t, "/api/me", spans[0].Attributes["http.route"])
	require.Len(t, spans[0].Attributes["db.query.text"], maxAttribute)
	require.Len(t, spans[0].Attributes, 2)
	require.EqualValues(t, 2, spans[0].Status.Code, "it failed")
	require.False(t, collector.Holds("s3cret"))
	require.True(t, collector.Holds("everloop"), "the name of the service")
}

func TestWork_startsNoTraces(t *testing.T) {
	t.Parallel()
	collector := testkit.Traces(t)
	traces := open(t, collector.URL, &bytes.Buffer{})
	ctx, span := traces.Work().Start(t.Context(), "periodic")
	require.False(t, trace.SpanContextFromContext(ctx).IsValid())
	span.End()

	ctx, request := traces.Requests().Start(t.Context(), "request")
	_, span = traces.Work().Start(ctx, "work")
	span.End()
	request.End()
	traces.Close()
	require.Len(t, collector.Spans(), 2)
}

// A collector that refuses everything is logged once in a minute.
func TestExport_failuresAreLoggedOnceInAWhile(t *testing.T) {
	t.Parallel()

	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()

	var log bytes.Buffer

	traces := open(t, refusing.URL, &log)
	for range 3 {
		_, span := traces.Requests().Start(t.Context(), "request")
		span.End()
		require.NoError(t, traces.provider.ForceFlush(t.Context()))
	}

	traces.Close()
	require.Equal(t, 1, strings.Count(log.String(), "failed to export traces"), log.String())
}

func TestFailureLog_onceAnInterval(t *testing.T) {
	t.Parallel()

	var log bytes.Buffer

	now := time.Now()

	failures := &failureLog{logger: slog.New(slog.NewTextHandler(&log, nil)), every: time.Minute, now: func() time.Time { return now }}
	for range 100 {
		failures.Handle(errors.New("away"))
	}

	require.Equal(t, 1, strings.Count(log.String(), "level=WARN"))

	now = now.Add(time.Minute)

	failures.Handle(errors.New("still away"))
	require.Equal(t, 2, strings.Count(log.String(), "level=WARN"))
	require.Contains(t, log.String(), "failures_not_logged=99")
}

// A collector that takes requests and answers none holds up no span, and the end of
// the process for closeTimeout at most.
func TestClose_collectorThatHangs(t *testing.T) {
	t.Parallel()

	free := make(chan struct{})

	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-free }))
	defer hanging.Close()
	defer close(free)

	traces, err := Open(t.Context(), Config{Endpoint: hanging.URL, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)

	began := time.Now()

	for range 10_000 { // more than its queue holds
		_, span := traces.Requests().Start(context.Background(), "request")
		span.End()
	}

	require.Less(t, time.Since(began), time.Minute, "it would wait for good")
	began = time.Now()

	traces.Close()
	require.Less(t, time.Since(began), time.Minute)
}
