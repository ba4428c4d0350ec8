package mock_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/mock"
)

// paths take bodies.
var paths = []string{"/v1/chat/completions", "/v1/audio/transcriptions"}

// serve returns the response of a service to a body from a reader.
func serve(handler http.Handler, path string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, body)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)

	return w
}

// A body of one byte more than 32 MiB is refused.
func TestService_bodyIsBounded(t *testing.T) {
	t.Parallel()

	handler := mock.New(mock.Config{}).Handler()

	for _, path := range paths {
		over := serve(handler, path, strings.NewReader(form(32<<20+1)))
		require.Equal(t, http.StatusRequestEntityTooLarge, over.Code, "%s: %s", path, over.Body)
		require.Contains(t, over.Body.String(), `"request_too_large"`)
	}
}

// The mock service requires no key, so the bodies of all clients together are bounded.
func TestService_bodiesOfAllRequestsAreBounded(t *testing.T) {
	t.Parallel()

	const one = 1 << 20

	handler := mock.New(mock.Config{Bodies: 4 * one}).Handler()

	var (
		started []*io.PipeWriter
		ended   sync.WaitGroup
	)

	for range 4 {
		body, in := io.Pipe()
		started = append(started, in)

		ended.Go(func() { serve(handler, paths[0], body) })

		for _, part := range []int{one - 1, 1} { // the second is read once the first is counted
			_, err := in.Write(make([]byte, part))
			require.NoError(t, err)
		}
	}

	for _, path := range paths {
		refused := serve(handler, path, strings.NewReader(form(one)))
		require.Equal(t, http.StatusTooManyRequests, refused.Code, "%s: %s", path, refused.Body)
		require.Contains(t, refused.Body.String(), `"mock_busy"`)
		require.Equal(t, "1", refused.Header().Get("Retry-After"))
	}

	for _, in := range started {
		require.NoError(t, in.Close())
	}

	ended.Wait()

	for _, path := range paths {
		taken := serve(handler, path, strings.NewReader(form(one)))
		require.Equal(t, http.StatusBadRequest, taken.Code, "%s: %s", path, taken.Body)
	}
}

func TestService_bodyThatStops(t *testing.T) {
	t.Parallel()

	s := httptest.NewServer(mock.New(mock.Config{BodyStall: 50 * time.Millisecond}).Handler())
	t.Cleanup(s.Close)

	for _, path := range paths {
		answer, err := http.ReadResponse(bufio.NewReader(begin(t, s, path, 100)), nil)
		require.NoError(t, err)

		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusRequestTimeout, answer.StatusCode, "%s: %s", path, body)
		require.Contains(t, string(body), "request_timeout")
	}
}

// A body that nothing reads is given up as well.
func TestService_bodyThatStops_unread(t *testing.T) {
	t.Parallel()

	s := httptest.NewServer(mock.New(mock.Config{BodyStall: 50 * time.Millisecond}).Handler())
	t.Cleanup(s.Close)

	answer, err := http.ReadResponse(bufio.NewReader(begin(t, s, "/nowhere", 100)), nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
}

// formHead starts a form, whose file lasts as long as its body.
const formHead = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"

// begin sends the head of a request and the start of its body of length bytes in one write,
// because the service can close the connection at any moment.
func begin(t *testing.T, s *httptest.Server, path string, length int) net.Conn {
	t.Helper()

	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"+
		"Content-Length: %d\r\n\r\n%s", path, length, formHead)
	require.NoError(t, err)

	return conn
}

// form returns an unterminated form of length bytes.
func form(length int) string { return formHead + strings.Repeat(" ", length-len(formHead)) }
