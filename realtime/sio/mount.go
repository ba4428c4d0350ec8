package sio

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// Path is the default path of the official client.
const Path = "/socket.io/"

// Mount adds the transport to a Fiber app, at [Path]. Fiber's server does not support
// WebSockets of net/http, so the connection itself is handed over; other routes, including
// their keep-alive connections, are unaffected. Call it before the app listens.
func (s *Server) Mount(app *fiber.App) {
	server := app.Server()
	server.KeepHijackedConns = true
	// The app's body limit applies to other routes: this one has its own, which is applied
	// before the body is read.
	others := server.HeaderReceived
	server.HeaderReceived = func(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
		var config fasthttp.RequestConfig
		if others != nil {
			config = others(header)
		}

		if uri := string(header.RequestURI()); strings.HasPrefix(uri, Path) {
			config.MaxRequestBodySize = int(s.bodyLimit(sessionID(uri)))
		}

		return config
	}

	app.All(Path+"*", s.handOver)
}

func (s *Server) handOver(c *fiber.Ctx) error {
	ctx := c.Context()
	if string(ctx.Path()) != Path {
		return fiber.ErrNotFound
	}

	limit := s.bodyLimit(string(ctx.QueryArgs().Peek("sid")))

	body, ok := takeBody(&ctx.Request, limit)
	if !ok {
		c.Set(fiber.HeaderConnection, "close")
		return fiber.ErrRequestEntityTooLarge
	}

	request := rebuild(&ctx.Request, len(body))
	id := strings.Clone(c.GetRespHeader(fiber.HeaderXRequestID))

	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(wrapped net.Conn) {
		// The wrapper returns to a pool: its buffered bytes are taken out without waiting for
		// more, then only the socket below is used.
		early := drain(wrapped)

		inner, ok := wrapped.(interface{ UnsafeConn() net.Conn })
		if !ok {
			_ = wrapped.Close()
			return
		}

		conn := inner.UnsafeConn()
		_ = conn.SetDeadline(time.Time{})
		s.conns.give(&handedConn{Conn: conn, requestID: id, reader: io.MultiReader(
			bytes.NewReader(request), bytes.NewReader(body), bytes.NewReader(early), conn)})
	})

	return nil
}

// maxEarly bounds the bytes that a client can send after its request without waiting for the
// response.
const maxEarly = 64 << 10

// drain returns the bytes that were read beyond the request's end.
func drain(conn net.Conn) []byte {
	_ = conn.SetReadDeadline(time.Unix(1, 0))

	var early []byte

	chunk := make([]byte, 4096)
	for len(early) < maxEarly {
		n, err := conn.Read(chunk)
		early = append(early, chunk[:n]...)

		if err != nil {
			break
		}
	}

	return early
}

// takeBody copies the body, which Fiber reuses; with streaming it is not fully received yet.
func takeBody(r *fasthttp.Request, limit int64) ([]byte, bool) {
	if !r.IsBodyStream() {
		body := r.Body()
		if int64(len(body)) > limit {
			return nil, false
		}

		return bytes.Clone(body), true
	}

	body, err := io.ReadAll(io.LimitReader(r.BodyStream(), limit+1))

	return body, err == nil && int64(len(body)) <= limit
}

// rebuild writes the head of the request again. Fiber has decoded a chunked body, so that the
// framing headers are rebuilt.
func rebuild(r *fasthttp.Request, length int) []byte {
	var b bytes.Buffer
	b.Write(r.Header.Method())
	b.WriteByte(' ')
	b.Write(r.Header.RequestURI())
	b.WriteString(" HTTP/1.1\r\nHost: ")
	b.Write(r.Header.Host())
	b.WriteString("\r\n")

	for key, value := range r.Header.All() {
		switch strings.ToLower(string(key)) {
		case "host", "content-length", "transfer-encoding", "expect":
			continue
		}

		b.Write(key)
		b.WriteString(": ")
		b.Write(value)
		b.WriteString("\r\n")
	}

	b.WriteString("Content-Length: ")
	b.WriteString(strconv.Itoa(length))
	b.WriteString("\r\n\r\n")

	return b.Bytes()
}

// sessionID returns the session id in a request's target.
func sessionID(uri string) string {
	_, query, _ := strings.Cut(uri, "?")

	var args fasthttp.Args
	args.Parse(query)

	return string(args.Peek("sid"))
}
