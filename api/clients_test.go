package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/internal/clients"
	"everloop/service/accounts"
)

// behindProxy makes this machine a trusted proxy.
func behindProxy(t *testing.T) func(*parts) {
	t.Helper()

	proxies, err := clients.ParseProxies([]string{"127.0.0.0/8"})
	require.NoError(t, err)

	return func(c *parts) { c.Proxies = proxies }
}

func from(address string) with { return header("X-Forwarded-For", address) }

func TestGuesses_of_keys_are_bounded_by_address(t *testing.T) {
	t.Parallel()

	var guarded *auth.Authenticator

	w := newWorld(t, behindProxy(t), func(c *parts) {
		guarded = auth.New(accounts.New(c.db.DB), auth.Options{GuessesPerMinute: 3})
		c.Auth = guarded
	})
	t.Cleanup(guarded.Close)

	for _, guess := range []string{"el_one", "el_two", "el_three", "el_three"} {
		w.do("GET", "/api/auth/me", guess, "", from("198.51.100.1")).code(401, "unauthorized")
	}

	refused := w.do("GET", "/api/auth/me", w.ann, "", from("198.51.100.1, 10.0.0.1, 198.51.100.1"))
	refused.code(429, "too_many_guesses")
	require.NotEmpty(t, refused.header.Get("Retry-After"))

	large := `{"title":"` + strings.Repeat("x", 100<<10) + `"}`
	w.do("POST", "/api/sessions", "el_other", large, from("198.51.100.1")).code(429, "too_many_guesses")
	w.do("GET", "/api/auth/me", "", "", from("198.51.100.1")).code(401, "unauthorized")
	require.Equal(t, 200, w.do("GET", "/api/auth/me", w.ann, "", from("198.51.100.2")).status)
}

// Of the bodies of all requests only so much is in memory at once, however many
// clients send how slowly.
func TestBodies_of_all_requests_have_one_budget(t *testing.T) {
	t.Parallel()

	const budget = 300 << 10

	w := newWorld(t, func(c *parts) { c.BodyBudget = budget })
	body := `{"title":"` + strings.Repeat("x", 120<<10) + `"}`
	require.Less(t, w.do("POST", "/api/sessions", w.ann, body).status, 500, "one fits")

	// Slow ones hold what they have sent once it has been read, but for those that find
	// no room themselves: sooner or later there is none for a whole body.
	var (
		slow []net.Conn
		busy reply
	)

	require.Eventually(t, func() bool {
		slow = append(slow, w.halfSent(w.ann, 110<<10))
		busy = w.do("POST", "/api/sessions", w.ann, body)

		return busy.status == 503
	}, timeout, tick)
	busy.code(503, "body_budget_exhausted")
	require.Equal(t, "1", busy.header.Get("Retry-After"))
	require.Equal(t, 200, w.do("GET", "/api/sessions", w.ann, "").status, "requests without a body are not concerned")

	for _, conn := range slow {
		require.NoError(t, conn.Close())
	}

	require.Eventually(t, func() bool {
		return w.do("POST", "/api/sessions", w.ann, body).status < 500
	}, timeout, tick, "what a request held is released")
}

// halfSent sends the beginning of a large body and keeps the connection open.
func (w *world) halfSent(key string, sent int) net.Conn {
	w.t.Helper()
	at, err := url.Parse(w.url)
	require.NoError(w.t, err)
	conn, err := net.Dial("tcp", at.Host)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })

	_, err = fmt.Fprintf(conn, "POST /api/sessions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n%s", at.Host, key, strings.Repeat("x", sent))
	require.NoError(w.t, err)

	return conn
}

func TestRefuseConnection_is_a_problem(t *testing.T) {
	t.Parallel()

	answer, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(httpx.RefuseConnection()))), nil)
	require.NoError(t, err)

	defer answer.Body.Close()

	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	r := reply{t, answer.StatusCode, answer.Header, string(text)}
	r.code(429, "too_many_connections")
	require.Equal(t, "1", r.header.Get("Retry-After"))
}

// Requests of a proxy count for the clients that they are from: streams as long as
// they are open, others until they are answered.
func TestConnections_of_clients_behind_a_proxy(t *testing.T) {
	t.Parallel()
	change := behindProxy(t)

	var cfg parts
	change(&cfg)
	bound := clients.NewConnections(2, cfg.Proxies)
	w := newWorldOn(t, func(l net.Listener) net.Listener { return bound.Listen(l, httpx.RefuseConnection) }, change,
		func(c *parts) { c.StreamPulse = 20 * time.Millisecond }) // by which a client who has left is noticed
	session := w.session(`{}`)
	open := func(address string) *http.Response {
		request := w.request("GET", "/api/sessions/"+session+"/events", w.ann, "", from(address), header("Accept", "text/event-stream"))
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		require.NoError(t, err)
		t.Cleanup(func() { _ = response.Body.Close() })

		return response
	}

	for range 5 {
		require.Equal(t, 200, w.do("GET", "/api/auth/me", w.ann, "", from("198.51.100.1")).status)
	}

	first := open("198.51.100.1")
	require.Equal(t, 200, first.StatusCode)
	require.Equal(t, 200, open("198.51.100.1").StatusCode)
	w.do("GET", "/api/auth/me", w.ann, "", from("198.51.100.1")).code(429, "too_many_connections")
	require.Equal(t, 200, w.do("GET", "/api/auth/me", w.ann, "", from("198.51.100.2")).status)
	require.NoError(t, first.Body.Close())
	require.Eventually(t, func() bool {
		return w.do("GET", "/api/auth/me", w.ann, "", from("198.51.100.1")).status == 200
	}, time.Minute, tick)
}
