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

	"github.com/stretchr/testify/require"
)

// Of a request without valid credentials no large body is kept in memory, whatever it
// is addressed to.
func TestLargeBodies_withoutCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large := `{"title":"` + strings.Repeat("x", 100<<10) + `"}`

	for _, path := range []string{"/api/sessions", "/api/unknown-path"} {
		for _, key := range []string{"", "el_wrong"} {
			w.do("POST", path, key, large).code(401, "unauthorized")
		}
	}

	w.do("POST", "/api/unknown-path", w.ann, large).code(404, "route_not_found")
	w.do("POST", "/api/unknown-path", "", `{"small": true}`).code(404, "route_not_found")
}

// A client without credentials that announces much and sends a little more than it may is answered
// without the rest.
func TestLargeBody_withoutCredentials_thatStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at, err := url.Parse(w.url)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", at.Host)
	require.NoError(t, err)

	defer conn.Close()

	_, err = fmt.Fprintf(conn, "POST /api/sessions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: "+
		"16000000\r\n\r\n", at.Host)
	require.NoError(t, err)
	_, err = io.WriteString(conn, strings.Repeat("x", 70<<10))
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)

	defer answer.Body.Close()

	require.Equal(t, 401, answer.StatusCode)
}
