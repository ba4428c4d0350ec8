package mock_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/mock"
)

// The mock service asks for no key: what clients send, and do not go on sending, is bounded for all
// of them together, in bytes and in time.
func TestService_bodiesOfAllRequestsAreBounded(t *testing.T) {
	t.Parallel()

	const one = 1 << 20

	s := httptest.NewServer(mock.New(mock.Config{Bodies: 4 * one}).Handler())
	t.Cleanup(s.Close)

	for range 4 { // all but their last byte
		_, err := io.WriteString(begin(t, s, "/v1/chat/completions", one), strings.Repeat(" ", one-1))
		require.NoError(t, err)
	}

	for _, path := range []string{"/v1/chat/completions", "/v1/audio/transcriptions"} {
		require.Eventually(t, func() bool {
			status, body := send(t, s, path, one)
			return status == http.StatusTooManyRequests && strings.Contains(body, "mock_busy")
		}, 2*time.Minute, 10*time.Millisecond, path)
	}
}

func TestService_bodyThatStops(t *testing.T) {
	t.Parallel()

	s := httptest.NewServer(mock.New(mock.Config{BodyStall: 50 * time.Millisecond}).Handler())
	t.Cleanup(s.Close)

	for _, path := range []string{"/v1/chat/completions", "/v1/audio/transcriptions"} {
		answer, err := http.ReadResponse(bufio.NewReader(begin(t, s, path, 100)), nil)
		require.NoError(t, err)

		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusRequestTimeout, answer.StatusCode, "%s: %s", path, body)
		require.Contains(t, string(body), "request_timeout")
	}
}

// formHead begins a form, whose file goes on as long as its body.
const formHead = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"

// begin sends the head of a request and the beginning of its body of length bytes.
func begin(t *testing.T, s *httptest.Server, path string, length int) net.Conn {
	t.Helper()

	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"+
		"Content-Length: %d\r\n\r\n", path, length)
	require.NoError(t, err)

	if strings.Contains(path, "audio") {
		_, err = io.WriteString(conn, formHead)
		require.NoError(t, err)
	}

	return conn
}

func send(t *testing.T, s *httptest.Server, path string, length int) (int, string) {
	t.Helper()

	text := formHead + strings.Repeat(" ", length-len(formHead))
	answer, err := s.Client().Post(s.URL+path, "multipart/form-data; boundary=x", strings.NewReader(text))
	require.NoError(t, err)

	defer answer.Body.Close()

	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)

	return answer.StatusCode, string(body)
}
