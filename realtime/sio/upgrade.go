package sio

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/zishang520/engine.io-go-parser/packet"
	"github.com/zishang520/engine.io/v2/events"
	"github.com/zishang520/engine.io/v2/types"
)

// upgradeTimeout bounds a change from polling to WebSocket.
const upgradeTimeout = 10 * time.Second

var errUpgrade = errors.New("upgrade not completed")

// upgrade moves a session from polling to a WebSocket. The library's own version dereferences
// nil when the session ends at the wrong moment, so the exchange with the client (2probe,
// 3probe, 5) happens here, and the library is notified in one step.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, sess *session, poll *pollTransport) {
	if !sess.upgrading.CompareAndSwap(false, true) {
		refuse(w, http.StatusBadRequest, "Bad request")
		return
	}

	ctx := types.NewHttpContext(w, r)

	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		sess.upgrading.Store(false)
		return // answered by the upgrader
	}

	ctx.Websocket = &types.WebSocketConn{EventEmitter: events.New(), Conn: conn}

	done := false
	defer func() {
		if !done {
			poll.flushForUpgrade(false)
			sess.holdOutput(false)

			_ = conn.Close()

			sess.upgrading.Store(false)
		}
	}()

	done = s.changeTransport(ctx, sess, poll) == nil
}

func (s *Server) changeTransport(ctx *types.HttpContext, sess *session, poll *pollTransport) error {
	conn := ctx.Websocket.Conn

	stop := closeWith(sess.done, conn)
	defer stop()

	conn.SetReadLimit(maxHandshake)

	_ = conn.SetReadDeadline(time.Now().Add(upgradeTimeout))
	if err := expect(conn, "2probe"); err != nil {
		return err
	}
	// From here on output is suspended until the change has finished: an answer to a poll that
	// the client has abandoned would be lost.
	sess.holdOutput(true)

	_ = conn.SetWriteDeadline(time.Now().Add(upgradeTimeout))
	if err := conn.WriteMessage(websocket.TextMessage, []byte("3probe")); err != nil {
		return err
	}

	poll.flushForUpgrade(true)

	if err := expect(conn, "5"); err != nil {
		return err
	}

	_ = conn.SetReadDeadline(time.Time{})
	_ = conn.SetWriteDeadline(time.Time{})
	conn.SetReadLimit(s.opts.MaxTransport)

	t := newWSTransport(ctx, conn, handedConnOf(ctx.Request()))
	if !sess.switchTo(t) {
		return errUpgrade
	}

	t.start(sess)
	sess.holdOutput(false)

	return nil
}

// switchTo reports a completed probe to the library. It returns false when the session has
// ended.
func (s *session) switchTo(t *wsTransport) bool {
	s.change.Lock()
	defer s.change.Unlock()

	if s.engine.ReadyState() != "open" {
		return false
	}

	t.mute(true)
	s.engine.MaybeUpgrade(t)
	t.OnPacket(&packet.Packet{Type: packet.PING, Data: strings.NewReader("probe")})
	t.mute(false)
	t.OnPacket(&packet.Packet{Type: packet.UPGRADE, Data: strings.NewReader("")})

	return s.engine.Transport() == t
}

// expect reads one text message that must equal the given one.
func expect(conn *websocket.Conn, want string) error {
	kind, message, err := conn.NextReader()
	if err != nil {
		return err
	}

	got, ok := readLimited(message, int64(len(want)))
	if !ok || kind != websocket.TextMessage || string(got) != want {
		return errUpgrade
	}

	return nil
}

// closeWith closes conn when the session ends, until stop is called.
func closeWith(done <-chan struct{}, conn *websocket.Conn) (stop func()) {
	stopped := make(chan struct{})

	go func() {
		select {
		case <-done:
			_ = conn.Close()
		case <-stopped:
		}
	}()

	return func() { close(stopped) }
}

// holdOutput suspends or resumes the connection's events.
func (s *session) holdOutput(on bool) {
	s.mu.Lock()
	s.held = on
	conn := s.conn
	s.mu.Unlock()

	if conn != nil {
		conn.outbox.pause(on)
	}
}
