package testkit

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metric "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector receives traces and metrics by OTLP over HTTP.
type Collector struct {
	URL string

	mu       sync.Mutex
	received bytes.Buffer
	spans    []Span
	points   map[string][]Point // by metric, as they were received last
}

// Point is one combination of attributes of a histogram.
type Point struct {
	*metric.HistogramDataPoint
	Unit       string
	Attributes map[string]string
}

// Span is one span that a collector received.
type Span struct {
	*trace.Span
	Attributes map[string]string
}

// Trace returns the id of the trace in hexadecimal digits.
func (s Span) Trace() string { return hex.EncodeToString(s.TraceId) }

// ID returns the id of the span in hexadecimal digits.
func (s Span) ID() string { return hex.EncodeToString(s.SpanId) }

// Parent returns the id of the parent span in hexadecimal digits, empty for a root.
func (s Span) Parent() string { return hex.EncodeToString(s.ParentSpanId) }

// Traces starts a collector, which ends with the test.
func Traces(t testing.TB) *Collector {
	t.Helper()

	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(server.Close)
	c.URL = server.URL

	return c
}

// receiveMetrics stores the points of an export, which are cumulative.
func (c *Collector) receiveMetrics(w http.ResponseWriter, body []byte) {
	request := &metrics.ExportMetricsServiceRequest{}
	if proto.Unmarshal(body, request) != nil {
		http.Error(w, "no metrics", http.StatusBadRequest)
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	c.received.Write(body)

	c.points = map[string][]Point{}

	for _, of := range request.ResourceMetrics {
		for _, scope := range of.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, point := range m.GetHistogram().GetDataPoints() {
					c.points[m.Name] = append(c.points[m.Name], Point{point, m.Unit, attributes(point.Attributes)})
				}
			}
		}
	}
}

// Points returns the last received points of a histogram.
func (c *Collector) Points(name string) []Point {
	c.mu.Lock()
	defer c.mu.Unlock()

	return append([]Point(nil), c.points[name]...)
}

func (c *Collector) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.URL.Path == "/v1/metrics" {
		c.receiveMetrics(w, body)
		return
	}

	request := &collector.ExportTraceServiceRequest{}
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, request) != nil {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	c.received.Write(body)

	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans = append(c.spans, Span{span, attributes(span.Attributes)})
			}
		}
	}
}

func attributes(given []*common.KeyValue) map[string]string {
	found := map[string]string{}

	for _, a := range given {
		text := a.Value.GetStringValue()
		for _, entry := range a.Value.GetArrayValue().GetValues() {
			text += entry.GetStringValue() + ";"
		}

		if text == "" {
			text = strconv.FormatInt(a.Value.GetIntValue(), 10)
		}

		found[a.Key] = text
	}

	return found
}

// Spans returns all received spans.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()

	return append([]Span(nil), c.spans...)
}

// Holds reports whether any received data contains a text.
func (c *Collector) Holds(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return bytes.Contains(c.received.Bytes(), []byte(text))
}
