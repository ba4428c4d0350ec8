package httpx

import (
	"io"

	"everloop/domain"
	"everloop/internal/limit"
)

// CodeBodyBudget refuses a body that does not fit into the memory for bodies.
const CodeBodyBudget = "body_budget_exhausted"

// reservation is the memory that the body of one request has of the budget of all. Files of
// forms do not count: they go to the disk.
type reservation struct{ *limit.Reservation }

// grow takes n bytes more, or refuses them.
func (r reservation) grow(n int) error {
	if r.Grow(n) {
		return nil
	}

	e := domain.Newf(domain.Unavailable, CodeBodyBudget, "too many request bodies are being read, retry in a moment")
	e.RetryAfter = 1

	return e
}

// reader takes what is read through it from the budget, as it comes: what a client
// only announces costs nothing.
func (r reservation) reader(in io.Reader) io.Reader { return &reservedReader{in, r} }

type reservedReader struct {
	in io.Reader
	of reservation
}

// Read implements io.Reader. Its error is a refusal once the budget is used up.
func (r *reservedReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if refused := r.of.grow(n); refused != nil {
		return 0, refused
	}

	return n, err
}
