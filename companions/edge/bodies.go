package edge

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"everloop/internal/limit"
)

// Bounds of the time in which a body comes.
const (
	BodyStall = time.Minute      // without a byte
	bodyTime  = 10 * time.Minute // of all of it
)

// ErrBusy is the fault of a body that finds no room next to others.
var ErrBusy = errors.New("no room for the body")

// Bodies bounds the bodies that a service holds in memory, one and all together. What a
// client only announces costs nothing.
type Bodies struct {
	room  *limit.Budget
	one   int64
	stall time.Duration
}

// NewBodies bounds bodies to one bytes each and all bytes together; each is given up after
// a silence of stall.
func NewBodies(one, all int64, stall time.Duration) *Bodies {
	return &Bodies{room: limit.NewBudget(all), one: one, stall: stall}
}

// Body is a body on its way. Reading it fails with an *http.MaxBytesError, ErrBusy or
// os.ErrDeadlineExceeded, or as its client does.
type Body struct {
	in      io.ReadCloser
	held    *limit.Reservation
	control *http.ResponseController
	stall   time.Duration
	until   time.Time
}

// Open starts to read the body of a request. The caller releases it when it holds nothing
// of it any more.
func (b *Bodies) Open(w http.ResponseWriter, r *http.Request) *Body {
	return &Body{
		in: http.MaxBytesReader(w, r.Body, b.one), held: b.room.Reserve(), control: http.NewResponseController(w), stall: b.stall,
		until: time.Now().Add(bodyTime),
	}
}

// Read implements io.Reader. The deadline moves with each read, and goes with the end of the
// body: one that passes while a request is answered would cancel it. It stays after a fault,
// because net/http reads on before it sends the answer.
func (b *Body) Read(p []byte) (int, error) {
	until := time.Now().Add(b.stall)
	if b.until.Before(until) {
		until = b.until
	}

	_ = b.control.SetReadDeadline(until) // a writer without deadlines is one of a test

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

// Release frees what the body takes of the service's memory.
func (b *Body) Release() { b.held.Release() }

// Late reports that a body did not come in time.
func Late(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
