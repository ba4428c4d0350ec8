package toolrun

import (
	"context"
	"errors"
	"sync"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// This file decides who runs a tool call. Several activities ask for a call, on one worker
// or on several, and a call that acts must run at most once. Two things decide, in this order:
//
//   - Within the process: calls. The activity that asks first enters the call. All others
//     find it there and wait for its end.
//   - Between processes: the ledger. The process that entered the call claims it by one
//     conditional statement, before anything is executed. A claim has a nonce: when the answer
//     to the commit is lost, the next try uses the same nonce, and the ledger answers that this
//     process has the call and has not started it.
//
// Every call starts by start: enter, claim, run. A call that was claimed by a worker that died
// is abandoned: calls that act end with an unknown outcome, all others run again.

// Call is a tool call that this process runs, or asks the ledger for.
type Call struct {
	id      string
	ctx     context.Context
	abort   context.CancelCauseFunc
	stopped <-chan struct{}
	unwatch func()

	decided chan struct{} // closed when the claim is answered
	over    chan struct{} // closed when the call has ended here
	out     contract.RunToolOut
	err     error
}

// Decided is closed when the ledger has answered whether this process runs the call.
func (c *Call) Decided() <-chan struct{} { return c.decided }

// Over is closed when the call has ended, or another process has it. Result has the outcome.
func (c *Call) Over() <-chan struct{} { return c.over }

// Result returns the outcome of a call that has ended. Pending: another process has the call.
func (c *Call) Result() (contract.RunToolOut, error) { return c.out, c.err }

// calls are the calls of this process, and for a moment those that have ended. A call
// outlives the activity that started it, so that the next activity can wait for it.
type calls struct {
	mu     sync.Mutex
	byID   map[string]*Call
	nonces durable.Nonces[string] // of claims, by call
}

// Start returns the call in this process. It enters and starts the call unless it is there.
func (r *Runner) Start(ctx context.Context, in contract.RunToolIn) *Call {
	call, entered := r.enter(ctx, in)
	if entered {
		go func() {
			_ = r.start([]*Call{call}, func(nonces []string) ([]claim, error) {
				one, err := r.claimOne(call, nonces[0])
				return []claim{one}, err
			})
		}()
	}

	return call
}

// StartClaimed starts calls that commit claims together with a change of its caller, by a
// nonce for each. Calls that commit does not return start when they are asked for.
//
// The calls are entered before the commit, so that no other activity of this process claims
// them by the same nonce. If the answer to the commit may be lost, the calls start again.
func (r *Runner) StartClaimed(
	ctx context.Context, ins []contract.RunToolIn, commit func(nonces []string) ([]domain.LedgerCall, error),
) error {
	entered := make([]*Call, len(ins))
	for i, in := range ins {
		entered[i], _ = r.enter(ctx, in) // the ids are new
	}

	err := r.start(entered, func(nonces []string) ([]claim, error) {
		claims := make([]claim, len(entered))
		for i := range claims {
			claims[i].state = domain.CallHeld
		}

		claimed, err := commit(nonces)
		for _, call := range claimed {
			for i := range entered {
				if entered[i].id == call.ID {
					claims[i] = claim{call, domain.CallClaimed}
				}
			}
		}

		return claims, err
	})
	if err != nil && !errors.Is(err, domain.ErrFenced) {
		for _, in := range ins {
			r.Start(ctx, in)
		}
	}

	return err
}

// enter returns the call of this process, and whether it is new. The caller starts a new one.
func (r *Runner) enter(ctx context.Context, in contract.RunToolIn) (call *Call, entered bool) {
	c := &r.calls

	c.mu.Lock()
	defer c.mu.Unlock()

	if call = c.byID[in.ToolCallID]; call != nil {
		return call, false
	}

	if c.byID == nil {
		c.byID = map[string]*Call{}
	}

	call = &Call{id: in.ToolCallID, decided: make(chan struct{}), over: make(chan struct{})}
	call.ctx, call.abort = context.WithCancelCause(context.WithoutCancel(ctx))
	// Watch before the ledger reads the flag, so that no stop falls in between.
	call.stopped, call.unwatch = r.Signals.Watch(in.ChatID, in.TaskID)
	c.byID[in.ToolCallID] = call

	return call, true
}

// claim is the answer of the ledger.
type claim struct {
	call  domain.LedgerCall
	state domain.LedgerState
}

// start claims entered calls by one commit, and runs those that this process gets.
func (r *Runner) start(entered []*Call, commit func(nonces []string) ([]claim, error)) error {
	ids := make([]string, len(entered))
	for i, call := range entered {
		ids[i] = call.id
	}

	var claims []claim

	err := r.calls.nonces.Use(ids, func(nonces []string) (err error) {
		claims, err = commit(nonces)
		return err
	})
	for i, call := range entered {
		close(call.decided)

		switch {
		case err != nil:
			out, err := unanswered(err)
			r.calls.end(call, out, err, 0)
		case claims[i].state == domain.CallClaimed, claims[i].state == domain.CallAbandoned:
			go r.run(call, claims[i])
		default:
			out, err := r.elsewhere(call, claims[i].state)
			r.calls.end(call, out, err, 0)
		}
	}

	return err
}

// unanswered returns the outcome of a call whose claim failed.
func unanswered(err error) (contract.RunToolOut, error) {
	if domain.HasCode(err, domain.CodeCallNotFound) {
		// The database has lost the turn that asks for the call, in a failover or a restore. The
		// run continues with what there is: the model is asked again.
		return contract.RunToolOut{Status: domain.CallCancelled}, nil
	}

	return contract.RunToolOut{}, err
}

// elsewhere returns the outcome of a call that this process does not run.
func (r *Runner) elsewhere(call *Call, state domain.LedgerState) (contract.RunToolOut, error) {
	switch state {
	case domain.CallHeld:
		return contract.RunToolOut{Pending: true}, nil
	case domain.CallStopped:
		return contract.RunToolOut{Status: domain.CallCancelled, Stopped: true}, nil
	default:
		status, err := r.Ledger.CallStatus(context.WithoutCancel(call.ctx), call.id)
		return contract.RunToolOut{Status: status}, err
	}
}

// claimLimit bounds one claim. Activities that wait for it can come and go in the meantime.
const claimLimit = 10 * time.Second

// claimOne claims a call in the ledger, or finds that an earlier try of this process has
// claimed it and did not receive the answer.
func (r *Runner) claimOne(call *Call, nonce string) (claim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(call.ctx), claimLimit)
	defer cancel()

	asked := time.Now()
	got, state, err := r.Ledger.ClaimCall(ctx, call.id, nonce)
	got.AskedAt = asked

	return claim{got, state}, err
}

