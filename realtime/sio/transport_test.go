package sio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"everloop/realtime/sio"
)

var bothTransports = []string{"websocket", "polling"}

const patience = 10 * time.Second

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

// Requests for REST and for sockets take turns on the same kept-alive connection.
func TestMixedKeepAlive(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	reader := bufio.NewReader(conn)
	ask := func(method, path, body string) (*http.Response, string) {
		_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
		require.NoError(t, err)
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response, string(text)
	}
	for range 3 {
		response, text := ask("GET", "/ping", "")
		require.Equal(t, "pong", text)
		require.False(t, response.Close)
		_, text = ask("POST", "/length", strings.Repeat("x", 100_000))
		require.Equal(t, "100000", text)
	}
	// The socket's request comes on the connection that served REST, and is the last on it.
	response, text := ask("GET", "/socket.io/?EIO=4&transport=polling", "")
	require.Equal(t, 200, response.StatusCode)
	require.Contains(t, text, `0{"`)
	require.True(t, response.Close)

	// A client that keeps connections alive where it may mixes both freely.
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	for i := range 20 {
		path, want := "/ping", "pong"
		if i%2 == 1 {
			path, want = "/socket.io/?EIO=4&transport=polling", `"sid"`
		}
		response, err := client.Get("http://" + addr + path)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Contains(t, string(text), want)
	}
}

// The app's own limit on bodies, hooks and streaming stay what they are.
func TestMountLeavesTheAppAlone(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		t.Run(fmt.Sprintf("streaming %v", streaming), func(t *testing.T) {
			addr, _, stop, err := serve(sio.Options{}, fiber.Config{BodyLimit: 128 << 10, StreamRequestBody: streaming})
			require.NoError(t, err)
			defer stop()
			response, err := http.Post("http://"+addr+"/length", "text/plain", strings.NewReader(strings.Repeat("x", 100<<10)))
			require.NoError(t, err)
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			require.Equal(t, "102400", string(text))
			if !streaming {
				response, err = http.Post("http://"+addr+"/length", "text/plain", strings.NewReader(strings.Repeat("x", 200<<10)))
				require.True(t, err != nil || response.StatusCode == http.StatusRequestEntityTooLarge)
			}

			c := mustJoin(t, addr, "polling").(*pollClient)
			require.NoError(t, c.send(`421["echo",{"a":"`+strings.Repeat("x", 9<<20)+`"}]`))
			got, err := await(c, "431[", patience)
			require.NoError(t, err)
			require.Greater(t, len(got), 9<<20)
			status, _, err := c.post("text/plain", io.LimitReader(strings.NewReader(strings.Repeat("x", 17<<20)), 17<<20))
			require.True(t, err != nil || status == http.StatusRequestEntityTooLarge, "status %d", status)
			idle, err := dialPoll(addr)
			require.NoError(t, err)
			status, _, err = idle.post("text/plain", strings.NewReader(strings.Repeat("x", 100<<10)))
			require.True(t, err != nil || status == http.StatusRequestEntityTooLarge, "status %d", status)
		})
	}
}

func TestMountKeepsAnEarlierHook(t *testing.T) {
	server := sio.New(sio.Options{Authenticate: authenticate, Handler: newRecorder()})
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Server().HeaderReceived = func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
		return fasthttp.RequestConfig{MaxRequestBodySize: 77}
	}
	server.Mount(app)
	t.Cleanup(func() { _ = server.Close(context.Background()) })
	var header fasthttp.RequestHeader
	header.SetRequestURI("/elsewhere")
	require.Equal(t, 77, app.Server().HeaderReceived(&header).MaxRequestBodySize)
	header.SetRequestURI("/socket.io/?EIO=4&sid=nobody")
	require.Equal(t, 64<<10, app.Server().HeaderReceived(&header).MaxRequestBodySize)
}

