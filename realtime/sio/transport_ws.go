package sio

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/zishang520/engine.io-go-parser/packet"
	"github.com/zishang520/engine.io/v2/transports"
	"github.com/zishang520/engine.io/v2/types"
)

// wsScratch is the maximum encoding buffer that an idle connection retains.
const wsScratch = 64 << 10

// wsTransport implements a session over one WebSocket. It replaces the library's transport,
// which reads before listeners are attached (a crash), omits the rest of a batch after a
// broadcast, and starts a goroutine for each batch.
type wsTransport struct {
	transports.Transport
	conn *websocket.Conn
	net  *handedConn
	// session is set before the goroutines start.
	session *session
	wake    chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	queue   []*packet.Packet
	closing bool
	// suppressed drops packets that the library sends while it processes a probe that was
	// answered already.
	suppressed bool
}

func newWSTransport(ctx *types.HttpContext, conn *websocket.Conn, net *handedConn) *wsTransport {
	t := &wsTransport{
		Transport: transports.MakeTransport(),
		conn:      conn, net: net,
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	t.Prototype(t)
	t.Construct(ctx)
	t.SetWritable(true)

	return t
}

func (*wsTransport) Name() string          { return transports.WEBSOCKET }
func (*wsTransport) HandlesUpgrades() bool { return true }

// start starts reading and writing. Packets sent to the transport before are queued until then.
func (t *wsTransport) start(s *session) {
	t.mu.Lock()
	t.session = s

	t.mu.Unlock()
	go t.write()
	go t.read()
}

// Send queues packets for the writer. The library calls it when the transport
// is writable.
func (t *wsTransport) Send(packets []*packet.Packet) {
	t.mu.Lock()
	if t.suppressed {
		t.mu.Unlock()
		return
	}

	t.SetWritable(false)
	t.queue = append(t.queue, packets...)
	t.mu.Unlock()
	wake(t.wake)
}

func (t *wsTransport) mute(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.suppressed = on
}

// DoClose gives the writer a moment to send its queue, then closes.
func (t *wsTransport) DoClose(fn types.Callable) {
	t.mu.Lock()
	t.closing = true
	started := t.session != nil
	t.mu.Unlock()
	wake(t.wake)

	if started {
		time.AfterFunc(closeGrace, func() { t.net.Close() })
	} else {
		t.net.Close()
	}

	if fn != nil {
		fn()
	}
}

func (t *wsTransport) read() {
	defer close(t.done)
	defer t.net.Close()
	defer func() {
		defer t.session.server.recovered("close")

		t.OnClose()
	}()
	defer t.session.server.recovered("read")

	for {
		kind, message, err := t.conn.NextReader()
		if err != nil {
			return
		}

		data, ok := readLimited(message, t.session.limit.Load())
		if !ok || !t.session.pace.wait(t.session.done) {
			return
		}

		t.OnPacket(decodePacket(t.session, data, kind == websocket.BinaryMessage))
	}
}

// readLimited reads all of r unless it is longer than limit bytes.
func readLimited(r io.Reader, limit int64) ([]byte, bool) {
	var buffer bytes.Buffer

	n, err := buffer.ReadFrom(io.LimitReader(r, limit+1))

	return buffer.Bytes(), err == nil && n <= limit
}

func (t *wsTransport) write() {
	defer t.net.Close()
	defer t.session.server.recovered("write")

	var scratch []byte

	for {
		select {
		case <-t.wake:
		case <-t.done:
			return
		}

		t.mu.Lock()
		batch, closing := t.queue, t.closing
		t.queue = nil
		t.mu.Unlock()

		if len(batch) > 0 {
			var err error
			if scratch, err = t.writeBatch(batch, scratch); err != nil {
				t.session.abort() // the reader may be waiting for space in the inbox
				return
			}

			release(batch)

			if !closing {
				t.Emit("drain")
				t.SetWritable(true)
				t.Emit("ready")
			}
		}

		if closing {
			t.writeClose()
			return
		}
	}
}

// writeBatch writes packets as one message each, with few system calls.
func (t *wsTransport) writeBatch(batch []*packet.Packet, scratch []byte) ([]byte, error) {
	t.net.cork()

	for _, p := range batch {
		scratch = t.session.server.appendPacket(scratch[:0], p)
		if err := t.conn.WriteMessage(websocket.TextMessage, scratch); err != nil {
			return nil, err
		}
	}

	if cap(scratch) > wsScratch {
		scratch = nil
	}

	return scratch, t.net.uncork()
}

func (t *wsTransport) writeClose() {
	text := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = t.conn.WriteControl(websocket.CloseMessage, text, time.Now().Add(closeGrace))
}
