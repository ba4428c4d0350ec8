package sio_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/realtime/sio"
)

var bothTransports = []string{"websocket", "polling"}

const patience = time.Minute

func TestEchoOverBothTransports(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	for _, transport := range bothTransports {
		t.Run(transport, func(t *testing.T) {
			c := mustJoin(t, addr, transport)
			require.NoError(t, c.send(`427["echo",{"a":[1,{"b":"]}\""}]}]`))
			got, err := await(c, "43", patience)
			require.NoError(t, err)
			require.Equal(t, `437[{"ok":true,"payload":{"a":[1,{"b":"]}\""}]}}]`, got)
		})
	}
}

func TestHandshake_limits(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	c, err := dialWS(addr, "")
	require.NoError(t, err)

	defer c.close()

	first, err := c.receive(patience)
	require.NoError(t, err)

	var open struct {
		PingInterval, PingTimeout, MaxPayload int64
		Upgrades                              []string
	}
	require.NoError(t, json.Unmarshal([]byte(first[1:]), &open))
	require.EqualValues(t, 25000, open.PingInterval)
	require.EqualValues(t, 20000, open.PingTimeout)
	require.EqualValues(t, 16<<20, open.MaxPayload)
}

func TestDeadClientIsDropped(t *testing.T) {
	t.Parallel() // it waits for the time-out, which is long enough for a slow machine to join in

	for _, transport := range bothTransports {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()

			handler := newRecorder()
			addr, server := start(t, sio.Options{
				Handler: handler, PingInterval: 100 * time.Millisecond, PingTimeout: 20 * time.Second,
			})
			c := mustJoin(t, addr, transport)

			id := handler.conn(t).ID()
			if _, err := c.receive(patience); err != nil { // the ping, which stays unanswered
				require.NoError(t, err)
			}

			require.Eventually(t, func() bool { return server.Stats().Joined == 0 }, patience, 5*time.Millisecond)
			require.Equal(t, "ping timeout", handler.disconnected[id])
		})
	}
}

func TestConnect_clientNeverJoins(t *testing.T) {
	addr, server := start(t, sio.Options{ConnectTimeout: 2 * time.Second})
	for _, transport := range bothTransports {
		c, err := dial(addr, transport)
		require.NoError(t, err)

		defer c.close()

		for err == nil {
			var packet string

			packet, err = c.receive(patience)
			require.NotEqual(t, "2", packet, "it lived until it was pinged")
		}
	}

	require.Eventually(t, func() bool { return server.Stats().Open == 0 }, patience, 5*time.Millisecond)
}

func TestAnswersToTokens(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	for token, want := range map[string]string{
		"wrong": `44{"data":{"code":"unauthorized"},"message":"unauthorized"}`,
		"later": `44{"data":{"code":"dependency_down","retryable":true},"message":"dependency_down"}`,
		"panic": `44{"data":{"code":"internal_error","retryable":true},"message":"internal_error"}`,
	} {
		c, err := dial(addr, "websocket")
		require.NoError(t, err)

		defer c.close()

		require.NoError(t, c.send(`40{"token":"`+token+`"}`))
		got, err := await(c, "44", patience)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NoError(t, c.send(`421["echo",{}]`))
		_, err = await(c, "43", patience)
		require.Error(t, err, "an event of a refused client was handled")
	}
}

func TestConcurrentEmitsAllArrive(t *testing.T) {
	handler := newRecorder()

	addr, _ := start(t, sio.Options{Handler: handler})
	for _, transport := range bothTransports {
		c := mustJoin(t, addr, transport)
		conn := handler.conn(t)

		const writers, each = 8, 500
		for w := range writers {
			go func() {
				for n := range each {
					conn.Emit(fmt.Sprintf("w%d", w), tick(n))
				}
			}()
		}

		var next [writers]int
		for range writers * each {
			got, err := await(c, `42["w`, patience)
			require.NoError(t, err)

			w := int(got[5] - '0')
			require.Equal(t, fmt.Sprintf(`42["w%d",{"n":%d}]`, w, next[w]), got)
			next[w]++
		}

		conn.Close()
		require.Eventually(t, func() bool { return conn.Context().Err() != nil }, patience, time.Millisecond)
		require.Eventually(t, func() bool {
			handler.mu.Lock()
			defer handler.mu.Unlock()

			return len(handler.conns) == 0
		}, patience, time.Millisecond)
	}
}
