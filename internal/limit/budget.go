package limit

import "golang.org/x/sync/semaphore"

// Budget bounds bytes that are in memory, of all requests together.
type Budget struct {
	room *semaphore.Weighted // nil: no bound
}

// NewBudget returns a new budget of so many bytes; 0: no bound.
func NewBudget(bytes int64) *Budget {
	if bytes == 0 {
		return &Budget{}
	}

	return &Budget{semaphore.NewWeighted(bytes)}
}

// Reserve returns a new reservation, without any bytes. It is for one goroutine.
func (b *Budget) Reserve() *Reservation { return &Reservation{room: b.room} }

// Reservation is the part of a budget that one request has.
type Reservation struct {
	room *semaphore.Weighted
	held int64
}

// Grow reserves n more bytes, or reports false when the budget is exhausted.
func (r *Reservation) Grow(n int) bool {
	if r.room == nil {
		return true
	}

	if !r.room.TryAcquire(int64(n)) {
		return false
	}

	r.held += int64(n)

	return true
}

// Release returns all bytes to the budget.
func (r *Reservation) Release() {
	if r.room != nil {
		r.room.Release(r.held)
		r.held = 0
	}
}
