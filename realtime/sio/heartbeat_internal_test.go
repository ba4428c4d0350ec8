package sio

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zishang520/engine.io-go-parser/packet"
)

// quiet is a handler that does nothing.
type quiet struct{}

func (quiet) Connected(*Conn)                                 {}
func (quiet) Event(*Conn, string, json.RawMessage, func(any)) {}
func (quiet) Malformed(*Conn, string, Fault, func(any))       {}
func (quiet) Disconnected(*Conn, string)                      {}

// pollOf sends one request of a polling client to a server, without a network, so that
// it works on the clock of a synctest bubble.
func pollOf(s *Server, method, sid, body string) string {
	target := "/socket.io/?EIO=4&transport=polling"
	if sid != "" {
		target += "&sid=" + sid
	}

	ctx, done := context.WithCancel(context.Background())
	defer done()

	answer := httptest.NewRecorder()
	s.serveHTTP(answer, httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body)))

	return answer.Body.String()
}

// A client whose pong is there before the library waits for it is not given up; one
// that answers no more is.
func TestHeartbeat_pongBeforeTheLibraryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := New(Options{
			Handler:      quiet{},
			Authenticate: func(context.Context, string, *http.Request) (any, error) { return "user", nil },
		})

		var open struct {
			Sid         string
			PingTimeout int64
		}
		require.NoError(t, json.Unmarshal([]byte(pollOf(server, http.MethodGet, "", "")[1:]), &open))
		require.EqualValues(t, 20_000, open.PingTimeout)
		session, ok := server.session(open.Sid)
		require.True(t, ok)

		var deaf atomic.Bool

		_ = session.engine.On("packetCreate", func(args ...any) { // about to be sent
			if args[0].(*packet.Packet).Type == packet.PING && !deaf.Load() {
				session.engine.Transport().OnPacket(&packet.Packet{Type: packet.PONG})
			}
		})

		require.Equal(t, "ok", pollOf(server, http.MethodPost, open.Sid, `40{"token":"good"}`))

		ended := make(chan time.Time, 1)
		began := time.Now()

		go func() {
			for !strings.HasSuffix(pollOf(server, http.MethodGet, open.Sid, ""), "1") { // a CLOSE packet
			}

			ended <- time.Now()
		}()

		time.Sleep(10 * time.Minute) //nolint:forbidigo // in a synctest bubble
		require.Empty(t, ended, "a client that answers was given up")
		deaf.Store(true)

		stopped := time.Now()
		gone := <-ended
		require.LessOrEqual(t, gone.Sub(stopped), defaultPingInterval+defaultPingTimeout)
		require.Greater(t, gone.Sub(began), 10*time.Minute)
		synctest.Wait()
		require.NoError(t, server.Close(context.Background()))
	})
}
