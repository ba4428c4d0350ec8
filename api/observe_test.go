package api_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/infra/tracing"
	"everloop/internal/testkit"
)

// What is mounted next to the REST interface has a name of its own among the
// routes; paths without a route share one, so that they cannot fill the metrics.
func TestRoutesOfTheMetrics(t *testing.T) {
	t.Parallel()

	w := newWorld(t)
	for _, path := range []string{"/socket.io/?EIO=4&transport=polling", "/nowhere/1", "/nowhere/2"} {
		w.do("GET", path, "", "")
	}

	metrics := w.do("GET", "/metrics", "", "").text
	require.Contains(t, metrics, `everloop_http_request_seconds_count{method="GET",route="/socket.io/",status="404"} 1`)
	require.Contains(t, metrics, `everloop_http_request_seconds_count{method="GET",route="unmatched",status="404"} 2`)
	require.NotContains(t, metrics, "nowhere")
}

// openTraces sends the traces of a test to its own collector.
func openTraces(t *testing.T) (*testkit.Collector, *tracing.Tracing) {
	t.Helper()
	collector := testkit.Traces(t)
	traces, err := tracing.Open(t.Context(), tracing.Config{
		Endpoint: collector.URL, Logger: slog.New(slog.DiscardHandler), CloseWithin: time.Minute,
	})
	require.NoError(t, err)

	return collector, traces
}

func TestRequestSpans(t *testing.T) {
	t.Parallel()

	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

	collector, traces := openTraces(t)
	w := newWorld(t, func(c *parts) { c.Tracer = traces.Requests() })
	session := w.session(`{}`)
	given := header("Traceparent", "00-"+trace+"-"+parent+"-01")
	w.do("GET", "/api/sessions/"+session+"?q=s3cret", w.ann, "", given)
	w.do("GET", "/nowhere/s3cret", w.ann, "", header("Traceparent", "malformed"))

	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/socket.io/?EIO=4&transport=polling"} {
		w.do("GET", path, "", "", given)
	}

	traces.Close()

	names := map[string]testkit.Span{}
	for _, span := range collector.Spans() {
		names[span.Name] = span
	}

	require.Len(t, names, 3)
	require.Empty(t, names["POST /api/sessions"].Parent())
	read := names["GET /api/sessions/{session_id}"]
	require.Equal(t, trace, read.Trace())
	require.Equal(t, parent, read.Parent())
	require.Equal(t, map[string]string{
		"http.request.method": "GET", "http.route": "/api/sessions/{session_id}", "http.response.status_code": "200",
	}, read.Attributes)
	require.Equal(t, "404", names["GET unmatched"].Attributes["http.response.status_code"])
	require.False(t, collector.Holds(session), "an id of a path")
	require.False(t, collector.Holds("s3cret"))
	require.Contains(t, w.log.String(), `"trace_id":"`+trace+`"`)
}
