package sio_test

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// misuses are exchanges that need more than one packet or request.
var misuses = map[string]func(t *testing.T, addr string){
	"pongs behind the handshake":     pongsBehindHandshake,
	"frames behind the request":      framesBehindRequest,
	"upgrade: no probe":              upgradeWith("5"),
	"upgrade: event instead":         upgradeWith(`42["echo",{}]`),
	"upgrade: probes only":           upgradeWith("2probe", "2probe", "2probe", "2probe"),
	"upgrade: upgrade twice":         upgradeWith("2probe", "5", "5", "5"),
	"upgrade: wrong probe":           upgradeWith("2" + strings.Repeat("p", 70_000)),
	"upgrade: binary":                upgradeWith("\xff"),
	"upgrade: pong":                  upgradeWith("2probe", "3"),
	"upgrade: silence":               upgradeWith(),
	"upgrade: closed while probing":  upgradeClosedWhileProbing,
	"upgrade: two at once":           upgradeTwice,
	"upgrade: of a WebSocket":        upgradeOfWebSocket,
	"poll: two at once":              twoPolls,
	"poll: two posts at once":        twoPosts,
	"poll: octets":                   postOctets,
	"poll: chunked, 20 MB":           postChunked,
	"poll: 70 KB before joining":     postBeforeJoining,
	"poll: 17 MB after joining":      postTooLarge,
	"poll: a million separators":     postSeparators,
	"poll: given up":                 pollGivenUp,
	"poll: PUT":                      putRequest,
	"websocket: 11 MB":               messageOver10MB,
	"websocket: 17 MB":               messageOver16MB,
	"websocket: 1 MB before joining": messageBeforeJoining,
	"websocket: unmasked frame":      rawFrames(false, 0x81, 2, '4', '0'),
	"websocket: reserved bits":       rawFrames(true, 0xF1, 2, '4', '0'),
	"websocket: unknown opcode":      rawFrames(true, 0x83, 2, '4', '0'),
	"websocket: huge length":         rawFrames(true, 0x81, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	"websocket: negative length":     rawFrames(true, 0x81, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	"websocket: fragmented control":  rawFrames(true, 0x09, 2, 'a', 'b'),
	"websocket: stray continuation":  rawFrames(true, 0x80, 2, '4', '0'),
	"websocket: ping flood":          pingFlood,
	"websocket: half a frame":        rawFrames(true, 0x81, 126, 0xff),
	"event flood":                    eventFlood,
	"answers not read":               answersNotRead,
}

func TestMisuse(t *testing.T) {
	server := startChild(t)

	watcher := startWitness(t, server.addr)
	for name, attack := range misuses {
		t.Run(name, func(t *testing.T) {
			attack(t, server.addr)
			survived(t, server)
			watcher.goesOn(t)
		})
	}

	require.Equal(t, "panics 0", server.finish(t), server.log())
}

func mustJoin(t *testing.T, addr, transport string) rawClient {
	t.Helper()

	c, err := join(addr, transport)
	require.NoError(t, err)
	t.Cleanup(c.close)

	return c
}

// clientFrame is one short masked frame (mask zero).
func clientFrame(payload string) []byte {
	return append([]byte{0x81, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
}

// pongsBehindHandshake sends pongs before the server has set the session up,
// which kills the library without our guards.
func pongsBehindHandshake(t *testing.T, addr string) {
	request := "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n" + wsHeaders + "\r\n"

	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			defer conn.Close()

			frames := strings.Repeat(string(clientFrame("3")), 400)
			if i%2 == 0 {
				_, _ = conn.Write([]byte(request + frames))
			} else {
				_, _ = conn.Write([]byte(request))
				_, _ = conn.Write([]byte(frames))
			}

			_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, _ = io.Copy(io.Discard, conn)
		})
	}

	all.Wait()
}

// framesBehindRequest joins without waiting for any answer.
func framesBehindRequest(t *testing.T, addr string) {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)

	defer conn.Close()

	_, err = conn.Write(append([]byte("GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n"+wsHeaders+"\r\n"),
		clientFrame(`40{"token":"good"}`)...))
	require.NoError(t, err)

	_ = conn.SetReadDeadline(time.Now().Add(patience))

	var got strings.Builder

	buffer := make([]byte, 4096)
	for !strings.Contains(got.String(), `40{"sid":`) {
		n, err := conn.Read(buffer)
		require.NoError(t, err, "the early packet was lost: %q", got.String())
		got.Write(buffer[:n])
	}
}

