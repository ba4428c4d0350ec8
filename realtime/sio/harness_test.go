package sio_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"

	"everloop/realtime/sio"
)

const goodToken = "good"

// foreignOrigin is the foreign origin that the tests' server allows.
const foreignOrigin = "https://office.example"

// recorder is the handler of the tests' servers. Its events:
//
//	echo     answers {ok, payload}
//	burst    emits payload.count events "tick" {n}, answers the number queued
//	paced    emits "tick" {n} every few milliseconds until the connection ends
//	big      emits "blob" with payload.bytes bytes of text
//	log      keeps payload.n, answers nothing
//	logged   answers what log has kept
//	kick     closes the connection
//	panic    panics
//	unjson   answers with what is no JSON
type recorder struct {
	mu           sync.Mutex
	conns        map[string]*sio.Conn
	logged       map[string][]int
	disconnected map[string]string
}

func newRecorder() *recorder {
	return &recorder{conns: map[string]*sio.Conn{}, logged: map[string][]int{}, disconnected: map[string]string{}}
}

func (h *recorder) Connected(c *sio.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.conns[c.ID()] = c
}

func (h *recorder) Disconnected(c *sio.Conn, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()

	delete(h.conns, c.ID())
	h.disconnected[c.ID()] = reason
}

func (h *recorder) Malformed(c *sio.Conn, event string, fault sio.Fault, ack func(any)) {
	answer := map[string]any{"ok": false, "event": event, "error": map[string]any{"code": fault.Code}}
	if ack != nil {
		ack(answer)
		return
	}

	data, _ := json.Marshal(answer)
	c.Emit("session:error", data)
}

func (h *recorder) Event(c *sio.Conn, name string, payload json.RawMessage, ack func(any)) {
	var in struct {
		N, Count, Bytes int
	}

	_ = json.Unmarshal(payload, &in)

	if ack == nil {
		ack = func(any) {}
	}

	switch name {
	case "echo":
		ack(map[string]any{"ok": true, "payload": payload})
	case "burst":
		queued := 0

		for n := range in.Count {
			if c.Emit("tick", tick(n)) {
				queued++
			}
		}

		ack(map[string]any{"ok": true, "queued": queued})
	case "paced":
		go pace(c)

		ack(map[string]any{"ok": true})
	case "big":
		ack(map[string]any{"ok": true})
		c.Emit("blob", blob(in.Bytes))
	case "log":
		h.mu.Lock()
		h.logged[c.ID()] = append(h.logged[c.ID()], in.N)
		h.mu.Unlock()
	case "logged":
		h.mu.Lock()
		defer h.mu.Unlock()

		ack(map[string]any{"ok": true, "logged": h.logged[c.ID()]})
	case "kick":
		c.Close()
	case "panic":
		panic("a handler's mistake")
	case "unjson":
		ack(func() {})
	default:
		ack(map[string]any{"ok": false, "error": map[string]any{"code": "unknown_event"}})
	}
}

func pace(c *sio.Conn) {
	ticker := time.NewTicker(3 * time.Millisecond)
	defer ticker.Stop()

	for n := 0; ; n++ {
		select {
		case <-ticker.C:
			c.Emit("tick", tick(n))
		case <-c.Context().Done():
			return
		}
	}
}

func tick(n int) json.RawMessage {
	data, _ := json.Marshal(map[string]int{"n": n})
	return data
}

func blob(size int) json.RawMessage {
	text := make([]byte, size)
	for i := range text {
		text[i] = 'a' + byte(i%26)
	}

	data, _ := json.Marshal(map[string]string{"text": string(text)})

	return data
}

func (h *recorder) conn(t *testing.T) *sio.Conn {
	t.Helper()

	var found *sio.Conn

	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()

		for _, c := range h.conns {
			found = c
		}

		return found != nil
	}, time.Minute, 5*time.Millisecond)

	return found
}

func authenticate(_ context.Context, token string, _ *http.Request) (any, error) {
	switch token {
	case goodToken:
		return "user", nil
	case "later":
		return nil, &sio.Refusal{Code: "dependency_down", Retryable: true}
	case "panic":
		panic("an authenticator's mistake")
	}

	return nil, errors.New("no such token")
}

// serve starts a Fiber app with the transport and a few REST routes.
func serve(opts sio.Options, config fiber.Config) (addr string, server *sio.Server, stop func(), err error) {
	opts.Authenticate = authenticate
	opts.AllowedOrigins = []string{foreignOrigin}

	opts.ConnectTimeout = cmp.Or(opts.ConnectTimeout, patience) // a slow machine takes its time to join
	if opts.Handler == nil {
		opts.Handler = newRecorder()
	}

	server = sio.New(opts)
	config.DisableStartupMessage = true
	app := fiber.New(config)
	app.Get("/ping", func(c *fiber.Ctx) error { return c.SendString("pong") })
	app.Post("/length", func(c *fiber.Ctx) error { return c.JSON(len(c.Body())) })
	server.Mount(app)

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, nil, err
	}

	go func() { _ = app.Listener(ln) }()

	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()

		_ = server.Close(ctx)
		_ = app.ShutdownWithContext(ctx)
	}

	return ln.Addr().String(), server, stop, nil
}

func start(t *testing.T, opts sio.Options) (string, *sio.Server) {
	t.Helper()

	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}

	addr, server, stop, err := serve(opts, fiber.Config{})
	require.NoError(t, err)
	t.Cleanup(stop)

	return addr, server
}
