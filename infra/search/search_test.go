package search_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/companions/mock"
	"everloop/domain"
	"everloop/infra/search"
)

func ask(t *testing.T, base, query string) (tools.WebResults, error) {
	t.Helper()
	return askWithin(t, time.Minute, base, query)
}

func askWithin(t *testing.T, limit time.Duration, base, query string) (tools.WebResults, error) {
	t.Helper()

	c, err := search.New(search.Config{BaseURL: base, Timeout: limit})
	require.NoError(t, err)

	return c.Search(t.Context(), query)
}

func serving(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()

	server := httptest.NewServer(handler)

	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})

	return server.URL
}

func TestSearchOfTheDemonstration(t *testing.T) {
	t.Parallel()
	base := serving(t, mock.New(mock.Config{}).Handler().ServeHTTP)
	c, err := search.New(search.Config{BaseURL: base, Demo: true})
	require.NoError(t, err)
	found, err := c.Search(t.Context(), "green tea & more?")
	require.NoError(t, err)
	require.True(t, found.Demo)
	require.Equal(t, base+"/pages/tea", found.Items[0].URL)
	require.Contains(t, found.Items[0].Snippet, "70 degrees")
}

func TestSearch_query(t *testing.T) {
	t.Parallel()

	var asked []string

	base := serving(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.URL.Query().Get("q")+" "+r.URL.Query().Get("format")+" "+r.URL.Query().Get("language"))

		fmt.Fprint(
			w,
			`{"results": [{"url": "https://a", "title": "A", "content": null}, {"url": "https://a", "title": "again"}, {"title": "no `+
				`address"}], "more": 1}`,
		)
	})
	for _, suffix := range []string{"", "/", "/search", "/sub", "/search?language=de"} {
		found, err := ask(t, base+suffix, "a&b=c #+ü")
		require.NoError(t, err)
		require.Equal(t, []tools.WebResult{{Title: "A", URL: "https://a"}}, found.Items)
	}

	q := " a&b=c #+ü json "
	require.Equal(t, []string{"/search" + q, "/search" + q, "/search" + q, "/sub/search" + q, "/search" + q + "de"}, asked)
}

func TestFailuresAreClear(t *testing.T) {
	t.Parallel()

	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if len(header) > 0 {
				w.Header().Set(header[0], header[1])
			}

			w.WriteHeader(code)
		}
	}

	say := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	for words, handler := range map[string]http.HandlerFunc{
		"takes no more queries for 30 seconds (status 429)": status(429, "Retry-After", "30"),
		"takes no more queries (status 429)":                status(429),
		"fault of its own (status 502)":                     status(502),
		"JSON format may be switched off":                   status(403),
		"refused the query (status 400)":                    status(400),
		"is its JSON format switched on?":                   say("<html>"),
		"longer than 4 MB":                                  say(`{"results": ["` + strings.Repeat("x", 5<<20) + `"]}`),
		"did not answer in time":                            func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"cannot be reached":                                 func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		limit := time.Minute
		if words == "did not answer in time" {
			limit = 50 * time.Millisecond
		}

		_, err := askWithin(t, limit, serving(t, handler), "x")
		require.ErrorContains(t, err, words)
		require.NotContains(t, []domain.Kind{domain.Internal, domain.Unavailable}, domain.AsError(err).Kind, "the model sees it")
		require.NotContains(t, err.Error(), "127.0.0.1")
	}
}

func TestSearch_cancelled(t *testing.T) {
	t.Parallel()

	reached := make(chan struct{})
	base := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
	})
	c, err := search.New(search.Config{BaseURL: base})
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")

	go func() {
		<-reached
		cancel(stopped)
	}()

	_, err = c.Search(ctx, "x")
	require.ErrorIs(t, err, stopped)
}

func TestAddressesThatAreNone(t *testing.T) {
	t.Parallel()

	for _, base := range []string{"", "searx.local", "ftp://x", "http://", "http://[::1"} {
		_, err := search.New(search.Config{BaseURL: base})
		require.ErrorContains(t, err, "http:// or https:// URL", base)
	}
}

func TestSearch_followsNoRedirect(t *testing.T) {
	t.Parallel()

	asked := make(chan string, 1)
	elsewhere := serving(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.RawQuery })
	base := serving(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	})
	_, err := ask(t, base, "tea")
	require.ErrorContains(t, err, "status 307")
	require.Empty(t, asked)
}