// run runs a claimed call to its recorded end. It does not depend on any activity.
func (r *Runner) run(call *Call, claimed claim) {
	lease := newLease(r.Ledger, claimed.call, call.abort)
	go lease.watch(call.ctx, call.stopped)

	out, err := r.carryOut(call.ctx, claimed, lease)

	keep := keepEnded
	if out.Pending || err != nil {
		keep = 0 // the ledger has more
	}

	r.calls.end(call, out, err, keep)
}

// keepEnded is how long the result of an ended call is kept for its run, which reads the
// ledger later.
const keepEnded = 10 * time.Second

// end ends a call in this process, and keeps its result for a while.
func (c *calls) end(call *Call, out contract.RunToolOut, err error, keep time.Duration) {
	call.abort(nil)
	call.unwatch()
	call.out, call.err = out, err

	forget := func() {
		c.mu.Lock()
		defer c.mu.Unlock()

		if c.byID[call.id] == call {
			delete(c.byID, call.id)
		}
	}
	if keep == 0 {
		forget()
	} else {
		time.AfterFunc(keep, forget)
	}

	close(call.over)
}

// all returns the calls of this process.
func (c *calls) all() []*Call {
	c.mu.Lock()
	defer c.mu.Unlock()

	all := make([]*Call, 0, len(c.byID))
	for _, call := range c.byID {
		all = append(all, call)
	}

	return all
}
