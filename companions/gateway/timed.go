package gateway

import (
	"net/http"
	"time"
)

// timedWriter sets a deadline for each write: a client that reads nothing would block its
// request's memory and its slot.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

func newTimedWriter(w http.ResponseWriter, limit time.Duration) *timedWriter {
	t := &timedWriter{ResponseWriter: w, control: http.NewResponseController(w), limit: limit}
	t.begin() // the deadline of the previous request may have passed

	return t
}

func (t *timedWriter) begin() {
	_ = t.control.SetWriteDeadline(time.Now().Add(t.limit)) // fails only for recorders of tests
}

// Unwrap returns the underlying writer for a response controller.
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (t *timedWriter) WriteHeader(status int) {
	t.begin()
	t.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (t *timedWriter) Write(text []byte) (int, error) {
	t.begin()

	return t.ResponseWriter.Write(text)
}

// FlushError flushes with a deadline, for a response controller.
func (t *timedWriter) FlushError() error {
	t.begin()

	return t.control.Flush()
}
