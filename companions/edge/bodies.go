package edge

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"everloop/internal/limit"
)

// Time limits for reading a body.
const (
	BodyStall = time.Minute      // max time without a byte
	bodyTime  = 10 * time.Minute // max total time
)

// ErrBusy is the fault of a body that exceeds the remaining memory budget.
var ErrBusy = errors.New("no room for the body")

// Bodies bounds the memory of request bodies, of each one and in total. Only received bytes
// count, not the Content-Length.
type Bodies struct {
	room  *limit.Budget
	one   int64
	stall time.Duration
}

// NewBodies bounds each body to one bytes and all bodies together to all bytes; reading fails
// after an idle time of stall.
func NewBodies(one, all int64, stall time.Duration) *Bodies {
	return &Bodies{room: limit.NewBudget(all), one: one, stall: stall}
}

// Body is a request body that is being read. Read returns *http.MaxBytesError, ErrBusy,
// os.ErrDeadlineExceeded, or the client's error.
type Body struct {
	in      io.ReadCloser
	held    *limit.Reservation
	control *http.ResponseController
	stall   time.Duration
	until   time.Time
}

// Open starts to read the body of a request. The caller must release it when it no longer uses
// its memory.
func (b *Bodies) Open(w http.ResponseWriter, r *http.Request) *Body {
	return &Body{
		in: http.MaxBytesReader(w, r.Body, b.one), held: b.room.Reserve(), control: http.NewResponseController(w), stall: b.stall,
		until: time.Now().Add(bodyTime),
	}
}

// Read implements io.Reader. Each read extends the deadline, and the end of the body removes
// it: a deadline that expires while the request is handled would cancel it. It remains after a
// fault, because net/http drains the body before it sends the response.
func (b *Body) Read(p []byte) (int, error) {
	until := time.Now().Add(b.stall)
	if b.until.Before(until) {
		until = b.until
	}

	_ = b.control.SetReadDeadline(until) // fails only for recorders of tests

	n, err := b.in.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}

	if !b.held.Grow(n) {
		return 0, ErrBusy
	}

	return n, err
}

// Close implements io.Closer.
func (b *Body) Close() error { return b.in.Close() }

// Release returns the memory of the body to the budget.
func (b *Body) Release() { b.held.Release() }

// Late reports that reading a body timed out.
func Late(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
