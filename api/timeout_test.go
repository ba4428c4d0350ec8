package api_test

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/api"
)

// A browser opens connections ahead. One that it never uses ends with 408, which it
// does not take for the answer to a request that it sends at that moment.
func TestServer_endsConnectionsOnWhichNoRequestArrives(t *testing.T) {
	app := api.New(api.Config{})
	app.Server().ReadTimeout = 100 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	served := make(chan error, 1)
	go func() { served <- app.Listener(listener) }()

	t.Cleanup(func() {
		require.NoError(t, app.Shutdown())
		require.NoError(t, <-served)
	})

	for name, sent := range map[string]string{"nothing": "", "a part of a request": "GET /api/version HTTP/1.1\r\nHost: "} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", listener.Addr().String())
			require.NoError(t, err)

			defer conn.Close()

			_, err = conn.Write([]byte(sent))
			require.NoError(t, err)

			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)

			defer answer.Body.Close()

			var problem struct{ Code string }

			require.NoError(t, json.NewDecoder(answer.Body).Decode(&problem))
			require.Equal(t, http.StatusRequestTimeout, answer.StatusCode)
			require.Equal(t, "request_timeout", problem.Code)
			require.True(t, answer.Close)
		})
	}
}
