package httpx

import (
	"io"
	"sync/atomic"

	"everloop/domain"
)

// CodeBodyBudget refuses a body that finds no room beside others.
const CodeBodyBudget = "body_budget_exhausted"

// bodyBudget bounds the bytes of request bodies that are in memory at once, of all
// requests together. Files of forms do not count: they go to the disk.
type bodyBudget struct {
	most int64 // 0: no bound
	used atomic.Int64
}

// reservation is what one request holds of the budget.
type reservation struct {
	budget *bodyBudget
	held   int64
}

func (b *bodyBudget) reserve() *reservation { return &reservation{budget: b} }

// grow takes n bytes more, or refuses them.
func (r *reservation) grow(n int) error {
	used := r.budget.used.Add(int64(n))

	r.held += int64(n)
	if r.budget.most > 0 && used > r.budget.most {
		e := domain.Newf(domain.Unavailable, CodeBodyBudget, "too many request bodies are being read, retry in a moment")
		e.RetryAfter = 1

		return e
	}

	return nil
}

// release gives everything back.
func (r *reservation) release() {
	r.budget.used.Add(-r.held)
	r.held = 0
}

// reader takes what is read through it from the budget, as it comes: what a client
// only announces costs nothing.
func (r *reservation) reader(in io.Reader) io.Reader { return &reservedReader{in, r} }

type reservedReader struct {
	in io.Reader
	of *reservation
}

// Read implements io.Reader. Its error is a refusal once the budget is used up.
func (r *reservedReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if refused := r.of.grow(n); refused != nil {
		return 0, refused
	}

	return n, err
}