func upgradeWith(packets ...string) func(t *testing.T, addr string) {
	return func(t *testing.T, addr string) {
		poll := mustJoin(t, addr, "polling").(*pollClient)
		ws, err := dialWS(addr, poll.sid)
		require.NoError(t, err)

		defer ws.close()

		for _, packet := range packets {
			kind := websocket.TextMessage
			if packet == "\xff" {
				kind = websocket.BinaryMessage
			}

			if ws.conn.WriteMessage(kind, []byte(packet)) != nil {
				break
			}
		}

		_, _ = ws.receive(20 * time.Millisecond)
	}
}

func upgradeClosedWhileProbing(t *testing.T, addr string) {
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			poll, err := dialPoll(addr)
			if err != nil {
				return
			}
			defer poll.close()

			ws, err := dialWS(addr, poll.sid)
			if err != nil {
				return
			}
			defer ws.close()

			for _, packet := range []string{"2probe", "5", "2probe", "2probe"} {
				_ = ws.send(packet)
			}

			_ = poll.send("1")
			_ = ws.send("2probe")
		})
	}

	all.Wait()
}

func upgradeTwice(t *testing.T, addr string) {
	poll := mustJoin(t, addr, "polling").(*pollClient)
	first, err := dialWS(addr, poll.sid)
	require.NoError(t, err)

	defer first.close()

	second, err := dialWS(addr, poll.sid)
	if err == nil {
		second.close()
	}

	require.Error(t, err, "a second upgrade at the same time")
	require.NoError(t, first.send("2probe"))
	got, err := first.receive(patience)
	require.NoError(t, err)
	require.Equal(t, "3probe", got)
	require.NoError(t, first.send("5"))
	require.NoError(t, first.send(`421["echo",{}]`))
	_, err = await(first, "431[", patience)
	require.NoError(t, err)
	require.Error(t, poll.send("3"), "polling after the upgrade")
}

func upgradeOfWebSocket(t *testing.T, addr string) {
	c, err := dialWS(addr, "")
	require.NoError(t, err)

	defer c.close()

	open, err := c.receive(patience)
	require.NoError(t, err)

	sid := strings.Split(strings.SplitN(open, `"sid":"`, 2)[1], `"`)[0]
	_, err = dialWS(addr, sid)
	require.Error(t, err)
}

func twoPolls(t *testing.T, addr string) {
	poll := mustJoin(t, addr, "polling").(*pollClient)
	first := make(chan error, 1)

	other := *poll
	go func() {
		_, err := other.receive(patience)
		first <- err
	}()

	_, err := poll.receive(patience)
	require.True(t, err != nil || <-first != nil, "two polls at once were both served")
}

func twoPosts(t *testing.T, addr string) {
	poll := mustJoin(t, addr, "polling").(*pollClient)

	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { _ = poll.send(strings.Repeat(`42["echo",{}]`+"\x1e", 2000) + "3") })
	}

	all.Wait()
}

func postOctets(t *testing.T, addr string) {
	poll := mustJoin(t, addr, "polling").(*pollClient)
	poll.http.Timeout = patience
	status, _, err := poll.post("application/octet-stream", strings.NewReader("\x00\x01\xff"))
	require.NoError(t, err, "not answered")
	require.Equal(t, http.StatusBadRequest, status)
}

func postChunked(t *testing.T, addr string) {
	poll := mustJoin(t, addr, "polling").(*pollClient)
	// No length, so that the client sends chunks.
	status, _, err := poll.post("text/plain", io.LimitReader(rand.Reader, 20<<20))
	require.True(t, err != nil || status == http.StatusRequestEntityTooLarge, "status %d", status)
}

func postBeforeJoining(t *testing.T, addr string) {
	poll, err := dialPoll(addr)
	require.NoError(t, err)

	defer poll.close()

	status, _, err := poll.post("text/plain", strings.NewReader(strings.Repeat("x", 70<<10)))
	require.True(t, err != nil || status == http.StatusRequestEntityTooLarge, "status %d", status)
}

