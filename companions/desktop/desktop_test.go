package desktop

import (
	"bufio"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func start(t *testing.T, cfg Config) string {
	t.Helper()

	var zipped strings.Builder

	writer := gzip.NewWriter(&zipped)
	_, _ = writer.Write([]byte("plain"))
	require.NoError(t, writer.Close())

	cfg.Files = fstest.MapFS{
		"index.html":         {Data: []byte(`<meta content="__CSP_NONCE__">`)},
		"theme.js":           {Data: []byte("theme")},
		"assets/a-1.js":      {Data: []byte("plain")},
		"assets/a-1.js.gz":   {Data: []byte(zipped.String())},
		"assets/a-1.js.br":   {Data: []byte("brotli")},
		"assets/only.css.br": {Data: []byte("brotli")},
		"assets/page.md":     {Data: []byte("# Page")},
	}
	cfg.Log = slog.New(slog.DiscardHandler)
	service, err := New(cfg)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())

	done := make(chan error, 1)
	go func() { done <- service.Serve(ctx, listener) }()

	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})

	return "http://" + listener.Addr().String()
}

func get(t *testing.T, address string, header http.Header) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)

	request.Header = header
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}

	answer, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(request)
	require.NoError(t, err)

	defer answer.Body.Close()

	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)

	return answer, string(body)
}

func address(t *testing.T, raw string) *url.URL {
	t.Helper()

	at, err := url.Parse(raw)
	require.NoError(t, err)

	return at
}

func TestService_pages(t *testing.T) {
	t.Parallel()
	at := start(t, Config{Agent: address(t, "http://127.0.0.1:1")})

	first, page := get(t, at+"/", http.Header{})
	_, other := get(t, at+"/s/an-id/files", http.Header{})
	require.Equal(t, http.StatusOK, first.StatusCode)
	require.NotContains(t, page, nonceMark)
	require.NotEqual(t, page, other, "each page has a nonce of its own")

	policy := first.Header.Get("Content-Security-Policy")
	nonce := strings.TrimSuffix(strings.TrimPrefix(page, `<meta content="`), `">`)
	require.Contains(t, policy, "'nonce-"+nonce+"'")
	require.NotContains(t, policy, "unsafe")
	require.Len(t, first.Header.Values("Content-Security-Policy"), 1)
	require.Equal(t, "nosniff", first.Header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", first.Header.Get("Cache-Control"))

	theme, _ := get(t, at+"/theme.js", http.Header{})
	require.Equal(t, "no-cache", theme.Header.Get("Cache-Control"))

	asPage, html := http.Header{"Accept": {"text/html,*/*;q=0.8"}}, "text/html; charset=utf-8"
	for path, accept := range map[string]http.Header{
		"/s/an-id/files": {}, "/docs/decisions/0001.md": asPage, "/s/an-id": asPage,
	} {
		answer, _ := get(t, at+path, accept)
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
		require.Equal(t, html, answer.Header.Get("Content-Type"), path)
	}

	for path, accept := range map[string]http.Header{
		"/assets/of-another-build.js": asPage, "/assets/": asPage, "/favicon.ico": {"Accept": {"image/*"}}, "/robots.txt": {},
		"/.well-known/security.txt": asPage, "/.well-known/change-password": {}, "/oauth/authorize": asPage,
	} {
		lost, _ := get(t, at+path, accept)
		require.Equal(t, http.StatusNotFound, lost.StatusCode, path)
		require.Equal(t, "application/problem+json", lost.Header.Get("Content-Type"), path)
	}

	foreign, _ := get(t, at+"/", http.Header{"Host": {"evil.example.org"}})
	require.Equal(t, http.StatusForbidden, foreign.StatusCode)
}

func TestService_assets(t *testing.T) {
	t.Parallel()

	at := start(t, Config{Agent: address(t, "http://127.0.0.1:1")})
	for accept, encoding := range map[string]string{
		"": "", "gzip": "gzip", "gzip, br": "br", "br;q=0, gzip;q=0.5": "gzip", "identity": "", "br;q=0.0": "",
	} {
		answer, _ := get(t, at+"/assets/a-1.js", http.Header{"Accept-Encoding": {accept}})
		require.Equal(t, encoding, answer.Header.Get("Content-Encoding"), accept)
		require.Equal(t, "public, max-age=31536000, immutable", answer.Header.Get("Cache-Control"))
		require.Equal(t, "Accept-Encoding", answer.Header.Get("Vary"))
		require.Contains(t, answer.Header.Get("Content-Type"), "javascript")
	}

	answer, _ := get(t, at+"/assets/only.css", http.Header{})
	require.Equal(t, http.StatusNotAcceptable, answer.StatusCode)
	page, _ := get(t, at+"/assets/page.md", http.Header{})
	require.Equal(t, "text/markdown; charset=utf-8", page.Header.Get("Content-Type"))
}

func TestService_forwards(t *testing.T) {
	t.Parallel()

	release := make(chan struct{})
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "sandbox")
		w.Header().Set("X-Request-Id", "of-the-agent")
		w.Header().Set("X-Seen", r.Host+" "+r.Header.Get("Origin")+" "+r.Header.Get("X-Forwarded-For")+" "+r.URL.RequestURI())

		if r.URL.Path != "/api/stream" {
			return
		}

		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()

		<-release

		_, _ = io.WriteString(w, "data: two\n\n")
	}))
	t.Cleanup(agent.Close)

	identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "everloop_session", Value: "s", HttpOnly: true})
	}))
	t.Cleanup(identity.Close)
	at := start(t, Config{Agent: address(t, agent.URL), Identity: address(t, identity.URL)})

	// The agent sees the host and the Origin of the page, and whose request it is.
	answer, _ := get(t, at+"/api/sessions/a%2Fb?q=1", http.Header{
		"Host": {"localhost"}, "Origin": {"http://localhost"}, "X-Forwarded-For": {"192.0.2.7"},
	})
	require.Equal(t, "localhost http://localhost 192.0.2.7, 127.0.0.1 /api/sessions/a%2Fb?q=1", answer.Header.Get("X-Seen"))
	require.Equal(t, []string{"sandbox"}, answer.Header.Values("Content-Security-Policy"))
	require.Equal(t, []string{"of-the-agent"}, answer.Header.Values("X-Request-Id"))

	// A published app keeps the policy that takes its origin away.
	app, _ := get(t, at+"/apps/an-id/", http.Header{})
	require.Contains(t, app.Header.Get("X-Seen"), " /apps/an-id/")
	require.Equal(t, []string{"sandbox"}, app.Header.Values("Content-Security-Policy"))

	// Events come as they are sent: the second one only after the first was read.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/api/stream", nil)
	require.NoError(t, err)
	stream, err := http.DefaultClient.Do(request)
	require.NoError(t, err)

	defer stream.Body.Close()

	lines := bufio.NewScanner(stream.Body)
	require.True(t, lines.Scan())
	require.Equal(t, "data: one", lines.Text())
	close(release)

	rest, err := io.ReadAll(stream.Body)
	require.NoError(t, err)

	_ = rest // what the scanner has not taken

	signedIn, _ := get(t, at+"/api/v1/auth/login", http.Header{})
	require.Equal(t, "everloop_session", signedIn.Cookies()[0].Name)
	_, ways := get(t, at+"/desktop.json", http.Header{})
	require.JSONEq(t, `{"sign_in": ["password", "api_key"]}`, ways)
}

