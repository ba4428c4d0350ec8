package sio_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"everloop/realtime/sio"
)

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
	header.SetRequestURI("/socket.io/?EIO=4&sid=unknown")
	require.Equal(t, 64<<10, app.Server().HeaderReceived(&header).MaxRequestBodySize)
}

// The answers of this package carry the id under which the app logs their request.
func TestMount_answersCarryTheRequestID(t *testing.T) {
	server := sio.New(sio.Options{Authenticate: authenticate, Handler: newRecorder(), Log: slog.New(slog.DiscardHandler)})
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderXRequestID, "id of "+c.Query("n"))
		return c.Next()
	})
	server.Mount(app)

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	go func() { _ = app.Listener(ln) }()

	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()

		_ = server.Close(ctx)
		_ = app.ShutdownWithContext(ctx)
	})

	for n, query := range []string{"transport=polling&n=0", "transport=none&n=1"} {
		response, err := http.Get(socketURL("http", ln.Addr().String(), query))
		require.NoError(t, err)

		_ = response.Body.Close()
		require.Equal(t, []int{200, 400}[n], response.StatusCode)
		require.Equal(t, []string{fmt.Sprint("id of ", n)}, response.Header.Values("X-Request-Id"))
	}
}

func TestMount_allowedOrigin(t *testing.T) {
	addr, _ := start(t, sio.Options{})
	for _, method := range []string{http.MethodGet, http.MethodOptions} {
		r, err := http.NewRequest(method, socketURL("http", addr, "transport=polling"), nil)
		require.NoError(t, err)
		r.Header.Set("Origin", foreignOrigin)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)

		_ = response.Body.Close()
		require.Equal(t, foreignOrigin, response.Header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "true", response.Header.Get("Access-Control-Allow-Credentials"))
	}

	response, err := http.Get(socketURL("http", addr, "transport=polling"))
	require.NoError(t, err)

	_ = response.Body.Close()
	require.Empty(t, response.Header.Get("Access-Control-Allow-Origin"))
}
