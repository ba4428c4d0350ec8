package api_test

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/api"
)

// A browser opens connections ahead. One that it never uses ends with 408, which it
// does not take for the answer to a request that it sends at that moment.
func TestServer_endsConnectionsOnWhichNoRequestArrives(t *testing.T) {
	app := api.New(api.Config{}, api.Areas{})
	app.Server().ReadTimeout = time.Second
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
			ask := func() (*http.Response, error) {
				conn, err := net.Dial("tcp", listener.Addr().String())
				require.NoError(t, err)
				t.Cleanup(func() { _ = conn.Close() })

				if _, err := conn.Write([]byte(sent)); err != nil {
					return nil, err
				}

				return http.ReadResponse(bufio.NewReader(conn), nil)
			}

			answer, err := ask()
			for tries := 1; err != nil && tries < 20; tries++ {
				// The time was over before a busy machine had read what was sent.
				require.ErrorIs(t, err, syscall.ECONNRESET)

				answer, err = ask()
			}

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