// A client that stops in a body gets an answer, and a body that pauses for less is passed on.
func TestForward_bodyThatStops(t *testing.T) {
	t.Parallel()

	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, _ = w.Write(text)
	}))
	t.Cleanup(agent.Close)

	send := func(stall time.Duration, body string) *http.Response {
		s := httptest.NewServer(forward(address(t, agent.URL), stall, slog.New(slog.DiscardHandler)))
		t.Cleanup(s.Close)

		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

		_, err = io.WriteString(conn, "POST /api/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"+body)
		require.NoError(t, err)

		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = answer.Body.Close() })

		return answer
	}

	require.Equal(t, http.StatusRequestTimeout, send(50*time.Millisecond, "a").StatusCode)

	whole := send(time.Minute, "abcd")
	require.Equal(t, http.StatusOK, whole.StatusCode)
	text, err := io.ReadAll(whole.Body)
	require.NoError(t, err)
	require.Equal(t, "abcd", string(text))
}

// TestService_openID checks that sign-in by OpenID Connect is offered at the registered
// address alone, and which paths of the provider pages can call.
func TestService_openID(t *testing.T) {
	t.Parallel()

	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	t.Cleanup(provider.Close)

	at := start(t, Config{Agent: address(t, provider.URL), Identity: address(t, provider.URL), Own: address(t, "http://localhost:1")})

	_, ways := get(t, at+"/desktop.json", http.Header{})
	require.JSONEq(t, `{"sign_in": ["password", "api_key"]}`, ways)

	_, ways = get(t, at+"/desktop.json", http.Header{"Host": {"localhost:1"}})
	require.JSONEq(t, `{"sign_in": ["password", "openid", "api_key"]}`, ways)

	for path, want := range map[string]string{
		"/oauth/token": "/oauth/token", "/.well-known/openid-configuration": "/.well-known/openid-configuration",
		"/oauth/authorize": "route_not_found", "/oauth/userinfo": "route_not_found", // of the identity service alone
	} {
		_, body := get(t, at+path, http.Header{})
		require.Contains(t, body, want, path)
	}
}

func TestService_withoutOthers(t *testing.T) {
	t.Parallel()

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	at := start(t, Config{Agent: address(t, gone.URL)})
	answer, body := get(t, at+"/api/sessions", http.Header{})
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Contains(t, body, `"code":"dependency_unavailable"`)
	require.Contains(t, body, `"request_id":"`+answer.Header.Get("X-Request-Id")+`"`)
	answer, body = get(t, at+"/api/v1/auth/login", http.Header{})
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	require.Contains(t, body, `"code":"identity_not_configured"`)
	_, ways := get(t, at+"/desktop.json", http.Header{})
	require.JSONEq(t, `{"sign_in": ["api_key"]}`, ways)
}
