package toolrun

import (
	"context"
	"errors"
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

	// leaseSure is how long a claim or renewal holds, from when it was sent.
	leaseSure = domain.CallLease - endBefore
)

// errLeaseLost ends a call whose lease could not be renewed.
var errLeaseLost = errors.New("the lease of the call could not be renewed")

// leaseLost is the result that the model reads of such a call.
const leaseLost = "[Ended: the service could not reach its database, by which it makes sure that no second worker runs the same call. " +
	"The call may have taken effect in part. Check the current state before you continue.]"

// watch ends a call that was stopped or taken over, and keeps its lease. A call
// whose lease could not be renewed is ended before the lease has ended, also while a
// renewal hangs: another worker may take it for abandoned soon after.
//
// Renewals do not wait for the disk. A crash of PostgreSQL may lose the newest one, so
// that the time of a call counts from the one before it, or from its claim. The first one
// that succeeds after others failed is soon followed by the next.
func (r *Runner) watch(ctx context.Context, call domain.LedgerCall, stopped <-chan struct{}, abort context.CancelCauseFunc) {
	held, pause := call.AskedAt, renewEvery

	expired := time.AfterFunc(leaseSure-time.Since(held), func() { abort(errLeaseLost) })
	defer expired.Stop()

	go func() {
		select {
		case <-stopped:
			abort(durable.ErrStopped)
		case <-ctx.Done():
		}
	}()

	renew := time.NewTimer(renewEvery - time.Since(held))
	defer renew.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
			asked := time.Now()

			err := r.renew(ctx, call)
			switch {
			case err == nil:
				expired.Reset(leaseSure - time.Since(held))
				renew.Reset(max(renewAgain, pause-time.Since(asked)))

				held, pause = asked, renewEvery
			case errors.Is(err, domain.ErrFenced):
				abort(domain.ErrFenced)
				return
			default:
				pause = renewAgain
				renew.Reset(renewAgain)
			}
		}
	}
}

func (r *Runner) renew(ctx context.Context, call domain.LedgerCall) error {
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()

	return r.Ledger.RenewCall(ctx, call.ID, call.Attempt)
}

// renewLate renews the lease of a call whose claim was answered late, before the call
// begins: the lease counts from when the claim was sent.
func (r *Runner) renewLate(ctx context.Context, call domain.LedgerCall) domain.LedgerCall {
	asked := time.Now()
	if asked.Sub(call.AskedAt) > renewEvery && r.renew(ctx, call) == nil {
		call.AskedAt = asked
	}

	return call
}
