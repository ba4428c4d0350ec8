package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is mounted beside the REST interface has a name of its own among the
// routes; paths that nobody serves share one, so that they cannot fill the metrics.
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
