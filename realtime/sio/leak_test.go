package sio_test

import (
	"log/slog"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/realtime/sio"
)

// Neither goroutines nor sessions stay behind, however a client leaves.
func TestNothingIsLeftBehind(t *testing.T) {
	addr, server := start(t, sio.Options{Log: slog.New(slog.DiscardHandler)})
	round := func(n int) {
		for i := range n {
			leave(t, addr, i)
		}

		require.Eventually(t, func() bool {
			s := server.Stats()
			return s.Open == 0 && s.Joined == 0
		}, time.Minute, 10*time.Millisecond)
	}
	round(10)
	http.DefaultClient.CloseIdleConnections()

	var before int

	require.Eventually(t, func() bool { // the first round's last goroutines end
		last := before
		before = runtime.NumGoroutine()

		return before == last
	}, patience, 200*time.Millisecond)

	memory := heap()

	round(300)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+5 }, time.Minute, 50*time.Millisecond,
		"goroutines left behind")
	require.Eventually(t, func() bool { return heap() < memory+(4<<20) }, time.Minute, 50*time.Millisecond, "memory left behind")
}

func heap() uint64 {
	runtime.GC()

	var m runtime.MemStats
	runtime.ReadMemStats(&m)

	return m.HeapAlloc
}

// leave connects and goes in one of several ways.
func leave(t *testing.T, addr string, i int) {
	t.Helper()

	c, err := join(addr, bothTransports[i%2])
	require.NoError(t, err)

	defer c.close()

	require.NoError(t, c.send(`421["echo",{}]`))
	_, err = await(c, "431", patience)
	require.NoError(t, err)

	switch poll, polling := c.(*pollClient); {
	case polling && i%4 == 1: // upgrade, then vanish
		ws, err := dialWS(addr, poll.sid)
		require.NoError(t, err)
		require.NoError(t, ws.send("2probe"))
		_, err = ws.receive(patience)
		require.NoError(t, err)
		require.NoError(t, ws.send("5"))
		require.NoError(t, ws.send(`422["echo",{}]`))
		_, err = await(ws, "432", patience)
		require.NoError(t, err)
		ws.close()
	case polling:
		require.NoError(t, c.send("1"))
	case i%4 == 0:
		require.NoError(t, c.send("41"))
		_, _ = c.receive(patience)
	}
}
