package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/gateway"
	"everloop/internal/clients"
)

// announce sends the head of a request with a body that does not come.
func (s *server) announce(t *testing.T, head string) *bufio.Reader {
	t.Helper()

	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nExpect: 100-continue\r\n%s\r\n\r\n", operatorKey, head)
	require.NoError(t, err)

	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n') // the service starts to read the body
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue")

	_, err = in.ReadString('\n')
	require.NoError(t, err)

	return in
}

// Bodies that are announced and do not come keep no other request out.
func TestService_announcedBodiesCostNothing(t *testing.T) {
	t.Parallel()
	s := start(t, one(upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)

		fmt.Fprint(w, `{"id":"1"}`)
	}), ""), 0)

	for range 8 {
		s.announce(t, "Content-Length: 67108864")
		s.announce(t, "Transfer-Encoding: chunked")
	}

	status, text := s.chat(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, 200, status, text)

	// A body that did come counts, and no longer than its request.
	large := strings.Repeat("x", 60<<20)
	for range 10 {
		status, text = s.chat(large)
		require.Equal(t, 400, status, text)
	}
}

// A body of which nothing comes is given up, and the deadline ends with the body.
func TestService_bodyThatStops(t *testing.T) {
	t.Parallel()

	const stall = 50 * time.Millisecond

	slow := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)

		select { // longer than the deadline of the body
		case <-time.After(4 * stall):
		case <-r.Context().Done():
			return
		}

		fmt.Fprint(w, `{"id":"1"}`)
	})
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(one(slow, "")), 0o600))
	service, err := gateway.New(gateway.Config{File: file, Key: operatorKey, BodyStall: stall})
	require.NoError(t, err)

	s := &server{Server: httptest.NewServer(service.Handler()), t: t, service: service, dir: dir}
	t.Cleanup(s.Close)

	answer, err := http.ReadResponse(s.announce(t, "Content-Length: 100"), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestTimeout, answer.StatusCode)
	require.Equal(t, "request_timeout", code(t, read(t, answer)))

	// A client that does not wait for leave to send gets the answer too.
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Length: 100\r\n\r\n{", operatorKey)
	require.NoError(t, err)

	answer, err = http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestTimeout, answer.StatusCode)
	require.Equal(t, "request_timeout", code(t, read(t, answer)))

	status, text := s.chat(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, 200, status, text)
}

// A body that nothing reads, or of which the settings are read, keeps no request open.
func TestService_bodyThatStops_everywhere(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "config.yaml")
	settings := one(upstream(t, http.NotFound), "") + "keys: [{name: none, key: key-without-any-model, max_concurrency: 1}]\n"
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	service, err := gateway.New(gateway.Config{File: file, Key: operatorKey, BodyStall: 50 * time.Millisecond})
	require.NoError(t, err)

	s := httptest.NewServer(service.Handler())
	t.Cleanup(s.Close)

	for line, status := range map[string]int{
		"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost":                             http.StatusUnauthorized,
		"POST /v1/messages HTTP/1.1\r\nHost: localhost":                                     http.StatusUnauthorized,
		"POST /v1/responses HTTP/1.1\r\nHost: elsewhere.example":                            http.StatusForbidden,
		"POST /nowhere HTTP/1.1\r\nHost: localhost":                                         http.StatusNotFound,
		"GET /health HTTP/1.1\r\nHost: localhost":                                           http.StatusOK,
		"PUT /admin/config HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: " + operatorKey:        http.StatusRequestTimeout,
		"PUT /admin/config HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: key-without-any-model": http.StatusForbidden,
	} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

		_, err = fmt.Fprintf(conn, "%s\r\nContent-Length: 100\r\n\r\n", line)
		require.NoError(t, err)

		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, line)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode, line)
	}
}

// A client that does not read its answer keeps neither the source nor its key busy.
func TestService_clientThatDoesNotRead(t *testing.T) {
	t.Parallel()

	large := `{"choices":[{"message":{"content":"` + strings.Repeat("x", 32<<20) + `"}}]}`
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if text, _ := io.ReadAll(r.Body); strings.Contains(string(text), "large") {
			fmt.Fprint(w, large)
			return
		}

		fmt.Fprint(w, `{"id":"small"}`)
	})
	settings := one(url, ", max_concurrency: 1, max_wait_s: 20") + "keys: [{name: a, key: key-of-one-request, max_concurrency: 1}]\n"

	begin := func(stall time.Duration, path string) *server {
		file := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
		service, err := gateway.New(gateway.Config{File: file, Key: operatorKey, WriteStall: stall})
		require.NoError(t, err)

		s := &server{Server: httptest.NewServer(service.Handler()), t: t, service: service}
		t.Cleanup(s.Close)

		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

		const body = `{"model":"m","max_tokens":9,"input":"large","messages":[{"role":"user","content":"large"}]}`

		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-of-one-request\r\n"+
			"Content-Length: %d\r\n\r\n%s", path, len(body), body)
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 12)) // it reads no further
		require.NoError(t, err)

		return s
	}

	s := begin(time.Hour, "/v1/chat/completions")
	status, text := s.chat(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, 200, status, text)
	require.Equal(
		t,
		429,
		s.do(
			t.Context(),
			"POST",
			"/v1/chat/completions",
			"key-of-one-request",
			`{"model":"m","messages":[{"role":"user","content":"x"}]}`,
		).StatusCode,
	)

	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses"} {
		s := begin(100*time.Millisecond, path)
		closed := make(chan struct{})

		go func() { // waits for the requests under way, and closes connections that have none
			s.Server.Close()
			close(closed)
		}()

		select {
		case <-closed:
		case <-time.After(time.Minute):
			require.Fail(t, "the request of a client that reads nothing did not end", path)
		}
	}
}

// One address cannot open connections until no other client can.
func TestService_Serve_boundsEachClient(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(one(upstream(t, http.NotFound), "")), 0o600))
	service, err := gateway.New(gateway.Config{File: file, Key: operatorKey, Connections: 2})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))

	ended := make(chan error, 1)
	go func() { ended <- service.Serve(ctx, listener) }()

	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})

	for range 2 {
		conn, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
	}

	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, string(clients.Refusal()), string(answer))
}
