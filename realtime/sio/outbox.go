package sio

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/zishang520/engine.io-go-parser/packet"
	"github.com/zishang520/engine.io/v2/engine"
)

const (
	// sendWindow bounds the bytes in the library's queue for a connection; the rest is queued
	// here, where it is bounded.
	sendWindow = 256 << 10
	// frameOverhead is added to the bytes of each frame.
	frameOverhead = 64
	// ackReserve is how far acknowledgements can exceed the limit, in bytes, so that a client
	// with a full buffer of events still receives answers.
	ackReserve = 1 << 20
)

// frame is one outgoing Socket.IO packet. Its parts are written in sequence; body is shared
// between all connections that receive the event.
type frame struct {
	head, body, tail []byte
	out              *outbox
}

func (f *frame) size() int { return len(f.head) + len(f.body) + len(f.tail) }

// appendTo adds the packet to buffer.
func (f *frame) appendTo(buffer []byte) []byte {
	buffer = append(buffer, f.head...)
	buffer = append(buffer, f.body...)

	return append(buffer, f.tail...)
}

// Read implements io.Reader for the library, which passes packets on as readers. Both
// transports read the parts instead.
func (*frame) Read([]byte) (int, error) { return 0, io.EOF }

// plain disables compression in the library's packet options.
var plain = &packet.Options{}

// outbox is the bounded queue in front of the library's unbounded one. It passes frames to the
// library as the transport finishes earlier ones.
type outbox struct {
	engine engine.Socket
	limit  int
	// closed is not guarded by mu: the library may report the end from within a call of pump.
	closed atomic.Bool

	mu       sync.Mutex
	queue    []*frame
	queued   int // bytes, with those in flight
	inFlight int // bytes passed to the library and not written yet
	paused   bool
	full     bool   // has overflowed, and was not below half since
	onDrain  func() // after an overflow
	onEmpty  func() // once
}

// push adds a frame. It returns false when the queue would exceed limit+reserve. A single frame
// always fits, regardless of its size.
func (o *outbox) push(f *frame, reserve int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.closed.Load() {
		return false
	}

	n := f.size() + frameOverhead
	if o.queued > 0 && o.queued+n > o.limit+reserve {
		o.full = true
		return false
	}

	f.out = o
	o.queued += n
	o.queue = append(o.queue, f)
	o.pump()

	return true
}

// pump passes frames to the library; the caller holds o.mu, which preserves their order. The
// library only queues them for the transport's goroutine, so that it never blocks.
func (o *outbox) pump() {
	for !o.paused && !o.closed.Load() && o.inFlight < sendWindow && len(o.queue) > 0 {
		f := o.queue[0]
		o.queue[0] = nil

		o.queue = o.queue[1:]
		if len(o.queue) == 0 {
			o.queue = nil
		}

		o.inFlight += f.size() + frameOverhead
		o.engine.Write(f, plain, nil)
	}
}

// written is called by the transport after it has written frames of this many bytes.
func (o *outbox) written(n int) {
	o.mu.Lock()
	o.inFlight -= n
	o.queued -= n
	o.pump()

	var drained, empty func()

	if o.full && !o.closed.Load() && o.queued <= o.limit/2 {
		o.full = false
		drained = o.onDrain
	}

	if o.queued == 0 {
		empty, o.onEmpty = o.onEmpty, nil
	}
	o.mu.Unlock()

	if drained != nil {
		drained()
	}

	if empty != nil {
		empty()
	}
}

// whenEmpty calls fn once everything is written, immediately if it is.
func (o *outbox) whenEmpty(fn func()) {
	o.mu.Lock()

	wait := o.queued > 0 && !o.closed.Load()
	if wait {
		o.onEmpty = fn
	}
	o.mu.Unlock()

	if !wait {
		fn()
	}
}

// pause suspends output while the session changes its transport.
func (o *outbox) pause(on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.paused = on
	o.pump()
}

func (o *outbox) bytes() int {
	o.mu.Lock()
	defer o.mu.Unlock()

	return o.queued
}

// release reports to the outboxes of a batch that it was written.
func release(batch []*packet.Packet) {
	var out *outbox

	n := 0

	for _, p := range batch {
		if f, ok := p.Data.(*frame); ok && f.out != nil {
			out = f.out
			n += f.size() + frameOverhead
		}
	}

	if out != nil {
		out.written(n)
	}
}
