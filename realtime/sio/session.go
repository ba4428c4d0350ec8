package sio

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/zishang520/engine.io/v2/engine"
	"github.com/zishang520/engine.io/v2/transports"
)

type phase int

const (
	phaseNew     phase = iota // may send CONNECT
	phaseJoining              // its token is being checked
	phaseJoined               // may send events
)

// session is the state of one Engine.IO session, from its handshake on, on any transport.
type session struct {
	server *Server
	engine engine.Socket
	// pace slows down a client that sends too much.
	pace pace
	// limit is the size of the largest message, in bytes; it grows on joining.
	limit atomic.Int64
	// done is closed when the session has ended.
	done     chan struct{}
	doneOnce sync.Once
	// upgrading blocks a second upgrade, during and after the first.
	upgrading atomic.Bool
	// change prevents the end of the session while the library switches its transport, on which
	// the library would dereference nil.
	change sync.Mutex

	mu          sync.Mutex
	phase       phase
	tries       int
	attachments int
	held        bool // output is suspended during an upgrade
	conn        *Conn
	reason      string // set when this side decided to close
}

func newSession(server *Server, socket engine.Socket) *session {
	s := &session{server: server, engine: socket, done: make(chan struct{})}
	s.pace.init(server.opts.EventRate)
	s.limit.Store(maxHandshake)

	return s
}

// listen registers with the library and the polling transport, which waits for requests in any
// case.
func (s *session) listen() {
	s.watchHeartbeat()
	_ = s.engine.Once("close", func(args ...any) {
		reason := "transport close"

		if len(args) > 0 {
			if text, ok := args[0].(string); ok {
				reason = text
			}
		}

		s.ended(reason)
	})

	t, ok := s.engine.Transport().(*pollTransport)
	if !ok {
		return
	}

	t.bind(s)
	// Packets sent while no poll was open are sent first on the new transport.
	_ = s.engine.Once("upgrade", func(...any) {
		if left := t.takeBacklog(); len(left) > 0 {
			s.engine.Transport().Send(left)
		}
	})
}

// start starts reading and writing of a WebSocket, after all listeners are attached.
func (s *session) start() {
	if t, ok := s.engine.Transport().(*wsTransport); ok {
		t.start(s)
	}
}

// ended is called when the library has closed the session.
func (s *session) ended(reason string) {
	s.doneOnce.Do(func() {
		s.server.sessions.Delete(s.engine.Id())
		s.mu.Lock()

		conn := s.conn
		if s.reason != "" {
			reason = s.reason
		}
		s.mu.Unlock()
		close(s.done)

		if conn != nil {
			conn.onClosed(reason)
		}
	})
}

// close ends the session from this side and discards buffered packets.
func (s *session) close(reason string) {
	s.mu.Lock()
	if s.reason == "" {
		s.reason = reason
	}
	s.mu.Unlock()
	s.abort()
}

// abort closes the transport in a new goroutine, because the caller may be a listener of the
// library that closing calls again.
func (s *session) abort() {
	go func() {
		defer s.server.recovered("close")

		s.engine.Close(true)
	}()
}

// violation records that the client violated the protocol and closes.
func (s *session) violation(err error) {
	s.server.stats.violations.Add(1)
	s.server.opts.Log.Debug("socket closed: protocol violation", slog.String("error", err.Error()),
		slog.String("remote", s.engine.RemoteAddress()))
	s.close("parse error")
}

// beginConnect admits a CONNECT packet.
func (s *session) beginConnect(namespace string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.tries++; s.tries > maxConnectTries {
		return fmt.Errorf("%w: too many attempts to connect", errState)
	}

	if namespace != "/" {
		return nil
	}

	if s.phase != phaseNew {
		return fmt.Errorf("%w: connected already", errState)
	}

	s.phase = phaseJoining

	return nil
}

// refused allows the client to try another token.
func (s *session) refused() {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.phase = phaseNew
}

// join sets conn as the receiver of events. It returns false when the session has ended in the
// meantime.
func (s *session) join(conn *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	select {
	case <-s.done:
		return false
	default:
	}

	s.phase, s.conn = phaseJoined, conn
	conn.outbox.paused = s.held
	s.limit.Store(s.server.opts.MaxTransport)

	return true
}

func (s *session) joined() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.conn
}

func (s *session) expectAttachments(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.attachments = n
}

func (s *session) attachmentsDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.attachments > 0
}

func (s *session) skipAttachment() error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.attachments == 0 {
		return errBinary
	}

	s.attachments--

	return nil
}

// pollTransport returns the session's transport if it is polling.
func (s *session) pollTransport() (*pollTransport, bool) {
	t, ok := s.engine.Transport().(*pollTransport)
	return t, ok
}

var (
	_ transports.Transport = (*wsTransport)(nil)
	_ transports.Transport = (*pollTransport)(nil)
)
