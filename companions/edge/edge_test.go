package edge_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/edge"
)

// lines is a log that several goroutines write.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.String()
}

// serve starts a service whose log goes to a writer, and returns its address.
func serve(t *testing.T, log io.Writer, handler http.Handler) string {
	t.Helper()

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)

	go func() {
		ended <- edge.Service{Name: "test", Handler: handler, Log: slog.New(slog.NewTextHandler(log, nil))}.Serve(ctx, listener)
	}()

	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})

	return "http://" + listener.Addr().String()
}

// answer is what a client sees of a request.
type answer struct {
	status  int
	header  http.Header
	problem edge.Problem
}

func send(t *testing.T, method, url, id string) answer {
	t.Helper()

	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)

	if id != "" {
		request.Header.Set(edge.HeaderRequestID, id)
	}

	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)

	defer response.Body.Close()

	out := answer{status: response.StatusCode, header: response.Header}
	if response.StatusCode >= 400 {
		require.NoError(t, json.NewDecoder(response.Body).Decode(&out.problem))
	}

	return out
}

func TestService_namesRequests(t *testing.T) {
	t.Parallel()

	var log lines

	mux := http.NewServeMux()
	mux.HandleFunc("GET /fine", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /panic", func(http.ResponseWriter, *http.Request) { panic("of the test") })
	mux.HandleFunc("GET /fault", edge.Handle(slog.New(slog.NewTextHandler(&log, nil)),
		func(http.ResponseWriter, *http.Request) error { return io.ErrUnexpectedEOF }))
	mux.HandleFunc("/", edge.NoRoute(mux, "there is nothing"))
	url := serve(t, &log, mux)

	require.Equal(t, "own-1", send(t, "GET", url+"/fine", "own-1").header.Get(edge.HeaderRequestID))

	first := send(t, "GET", url+"/fine", "").header.Get(edge.HeaderRequestID)
	require.NotEmpty(t, first)
	require.NotEqual(t, first, send(t, "GET", url+"/fine", "").header.Get(edge.HeaderRequestID))
	require.NotEqual(t, "a b", send(t, "GET", url+"/fine", "a b").header.Get(edge.HeaderRequestID), "no id that it takes over")

	for path, status := range map[string]int{"/fault": 503, "/panic": 500, "/nothing": 404} {
		a := send(t, "GET", url+path, "own-2")
		require.Equal(t, status, a.status)
		require.Equal(t, "own-2", a.problem.RequestID, path)
		require.Equal(t, "own-2", a.header.Get(edge.HeaderRequestID), path)
	}

	require.Equal(t, 2, strings.Count(log.String(), "request_id=own-2"), log.String())
}

// A browser that opens an address gets a page, and everything else what programs read.
func TestAnswer_pageForBrowsers(t *testing.T) {
	t.Parallel()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /refused", edge.Handle(slog.New(slog.DiscardHandler), func(http.ResponseWriter, *http.Request) error {
		return edge.Refuse(http.StatusForbidden, "not_yours", "<b>this</b> is another's")
	}))
	mux.HandleFunc("/", edge.NoRoute(mux, "there is nothing"))
	url := serve(t, io.Discard, mux)

	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct{ method, path, accept, kind, body string }{
		{"GET", "/refused", browser, "text/html; charset=utf-8", "&lt;b&gt;this&lt;/b&gt; is another&#39;s"},
		{"GET", "/none", browser, "text/html; charset=utf-8", "there is nothing"},
		{"POST", "/refused", browser, "application/problem+json", "method_not_allowed"},
		{"GET", "/refused", "*/*", "application/problem+json", "not_yours"},
		{"GET", "/refused", "application/json, text/html", "application/problem+json", "not_yours"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Accept", c.accept)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, c.kind, res.Header.Get("Content-Type"), c)
		require.Contains(t, string(body), c.body, c)
		require.Contains(t, string(body), res.Header.Get("X-Request-Id"), c)
	}
}

func TestNoRoute(t *testing.T) {
	t.Parallel()

	mux := http.NewServeMux()
	nothing := func(http.ResponseWriter, *http.Request) {}
	mux.HandleFunc("GET /things/{id}", nothing)
	mux.HandleFunc("PUT /things/{id}", nothing)
	mux.HandleFunc("POST /things/{id}/run", nothing)
	mux.HandleFunc("/", edge.NoRoute(mux, "there is nothing"))
	url := serve(t, io.Discard, mux)

	for _, c := range []struct {
		method, path, allow, code string
		status                    int
	}{
		{"GET", "/things/1", "", "", 200},
		{"HEAD", "/things/1", "", "", 200},
		{"DELETE", "/things/1", "GET, HEAD, PUT", "method_not_allowed", 405},
		{"OPTIONS", "/things/1", "GET, HEAD, PUT", "method_not_allowed", 405},
		{"GET", "/things/1/run", "POST", "method_not_allowed", 405},
		{"GET", "/things", "", "route_not_found", 404},
		{"GET", "/things/1/run/", "", "route_not_found", 404},
	} {
		a := send(t, c.method, url+c.path, "")
		require.Equal(t, c.status, a.status, c)
		require.Equal(t, c.allow, a.header.Get("Allow"), c)
		require.Equal(t, c.code, a.problem.Code, c)
	}
}
