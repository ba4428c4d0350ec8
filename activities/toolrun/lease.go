package toolrun

import (
	"context"
	"errors"
	"sync"
	"time"

	"everloop/domain"
	"everloop/internal/durable"
)

// The times of a lease. A call is ended so long before its lease that what it runs is
// dead when another worker may take it over.
const (
	renewEvery = 3 * time.Second // between two renewals
	renewAgain = time.Second     // after one that failed; by then one that succeeded is on the disk of PostgreSQL
	renewLimit = 3 * time.Second // for one renewal
	endBefore  = 2 * time.Second // the end of its lease

	// beginBefore is the least time before the end of its lease at which a call begins.
	beginBefore = 5 * time.Second

	// leaseSure is how long a claim or renewal holds, from when it was sent.
	leaseSure = domain.CallLease - endBefore
)

// errLeaseLost ends a call whose lease could not be renewed.
var errLeaseLost = errors.New("the lease of the call could not be renewed")

// leaseLost is the result that the model reads of such a call.
const leaseLost = "[Ended: the service could not reach its database, by which it makes sure that no second worker runs the same call. " +
	"The call may have taken effect in part. Check the current state before you continue.]"

// lease keeps a claimed call for this process.
type lease struct {
	ledger Ledger
	call   domain.LedgerCall
	abort  context.CancelCauseFunc // of the call

	mu      sync.Mutex
	sure    time.Time     // when the newest renewal but one was sent, or the claim
	newest  time.Time     // when the newest renewal was sent, or the claim
	expired *time.Timer   // ends the call; nil until it begins
	renewed chan struct{} // closed by the next renewal
}

func newLease(ledger Ledger, call domain.LedgerCall, abort context.CancelCauseFunc) *lease {
	return &lease{
		ledger: ledger, call: call, abort: abort, sure: call.AskedAt, newest: call.AskedAt, renewed: make(chan struct{}),
	}
}

// begin waits until the lease is certain to last for a while, and has the call ended from then
// on before its lease ends. The steps before a tool starts need the database too, and an outage
// can outlast the lease during them: such a call has had no effect, so it continues afterwards.
func (l *lease) begin(ctx context.Context) error {
	for {
		l.mu.Lock()

		if left := leaseSure - time.Since(l.sure); left >= beginBefore {
			l.expired = time.AfterFunc(left, func() { l.abort(errLeaseLost) })
			l.mu.Unlock()

			return nil
		}

		renewed := l.renewed
		l.mu.Unlock()

		select {
		case <-renewed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// held records a renewal that was sent at the given time.
func (l *lease) held(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.sure, l.newest = l.newest, asked
	if l.expired != nil {
		l.expired.Reset(leaseSure - time.Since(l.sure))
	}

	close(l.renewed)
	l.renewed = make(chan struct{})
}

// ended notes that the tool has ended: the lease is still renewed until the result is recorded,
// but a call without an effect to come is not ended for it.
func (l *lease) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.expired != nil {
		l.expired.Stop()
		l.expired = nil
	}
}

// watch ends a call that was stopped or taken over, and renews its lease until ctx ends.
// A call whose tool has started and whose lease could not be renewed is ended before the lease
// ends, also while a renewal hangs: another worker can claim it as abandoned soon after.
//
// Renewals do not wait for the disk. A crash of PostgreSQL may lose the newest one, so
// that the time of a call counts from the one before it, or from its claim. The first one
// that succeeds after others failed is soon followed by the next.
func (l *lease) watch(ctx context.Context, stopped <-chan struct{}) {
	defer l.ended()

	go func() {
		select {
		case <-stopped:
			l.abort(durable.ErrStopped)
		case <-ctx.Done():
		}
	}()

	pause := renewEvery

	renew := time.NewTimer(renewEvery - time.Since(l.call.AskedAt))
	defer renew.Stop()

	if time.Since(l.call.AskedAt) > renewEvery {
		pause = renewAgain
	}

	for {
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
			asked := time.Now()

			err := l.renew(ctx)
			switch {
			case err == nil:
				l.held(asked)
				renew.Reset(max(renewAgain, pause-time.Since(asked)))

				pause = renewEvery
			case errors.Is(err, domain.ErrFenced):
				l.abort(domain.ErrFenced)
				return
			default:
				pause = renewAgain
				renew.Reset(renewAgain)
			}
		}
	}
}

func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()

	return l.ledger.RenewCall(ctx, l.call.ID, l.call.Attempt)
}
