package sio_test

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"everloop/realtime/sio"
)

// stalledClient joins and then reads nothing, so that the server's side of the
// connection fills up.
func stalledClient(t *testing.T, addr, transport string) rawClient {
	t.Helper()

	if transport == "polling" {
		return mustJoin(t, addr, transport)
	}

	dialer := websocket.Dialer{NetDial: func(network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		}

		return conn, err
	}}
	conn, response, err := dialer.Dial(socketURL("ws", addr, "transport=websocket"), nil)
	require.NoError(t, err)

	_ = response.Body.Close()
	c := &wsClient{conn}
	t.Cleanup(c.close)
	require.NoError(t, c.send(`40{"token":"good"}`))
	_, err = await(c, "40{", patience)
	require.NoError(t, err)

	return c
}

// A client that stops reading overflows; no other client notices; once it reads
// again, what was queued arrives in order and the handler hears of it.
func TestSlowClientOverflowsAlone(t *testing.T) {
	for _, transport := range bothTransports {
		t.Run(transport, func(t *testing.T) {
			handler := newRecorder()
			addr, server := start(t, sio.Options{Handler: handler, BufferLimit: 1 << 20})
			slow := stalledClient(t, addr, transport)
			conn := handler.conn(t)
			drained := make(chan struct{}, 1)

			conn.OnDrained(func() { drained <- struct{}{} })

			watcher := startWitness(t, addr)

			text := strings.Repeat("x", 10_000)

			queued := 0
			for {
				data, err := json.Marshal(map[string]any{"n": queued, "text": text})
				require.NoError(t, err)

				began := time.Now()
				ok := conn.Emit("tick", data)

				require.Less(t, time.Since(began), patience, "Emit blocked")

				if !ok {
					break
				}

				queued++
				require.Less(t, queued, 10_000, "no bound")
			}

			require.LessOrEqual(t, conn.Buffered(), 1<<20)
			require.Positive(t, server.Stats().Overflows)
			watcher.goesOn(t)

			for n := range queued {
				got, err := await(slow, `42["tick"`, patience)
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(got, fmt.Sprintf(`42["tick",{"n":%d,`, n)), "out of order: %.40s", got)
			}

			select {
			case <-drained:
			case <-time.After(patience):
				t.Fatal("the handler was not notified")
			}

			require.True(t, conn.Emit("tick", tick(0)))
		})
	}
}

// A single message always fits, however large, when nothing else waits.
func TestTransport_messageLargerThanBuffer(t *testing.T) {
	addr, _ := start(t, sio.Options{BufferLimit: 1000})
	c := mustJoin(t, addr, "websocket")
	require.NoError(t, c.send(`421["big",{"bytes":100000}]`))
	_, err := await(c, "431[", patience)
	require.NoError(t, err)
}

// blocker handles one event at a time, on request.
type blocker struct {
	recorder
	step  chan struct{}
	mu    sync.Mutex
	names []string
}

func (h *blocker) Event(_ *sio.Conn, name string, _ json.RawMessage, ack func(any)) {
	<-h.step
	h.mu.Lock()
	defer h.mu.Unlock()

	h.names = append(h.names, name)

	if ack != nil {
		ack(map[string]any{"ok": true})
	}
}

func (h *blocker) handled() []string {
	h.mu.Lock()
	defer h.mu.Unlock()

	return append([]string(nil), h.names...)
}

// A client that sends faster than its events are handled is held back: the
// server takes no more than a bounded number. What it took is handled in
// order, also when the client is gone by then.
func TestTransport_floodInOrder(t *testing.T) {
	names := flooded(t, 5*time.Second)
	for pause := 20 * time.Second; len(names) < 256 && pause < 3*time.Minute; pause *= 3 {
		names = flooded(t, pause) // the server was too slow to get to its bound before it gave the client up
	}

	require.GreaterOrEqual(t, len(names), 256)
}

// flooded gives the names of the events that were handled of a flood by a client
// that is given up after a pause: its connection is not read, so that no process
// notices that it is gone.
func flooded(t *testing.T, pause time.Duration) []string {
	t.Helper()

	handler := &blocker{recorder: *newRecorder(), step: make(chan struct{})}
	addr, server := start(t, sio.Options{
		Handler: handler, EventRate: 1_000_000, PingInterval: pause, PingTimeout: pause / 5,
	})

	joined, err := join(addr, "websocket")
	if err != nil {
		return nil // given up before it came to that
	}

	c := joined.(*wsClient)
	filler := `"` + strings.Repeat("x", 20_000) + `"`

	sent := 0
	for ; ; sent++ {
		_ = c.conn.SetWriteDeadline(time.Now().Add(pause * 4 / 5))
		if c.send(fmt.Sprintf(`42["e%d",{"a":%s}]`, sent, filler)) != nil {
			break // the server reads no more
		}

		require.Less(t, sent, 20_000, "not held back")
	}

	c.close()
	require.Eventually(t, func() bool { return server.Stats().Open == 0 }, patience+2*pause, 5*time.Millisecond)
	close(handler.step)
	require.Eventually(t, func() bool { return server.Stats().Joined == 0 }, patience, 5*time.Millisecond)

	names := handler.handled()
	require.LessOrEqual(t, len(names), 258)

	for n, name := range names {
		require.Equal(t, fmt.Sprintf("e%d", n), name)
	}

	return names
}

func TestPaceLimitsAConnection(t *testing.T) {
	addr, server := start(t, sio.Options{EventRate: 100})
	c := mustJoin(t, addr, "websocket")
	began := time.Now()

	for n := range 599 {
		require.NoError(t, c.send(fmt.Sprintf(`42["log",{"n":%d}]`, n)))
	}

	require.NoError(t, c.send(`421["logged",{}]`))
	_, err := await(c, "431[", patience)
	require.NoError(t, err)
	// 600 and the CONNECT, of which 500 pass at once.
	require.GreaterOrEqual(t, time.Since(began), 900*time.Millisecond)
	require.EqualValues(t, 600, server.Stats().EventsIn)
}

func TestClose_clientDoesNotRead(t *testing.T) {
	handler := newRecorder()
	addr, server := start(t, sio.Options{Handler: handler, BufferLimit: 32 << 20})
	stalledClient(t, addr, "websocket")

	conn := handler.conn(t)
	for range 20 {
		conn.Emit("blob", blob(1<<20))
	}

	conn.Close()
	conn.Close()
	require.Eventually(t, func() bool { return server.Stats().Joined == 0 }, patience, 5*time.Millisecond)
	require.False(t, conn.Emit("tick", tick(1)))
	require.Error(t, conn.Context().Err())
	require.Equal(t, "server namespace disconnect", handler.disconnected[conn.ID()])
}