func postTooLarge(t *testing.T, addr string) {
	poll := mustJoin(t, addr, "polling").(*pollClient)
	status, _, err := poll.post("text/plain", strings.NewReader(`42["echo",{"a":"`+strings.Repeat("x", 17<<20)+`"}]`))
	require.True(t, err != nil || status == http.StatusRequestEntityTooLarge, "status %d", status)
}

func postSeparators(t *testing.T, addr string) {
	poll := mustJoin(t, addr, "polling").(*pollClient)
	poll.http.Timeout = patience
	_ = poll.send(strings.Repeat("6\x1e", 1_000_000) + "6")
}

func pollGivenUp(t *testing.T, addr string) {
	poll := mustJoin(t, addr, "polling").(*pollClient)
	_, err := poll.receive(50 * time.Millisecond)
	require.Error(t, err)
	require.Eventually(t, func() bool { return poll.send("3") != nil }, time.Minute, 10*time.Millisecond,
		"the session outlived its client")
}

func putRequest(t *testing.T, addr string) {
	poll := mustJoin(t, addr, "polling").(*pollClient)
	r, err := http.NewRequest(http.MethodPut, poll.url(), strings.NewReader("3"))
	require.NoError(t, err)
	response, err := poll.http.Do(r)
	require.NoError(t, err)

	_ = response.Body.Close()
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
}

func messageOver10MB(t *testing.T, addr string) {
	for _, transport := range bothTransports {
		c := mustJoin(t, addr, transport)
		require.NoError(t, c.send(`429["echo",{"a":"`+strings.Repeat("x", 11<<20)+`"}]`))
		got, err := await(c, "439[", patience)
		require.NoError(t, err)
		require.Contains(t, got, "payload_too_large")
		require.NoError(t, c.send(`4210["echo",{}]`))
		_, err = await(c, "4310[", patience)
		require.NoError(t, err, "the connection did not survive")
	}
}

func messageOver16MB(t *testing.T, addr string) {
	c := mustJoin(t, addr, "websocket")
	_ = c.send(`429["echo",{"a":"` + strings.Repeat("x", 17<<20) + `"}]`)
	_, err := await(c, "439[", patience)
	require.Error(t, err, "more than the transport accepts")
}

func messageBeforeJoining(t *testing.T, addr string) {
	c, err := dial(addr, "websocket")
	require.NoError(t, err)

	defer c.close()

	_ = c.send(`40{"token":"` + strings.Repeat("x", 1<<20) + `"}`)
	_, err = await(c, "4", patience)
	require.Error(t, err)
}

// rawFrames writes a frame byte by byte after the handshake.
func rawFrames(masked bool, bytes ...byte) func(t *testing.T, addr string) {
	return func(t *testing.T, addr string) {
		c, err := dialWS(addr, "")
		require.NoError(t, err)

		defer c.close()

		if masked {
			bytes = append([]byte{}, bytes...)
			bytes[1] |= 0x80
		}

		_, err = c.conn.NetConn().Write(binary.BigEndian.AppendUint64(bytes, 0))
		require.NoError(t, err)

		_, _ = c.receive(30 * time.Millisecond)
		_, _ = c.receive(30 * time.Millisecond)
	}
}

func pingFlood(t *testing.T, addr string) {
	c := mustJoin(t, addr, "websocket").(*wsClient)
	for range 5000 {
		if c.conn.WriteControl(websocket.PingMessage, []byte("x"), time.Now().Add(patience)) != nil {
			return
		}
	}
}

// eventFlood sends far more than the rate allows, for half a second.
func eventFlood(t *testing.T, addr string) {
	c := mustJoin(t, addr, "websocket").(*wsClient)

	deadline := time.Now().Add(500 * time.Millisecond)
	for n := 0; time.Now().Before(deadline); n++ {
		_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
		if c.send(fmt.Sprintf(`42["log",{"n":%d}]`, n)) != nil {
			return
		}
	}
}

// answersNotRead asks for large answers and reads none.
func answersNotRead(t *testing.T, addr string) {
	c := mustJoin(t, addr, "websocket").(*wsClient)
	question := `421["echo",{"a":"` + strings.Repeat("x", 1<<20) + `"}]`

	for deadline := time.Now().Add(3 * patience); time.Now().Before(deadline); {
		_ = c.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if c.send(question) != nil {
			return // cut off, as it should be
		}
	}

	t.Error("a client that reads no answers was kept")
}
