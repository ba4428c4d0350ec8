package edge_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/edge"
)

func open(bodies *edge.Bodies, text string) *edge.Body {
	return bodies.Open(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text)))
}

// All bodies together are bounded, by what has come of them, until they are released.
func TestBodies_Open(t *testing.T) {
	t.Parallel()

	bodies := edge.NewBodies(10, 15, time.Minute)

	first := open(bodies, "0123456789")
	text, err := io.ReadAll(first)
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(text))

	announced := open(bodies, "012345")
	second := open(bodies, "012345")
	_, err = io.ReadAll(second)
	require.ErrorIs(t, err, edge.ErrBusy)

	second.Release()
	first.Release()
	first.Release()

	text, err = io.ReadAll(announced)
	require.NoError(t, err)
	require.Equal(t, "012345", string(text))
	announced.Release()

	_, err = io.ReadAll(open(bodies, "0123456789a"))
	_, large := errors.AsType[*http.MaxBytesError](err)
	require.True(t, large, "%v", err)
}

// A handler that reads nothing of a body answers while the body does not come.
func TestAwait(t *testing.T) {
	t.Parallel()

	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edge.Await(w, r, 20*time.Millisecond)

		if r.Method == http.MethodGet { // a request without a body has no deadline
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}

		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(s.Close)

	for _, head := range []string{
		"POST / HTTP/1.1\r\nContent-Length: 100", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked", "GET / HTTP/1.1",
	} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))

		_, err = io.WriteString(conn, head+"\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)

		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, head)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
	}
}