func TestAllowedOriginMayReadAnswers(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	for _, method := range []string{http.MethodGet, http.MethodOptions} {
		r, err := http.NewRequest(method, socketURL("http", addr, "transport=polling"), nil)
		require.NoError(t, err)
		r.Header.Set("Origin", deskOrigin)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		_ = response.Body.Close()
		require.Equal(t, deskOrigin, response.Header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "true", response.Header.Get("Access-Control-Allow-Credentials"))
	}
	response, err := http.Get(socketURL("http", addr, "transport=polling"))
	require.NoError(t, err)
	_ = response.Body.Close()
	require.Empty(t, response.Header.Get("Access-Control-Allow-Origin"))
}

func TestHandshakeTellsTheLimits(t *testing.T) {
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

// A client that stops reading overflows; nobody else notices; once it reads
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
				require.Less(t, time.Since(began), time.Second, "Emit blocked")
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
				t.Fatal("the handler was not told")
			}
			require.True(t, conn.Emit("tick", tick(0)))
		})
	}
}

// A single message always fits, however large, when nothing else waits.
func TestMessageLargerThanTheBuffer(t *testing.T) {
	addr, _ := start(t, sio.Options{BufferLimit: 1000})
	c := mustJoin(t, addr, "websocket")
	require.NoError(t, c.send(`421["big",{"bytes":100000}]`))
	_, err := await(c, "431[", patience)
	require.NoError(t, err)
}

func TestDeadClientIsDropped(t *testing.T) {
	for _, transport := range bothTransports {
		t.Run(transport, func(t *testing.T) {
			handler := newRecorder()
			addr, server := start(t, sio.Options{
				Handler: handler, PingInterval: 100 * time.Millisecond, PingTimeout: 150 * time.Millisecond,
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

func TestClientThatNeverJoinsIsDropped(t *testing.T) {
	addr, server := start(t, sio.Options{ConnectTimeout: 100 * time.Millisecond})
	for _, transport := range bothTransports {
		c, err := dial(addr, transport)
		require.NoError(t, err)
		defer c.close()
	}
	require.EqualValues(t, 2, server.Stats().Open)
	require.Eventually(t, func() bool { return server.Stats().Open == 0 }, patience, 5*time.Millisecond)
}

func TestAnswersToTokens(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	for token, want := range map[string]string{
		"wrong": `44{"data":{"code":"unauthorized"},"message":"unauthorized"}`,
		"later": `44{"data":{"code":"dependency_down","retryable":true},"message":"dependency_down"}`,
		"panic": `44{"data":{"code":"internal","retryable":true},"message":"internal"}`,
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

// blocker handles one event at a time, when it is told to.
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
func TestFloodIsHeldBackAndHandledInOrder(t *testing.T) {
	handler := &blocker{recorder: *newRecorder(), step: make(chan struct{})}
	addr, server := start(t, sio.Options{
		Handler: handler, EventRate: 1_000_000, PingInterval: 2 * time.Second, PingTimeout: time.Second,
	})
	c := mustJoin(t, addr, "websocket").(*wsClient)
	filler := `"` + strings.Repeat("x", 20_000) + `"`
	sent := 0
	for ; ; sent++ {
		_ = c.conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		if c.send(fmt.Sprintf(`42["e%d",{"a":%s}]`, sent, filler)) != nil {
			break // the server reads no more
		}
		require.Less(t, sent, 20_000, "not held back")
	}
	c.close()
	require.Eventually(t, func() bool { return server.Stats().Open == 0 }, patience, 5*time.Millisecond)
	close(handler.step)
	require.Eventually(t, func() bool { return server.Stats().Joined == 0 }, patience, 5*time.Millisecond)
	names := handler.handled()
	require.GreaterOrEqual(t, len(names), 256)
	require.LessOrEqual(t, len(names), 258)
	for n, name := range names {
		require.Equal(t, fmt.Sprintf("e%d", n), name)
	}
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

func TestCloseOfAClientThatDoesNotRead(t *testing.T) {
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
		}, 20*time.Second, 10*time.Millisecond)
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
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+5 }, 30*time.Second, 50*time.Millisecond,
		"goroutines left behind")
	require.Less(t, heap(), memory+(4<<20), "memory left behind")
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
