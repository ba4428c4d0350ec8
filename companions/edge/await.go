package edge

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Await sets a deadline for the body of a request until something reads it: net/http drains an
// unread body before it sends the response. A request without a body gets no deadline, because
// one that expires while the request is handled would cancel it.
func Await(w http.ResponseWriter, r *http.Request, within time.Duration) {
	if hasBody(r) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // fails only for recorders of tests
	}
}

// Watch aborts reading the body of a request after an idle time of stall, independent of its
// total duration. late reports for a cancelled request whether it was aborted: net/http cancels
// the request before the delayed read returns.
func Watch(w http.ResponseWriter, r *http.Request, stall time.Duration) (late func() bool) {
	if !hasBody(r) {
		return func() bool { return false }
	}

	b := &watched{in: r.Body, control: http.NewResponseController(w), stall: stall}
	r.Body = b

	return b.gaveUp
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// watched is a body whose deadline is extended by each read and removed at its end.
type watched struct {
	in      io.ReadCloser
	control *http.ResponseController
	stall   time.Duration

	mu     sync.Mutex
	closed bool // the connection may already serve its next request

	reading sync.Mutex
	late    bool
}

// Read implements io.Reader.
func (b *watched) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()

	b.until(time.Now().Add(b.stall))

	n, err := b.in.Read(p)
	if errors.Is(err, io.EOF) {
		b.until(time.Time{})
	}

	b.late = b.late || Late(err)

	return n, err
}

func (b *watched) gaveUp() bool {
	b.reading.Lock()
	defer b.reading.Unlock()

	return b.late
}

func (b *watched) until(deadline time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if !b.closed {
		_ = b.control.SetReadDeadline(deadline)
	}
}

// Close implements io.Closer.
func (b *watched) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()

	return b.in.Close()
}
