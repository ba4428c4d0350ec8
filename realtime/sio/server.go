package sio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zishang520/engine.io/v2/engine"
	"github.com/zishang520/engine.io/v2/transports"
	"github.com/zishang520/engine.io/v2/types"
	"github.com/zishang520/socket.io/v2/socket"
)

// Server is the Socket.IO transport. Create it with [New], mount it with [Server.Mount], end it
// with [Server.Close].
type Server struct {
	opts     Options
	library  *socket.Server
	engine   guardedEngine
	sessions sync.Map // Engine.IO session id → *session
	heads    sync.Map // event name → first bytes of its packet
	handlers sync.WaitGroup
	closed   atomic.Bool
	conns    *handoff
	http     *http.Server
	stats    counters
}

// guardedEngine is the library's Engine.IO server with the transports of this package.
type guardedEngine struct {
	engine.Server
	server *Server
}

// CreateTransport is called by the library in the handshake of a session.
func (e guardedEngine) CreateTransport(name string, ctx *types.HttpContext) (transports.Transport, error) {
	switch name {
	case transports.POLLING:
		return newPollTransport(e.server, ctx), nil
	case transports.WEBSOCKET:
		if ctx.Websocket != nil {
			return newWSTransport(ctx, ctx.Websocket.Conn, handedConnOf(ctx.Request())), nil
		}
	}

	return nil, errors.New("unsupported transport")
}

// New returns a new transport and starts the HTTP server for it. Authenticate and Handler are
// required.
func New(opts Options) *Server {
	s := &Server{opts: opts.withDefaults(), conns: newHandoff()}

	config := socket.DefaultServerOptions()
	config.SetServeClient(false)
	config.SetParser(guardParser{})
	config.SetConnectTimeout(s.opts.ConnectTimeout)
	config.SetPingInterval(s.opts.PingInterval)
	config.SetPingTimeout(libraryPingTimeout)
	config.SetMaxHttpBufferSize(s.opts.MaxTransport)
	config.SetTransports(types.NewSet(transports.POLLING, transports.WEBSOCKET))

	s.engine = guardedEngine{engine.MakeServer(), s}
	s.engine.Prototype(s.engine)
	s.engine.Construct(config)
	s.library = socket.NewServer(nil, config)
	s.library.Bind(s.engine)
	s.library.Use(s.admit)
	// After Bind: the library listens to the session before this package accepts connections.
	_ = s.engine.On("connection", s.opened)
	_ = s.library.On("connection", s.connected)

	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	// One request for each connection: the next one may belong to Fiber.
	s.http.SetKeepAlivesEnabled(false)
	go func() {
		if err := s.http.Serve(s.conns); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.opts.Log.Error("socket server failed", slog.String("error", err.Error()))
		}
	}()

	return s
}

// opened is called for each new Engine.IO session.
func (s *Server) opened(args ...any) {
	sess := newSession(s, args[0].(engine.Socket))
	s.stats.connections.Add(1)
	s.stats.open.Add(1)

	_ = sess.engine.Once("close", func(...any) { s.stats.open.Add(-1) })
	sess.listen()
	s.sessions.Store(sess.engine.Id(), sess)
	sess.start()
}

func (s *Server) session(id string) (*session, bool) {
	v, ok := s.sessions.Load(id)
	if !ok {
		return nil, false
	}

	return v.(*session), true
}

// admit is the library's middleware: it checks the token of a CONNECT packet.
func (s *Server) admit(sock *socket.Socket, next func(*socket.ExtendedError)) {
	sess, ok := s.session(sock.Conn().Id())
	if !ok {
		return // lost in the meantime
	}

	auth, _ := sock.Handshake().Auth.(map[string]any)
	token, _ := auth["token"].(string)
	// In a goroutine, so that the lookup of a token does not block the client's other packets.
	s.handlers.Go(func() {
		defer s.recovered("authenticate")

		identity, err := s.authenticate(sess, token)
		if err != nil {
			sess.refused()
			s.stats.refused.Add(1)
			next(refusal(err))

			return
		}

		if sess.join(newConn(sess, string(sock.Id()), identity)) {
			next(nil)
		}
	})
}

func (s *Server) authenticate(sess *session, token string) (identity any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked("authenticate", v)

			err = &Refusal{Code: "internal_error", Retryable: true}
		}
	}()

	ctx, cancel := context.WithTimeout(context.Background(), s.opts.ConnectTimeout)
	defer cancel()

	go func() {
		select {
		case <-sess.done:
			cancel()
		case <-ctx.Done():
		}
	}()

	return s.opts.Authenticate(ctx, token, sess.engine.Request().Request())
}

func refusal(err error) *socket.ExtendedError {
	var refused *Refusal
	if errors.As(err, &refused) {
		return socket.NewExtendedError(refused.Code, map[string]any{
			"code": refused.Code, "retryable": refused.Retryable,
		})
	}

	return socket.NewExtendedError("unauthorized", map[string]any{"code": "unauthorized"})
}

// connected is called after the client has joined and received the confirmation.
func (s *Server) connected(args ...any) {
	sock := args[0].(*socket.Socket)
	if sess, ok := s.session(sock.Conn().Id()); ok {
		if conn := sess.joined(); conn != nil {
			conn.start()
		}
	}
}

// Close rejects new connections and closes all others, which report "transport close" and
// reconnect elsewhere. It waits until their last event is handled or ctx ends.
func (s *Server) Close(ctx context.Context) error {
	s.closed.Store(true)
	s.sessions.Range(func(_, v any) bool {
		v.(*session).close("server shutting down")
		return true
	})

	finished := make(chan struct{})

	go func() {
		s.sessions.Range(func(_, v any) bool {
			<-v.(*session).done // a polling client is notified at its next poll
			return true
		})
		s.handlers.Wait()
		close(finished)
	}()

	var err error

	select {
	case <-finished:
	case <-ctx.Done():
		err = fmt.Errorf("socket connections still open: %w", ctx.Err())
	}

	_ = s.conns.Close()
	if shut := s.http.Shutdown(ctx); err == nil {
		err = shut
	}

	_ = s.http.Close()

	return err
}

// recovered is deferred in every goroutine that processes a client's input.
func (s *Server) recovered(what string) {
	if v := recover(); v != nil {
		s.panicked(what, v)
	}
}

func (s *Server) panicked(what string, v any) {
	s.stats.panics.Add(1)
	s.opts.Log.Error("panic on a socket", slog.String("in", what), slog.String("panic", fmt.Sprint(v)),
		slog.String("stack", string(debug.Stack())))
}
