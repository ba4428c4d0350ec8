package egress

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"time"
)

// greet detects the protocol by the first byte of a connection and serves it.
func (c *Command) greet(client net.Conn) {
	in := bufio.NewReader(client)
	_ = client.SetReadDeadline(time.Now().Add(c.proxy.cfg.HeaderTimeout))

	first, err := in.Peek(1)
	if err != nil || first[0] < ' ' && first[0] != socksVersion { // TLS, SOCKS4 and other protocols
		_ = client.Close()
		return
	}

	conn := peeked{client, in}
	if first[0] == socksVersion {
		c.serveSOCKS(conn)
		return
	}

	_ = client.SetReadDeadline(time.Time{})

	c.requests.put(conn)
}

// serveHTTP serves one request of a command.
func (c *Command) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.enter() {
		return
	}
	defer c.busy.Done()

	switch {
	case r.Method == http.MethodConnect:
		c.connect(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		c.forward(w, r)
	default:
		http.Error(w, "This is the proxy of the sandbox: it takes CONNECT and requests with a whole http:// URL.", http.StatusBadRequest)
	}
}

// connect opens a tunnel.
func (c *Command) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := splitAddress(r.Host)
	if err != nil {
		http.Error(w, sentence(err), http.StatusBadRequest)
		return
	}

	upstream, err := c.dial(r.Context(), host, port)
	if err != nil {
		answer(w, err)
		return
	}

	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = upstream.Close()
		return
	}

	_ = conn.SetDeadline(time.Time{})

	client := idle{peeked{conn, buffered.Reader}, c.proxy.cfg.Idle}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = upstream.Close()
		_ = conn.Close()

		return
	}

	tunnel(client, upstream)
}

// forward forwards a request with an absolute URL.
func (c *Command) forward(w http.ResponseWriter, r *http.Request) {
	steady := steadyWriter{w, http.NewResponseController(w), c.proxy.cfg.Idle}
	r.Body = steadyBody{r.Body, steady.control, steady.limit}
	proxy := httputil.ReverseProxy{
		Rewrite:       func(out *httputil.ProxyRequest) { out.Out.Host = out.In.URL.Host },
		Transport:     c.transport,
		FlushInterval: -1,
		ErrorLog:      noLog,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { answer(w, err) },
	}

	defer func() {
		if failed := recover(); failed != nil && failed != http.ErrAbortHandler {
			panic(failed)
		}
	}()

	proxy.ServeHTTP(steady, r)
}

// answer sends the reason of a refusal to a command.
func answer(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if _, refused := errors.AsType[*refusal](err); refused {
		status = http.StatusForbidden
	}

	w.Header().Set("Connection", "close")
	http.Error(w, sentence(err), status)
}

func sentence(err error) string { return "Proxy of the sandbox: " + err.Error() + "." }

// steadyWriter fails when the command does not read its response for a while.
type steadyWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

func (s steadyWriter) Write(p []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.limit))
	return s.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (s steadyWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// steadyBody fails when the command does not send its request for a while.
type steadyBody struct {
	io.ReadCloser
	control *http.ResponseController
	limit   time.Duration
}

func (s steadyBody) Read(p []byte) (int, error) {
	_ = s.control.SetReadDeadline(time.Now().Add(s.limit))

	n, err := s.ReadCloser.Read(p)
	if err != nil {
		_ = s.control.SetReadDeadline(time.Time{}) // the response can take any time
	}

	return n, err
}
