package components_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/internal/release"
	"everloop/terminal/components"
)

// server answers each path with a body; the others with 404.
func server(t *testing.T, version string, pages map[string]string) string {
	t.Helper()

	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if version != "" {
			w.Header().Set(release.Header, version)
		}

		page, has := pages[r.URL.Path]
		if !has {
			w.WriteHeader(http.StatusNotFound)
		}

		_, _ = w.Write([]byte(page))
	}))
	t.Cleanup(s.Close)

	return s.URL
}

func probe(t *testing.T, c components.Component) components.Result {
	t.Helper()

	c.Name, c.Container, c.Variable = "the thing", "thing", "THING_ADDR"

	return components.Probe(t.Context(), c, time.Minute)
}

func TestProbe(t *testing.T) {
	t.Parallel()

	health := map[string]string{"/health": `{"status":"ok"}`}

	for name, tc := range map[string]struct {
		c       components.Component
		problem string // part of it; empty: none
		hint    string
	}{
		"healthy":             {c: components.Component{URL: server(t, "", health), Path: "/health", Status: true}},
		"healthy and current": {c: components.Component{Key: "identity", URL: server(t, release.Version, health), Path: "/health"}},
		"an address that ends with a slash": {
			c: components.Component{URL: server(t, "", health) + "/", Path: "/health"},
		},
		"another status": {
			c:       components.Component{URL: server(t, "", nil), Path: "/health"},
			problem: "returned status 404", hint: "docker compose logs thing",
		},
		"another program": {
			c:       components.Component{URL: server(t, "", map[string]string{"/health": "<html>"}), Path: "/health", Status: true},
			problem: "another program can use its port", hint: "container thing",
		},
		"nothing there": {
			c:       components.Component{URL: "http://127.0.0.1:1", Path: "/health"},
			problem: "unreachable", hint: "its address in THING_ADDR",
		},
		"too old": {
			c:       components.Component{Key: "identity", URL: server(t, "2608.0.2", health), Path: "/health"},
			problem: "version 2608.0.2 is too old", hint: "container thing",
		},
		"without what the agent needs": {
			c: components.Component{URL: server(t, "", health), Path: "/health", Needs: "/api/pat"}, problem: "does not serve GET /api/pat",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			result := probe(t, tc.c)
			require.Equal(t, tc.problem == "", result.OK, result.Problem)
			require.Contains(t, result.Problem, tc.problem)
			require.Contains(t, result.Hint, tc.hint)
		})
	}
}

func TestProbe_timeout(t *testing.T) {
	t.Parallel()

	left := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); close(left) }))
	result := components.Probe(t.Context(), components.Component{URL: s.URL, Path: "/"}, 50*time.Millisecond)
	require.Contains(t, result.Problem, "timed out")
	<-left
	s.Close()
}

func TestCheck_order(t *testing.T) {
	t.Parallel()

	good := server(t, "", map[string]string{"/": ""})
	list := []components.Component{
		{Name: "first", URL: good, Path: "/"},
		{Name: "second", URL: good, Path: "/health", Container: "two"},
		{Name: "third"},
	}
	results := components.Check(t.Context(), list, time.Minute)
	require.True(t, components.Failed(results))

	var text strings.Builder
	require.NoError(t, components.WriteText(&text, results))

	lines := strings.Split(text.String(), "\n")
	require.Contains(t, lines[0], "1  ok    first")
	require.Contains(t, lines[1], "2  FAIL  second")
	require.Contains(t, lines[1], "docker compose logs two")
	require.Contains(t, lines[2], "3  skip  third")
	require.Contains(t, text.String(), "1 of 3 components failed.")

	results = components.Check(t.Context(), list[:1], time.Minute)
	require.False(t, components.Failed(results))
	text.Reset()
	require.NoError(t, components.WriteJSON(&text, results))
	require.JSONEq(t, `{"ok":true,"components":[{"name":"first","ok":true,"status":200,"url":"`+good+`/"}]}`, text.String())
}
