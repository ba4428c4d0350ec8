package sio

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zishang520/engine.io-go-parser/packet"
	"github.com/zishang520/engine.io/v2/transports"
	"github.com/zishang520/engine.io/v2/types"
)

// pollWriteTimeout bounds the writing of one answer to a poll.
const pollWriteTimeout = 60 * time.Second

// pollTransport implements a session over HTTP requests. It replaces the library's transport,
// which drops packets over 64 KiB, never answers a binary body, has no bounds, and writes to
// responses that may have ended. Here only the request's own goroutine writes its response.
type pollTransport struct {
	transports.Transport
	server  *Server
	session *session

	mu        sync.Mutex
	waiting   chan []*packet.Packet // the open poll, if there is one
	backlog   []*packet.Packet      // sent while none was open
	posting   bool
	hurry     bool // an upgrade waits for the end of the client's poll
	closing   bool
	closeDone types.Callable // called after the client was notified
}

func newPollTransport(s *Server, ctx *types.HttpContext) *pollTransport {
	t := &pollTransport{Transport: transports.MakeTransport(), server: s}
	t.Prototype(t)
	t.Construct(ctx)

	return t
}

func (*pollTransport) Name() string { return transports.POLLING }

func (t *pollTransport) bind(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.session = s
}

// OnRequest satisfies the library's interface; requests arrive through servePoll and servePost
// instead.
func (*pollTransport) OnRequest(*types.HttpContext) {}

// Send answers the open poll, or stores the packets for the next one.
func (t *pollTransport) Send(packets []*packet.Packet) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.SetWritable(false)
	t.backlog = append(t.backlog, packets...)
	t.answer()
}

// answer sends the backlog to the open poll; the caller holds t.mu.
func (t *pollTransport) answer() {
	if t.waiting != nil && len(t.backlog) > 0 {
		t.waiting <- t.backlog

		t.waiting, t.backlog = nil, nil
	}
}

var (
	noop      = &packet.Packet{Type: packet.NOOP}
	closePoll = &packet.Packet{Type: packet.CLOSE}
)

// flushForUpgrade ends the open poll and the following ones, so that the client can switch to
// the other transport.
func (t *pollTransport) flushForUpgrade(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.hurry = on
	if on && t.waiting != nil {
		t.SetWritable(false)
		t.backlog = append(t.backlog, noop)
		t.answer()
	}
}

// takeBacklog returns the unsent packets when the client changes transports.
func (t *pollTransport) takeBacklog() []*packet.Packet {
	t.mu.Lock()
	defer t.mu.Unlock()

	left := t.backlog
	t.backlog = nil

	return left
}

// servePoll blocks a GET until there are packets to send.
func (t *pollTransport) servePoll(w http.ResponseWriter, r *http.Request) {
	poll := make(chan []*packet.Packet, 1)

	t.mu.Lock()
	if t.waiting != nil {
		t.mu.Unlock()
		refuse(w, http.StatusBadRequest, "Bad request")
		t.session.close("overlapping polls")

		return
	}

	t.waiting = poll

	closing := t.closing
	switch {
	case closing:
		t.backlog = append(t.backlog, closePoll)
	case t.hurry && len(t.backlog) == 0:
		t.backlog = append(t.backlog, noop)
	}

	t.answer()

	idle := t.waiting != nil
	if idle {
		t.SetWritable(true)
	}
	t.mu.Unlock()

	if idle {
		t.Emit("ready")
	}

	select {
	case packets := <-poll:
		t.respond(w, packets)

		if closing {
			t.finishClose()
		}
	case <-r.Context().Done():
		t.mu.Lock()
		if t.waiting == poll {
			t.waiting = nil
		}

		t.SetWritable(false)
		t.mu.Unlock()
		t.fail("poll connection closed prematurely", nil)
	}
}

// fail reports to the library that the transport is broken.
func (t *pollTransport) fail(message string, err error) {
	t.session.change.Lock()
	defer t.session.change.Unlock()

	t.OnError(message, err)
}

func (t *pollTransport) respond(w http.ResponseWriter, packets []*packet.Packet) {
	var body []byte

	for i, p := range packets {
		if i > 0 {
			body = append(body, separator)
		}

		body = t.server.appendPacket(body, p)
	}

	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pollWriteTimeout))
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=UTF-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(body)))

	if _, err := w.Write(body); err != nil {
		t.fail("polling write error", err)
		return
	}

	release(packets)
	t.Emit("drain")
}

// servePost takes the packets of a POST. It responds when they are queued, so that a client
// that sends too much is slowed down.
func (t *pollTransport) servePost(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/octet-stream") {
		refuse(w, http.StatusBadRequest, "Bad request")
		t.session.close("invalid content")

		return
	}

	t.mu.Lock()
	overlap := t.posting

	t.posting = true
	t.mu.Unlock()

	if overlap {
		refuse(w, http.StatusBadRequest, "Bad request")
		t.session.close("overlapping posts")

		return
	}

	defer func() {
		t.mu.Lock()
		t.posting = false
		t.mu.Unlock()
	}()

	limit := t.session.limit.Load()

	body, ok := readBody(r, limit)
	if !ok {
		refuse(w, http.StatusRequestEntityTooLarge, "Payload too large")
		t.session.close("message too large")

		return
	}

	if !t.receive(body) {
		refuse(w, http.StatusBadRequest, "Session ID unknown")
		return
	}

	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok")
}

// receive passes the packets of a body on individually, without a list of them, which a body of
// separators would make huge.
func (t *pollTransport) receive(body []byte) bool {
	for more := true; more; {
		var one []byte

		one, body, more = bytes.Cut(body, []byte{separator})

		if t.ReadyState() != "open" || !t.session.pace.wait(t.session.done) {
			return false
		}

		p := decodePacket(t.session, one, false)
		if p.Type == packet.CLOSE {
			t.OnClose()
			return true
		}

		t.OnPacket(p)
	}

	return true
}

func readBody(r *http.Request, limit int64) ([]byte, bool) {
	if r.ContentLength > limit {
		return nil, false
	}

	body := make([]byte, max(r.ContentLength, 0))
	_, err := io.ReadFull(r.Body, body)

	return body, err == nil
}

// OnClose ends the transport from the client's side.
func (t *pollTransport) OnClose() {
	t.mu.Lock()
	if t.waiting != nil {
		t.backlog = append(t.backlog, noop)
		t.answer()
	}
	t.mu.Unlock()
	t.ended(nil)
}

// DoClose notifies the client immediately when a poll is open, else at its next one.
func (t *pollTransport) DoClose(fn types.Callable) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.closing = true
	if t.hurry {
		// The client has switched the transport; the library no longer listens to this one.
		if t.waiting != nil {
			t.backlog = append(t.backlog, noop)
			t.answer()
		}
		go t.ended(fn)

		return
	}

	if t.waiting != nil {
		t.SetWritable(false)
		t.backlog = append(t.backlog, closePoll)

		t.answer()
		go t.ended(fn)

		return
	}

	t.closeDone = fn
	time.AfterFunc(closeGrace, t.finishClose)
}

// finishClose ends a transport after its client was notified, or cannot be.
func (t *pollTransport) finishClose() {
	t.mu.Lock()
	fn := t.closeDone
	t.closeDone = nil
	t.mu.Unlock()
	t.ended(fn)
}

// ended notifies the library, never from within one of its own calls, which may hold locks that
// a change of transport needs.
func (t *pollTransport) ended(fn types.Callable) {
	defer t.server.recovered("close")

	t.session.change.Lock()
	defer t.session.change.Unlock()

	if fn != nil {
		fn()
	}

	t.Transport.OnClose()
}
