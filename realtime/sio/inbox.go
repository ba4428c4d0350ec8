package sio

import "sync"

// inboxEvents and inboxBytes bound the received, unhandled events of a connection.
const (
	inboxEvents = 256
	inboxBytes  = DefaultMaxTransport
)

// inbox queues the events of a connection in order until its dispatcher takes them. A full
// inbox blocks the reader, so that the client is slowed down.
type inbox struct {
	done  <-chan struct{}
	ready chan struct{} // signals a new event
	space chan struct{} // an event was removed

	mu     sync.Mutex
	events []event
	bytes  int
}

func newInbox(done <-chan struct{}) *inbox {
	return &inbox{done: done, ready: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// put adds an event, waiting for space. It returns false when the connection was lost in the
// meantime.
func (b *inbox) put(ev event) bool {
	for {
		select {
		case <-b.done:
			return false
		default:
		}

		if b.tryPut(ev) {
			wake(b.ready)
			return true
		}

		select {
		case <-b.space:
		case <-b.done:
		}
	}
}

func (b *inbox) tryPut(ev event) bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	if n := len(b.events); n > 0 && (n >= inboxEvents || b.bytes+ev.size > inboxBytes) {
		return false
	}

	b.events = append(b.events, ev)
	b.bytes += ev.size

	return true
}

// take returns the oldest event if there is one.
func (b *inbox) take() (event, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if len(b.events) == 0 {
		return event{}, false
	}

	ev := b.events[0]
	b.events[0] = event{}

	b.events = b.events[1:]
	if len(b.events) == 0 {
		b.events = nil
	}

	b.bytes -= ev.size
	wake(b.space)

	return ev, true
}

func wake(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
