package activities

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"everloop/activities/contract"
	"everloop/internal/durable"
)

// toolHost holds the tool calls that run in this process, and for a moment those
// that have ended. A call outlives the step that began it, so that a later step
// can wait for it.
type toolHost struct {
	mu    sync.Mutex
	calls map[string]*hostedCall

	beginning singleflight.Group     // of calls that the ledger is being asked for
	claims    durable.Nonces[string] // by call
}

// hostedCall is one running call. Out and err may be read once over is closed.
type hostedCall struct {
	abort context.CancelCauseFunc
	over  chan struct{}
	out   contract.RunToolOut
	err   error
}

func (h *toolHost) find(id string) *hostedCall {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.calls[id]
}

// reservedCall is a call that is reserved on this worker, with what ends it.
type reservedCall struct {
	call    *hostedCall
	ctx     context.Context
	stopped <-chan struct{}
	unwatch func()
}

// reserve adds a call before it runs. Activities that ask for the call wait for its end.
func (h *toolHost) reserve(ctx context.Context, id string, stopped <-chan struct{}, unwatch func()) reservedCall {
	ctx, abort := context.WithCancelCause(ctx)

	h.mu.Lock()
	defer h.mu.Unlock()

	if h.calls == nil {
		h.calls = map[string]*hostedCall{}
	}

	call := &hostedCall{abort: abort, over: make(chan struct{})}
	h.calls[id] = call

	return reservedCall{call, ctx, stopped, unwatch}
}

// release undoes reserve: the call was not claimed here, as far as is known.
func (h *toolHost) release(id string, r reservedCall) {
	r.unwatch()
	r.call.abort(nil)
	h.ended(id, r.call, contract.RunToolOut{Pending: true}, nil)
}

// keepEnded is how long the result of an ended call is kept for its run, which reads the
// ledger later.
const keepEnded = 10 * time.Second

func (h *toolHost) ended(id string, call *hostedCall, out contract.RunToolOut, err error) {
	call.out, call.err = out, err

	keep := keepEnded
	if out.Pending || err != nil {
		keep = 0 // the ledger knows more
	}

	forget := func() {
		h.mu.Lock()
		defer h.mu.Unlock()

		if h.calls[id] == call {
			delete(h.calls, id)
		}
	}
	if keep == 0 {
		forget()
	} else {
		time.AfterFunc(keep, forget)
	}

	close(call.over)
}

// Drain ends the calls that still run when the worker has stopped, and waits
// until their outcomes are recorded.
func (a *Activities) Drain(ctx context.Context) {
	a.host.mu.Lock()

	left := make([]*hostedCall, 0, len(a.host.calls))
	for _, call := range a.host.calls {
		left = append(left, call)
	}
	a.host.mu.Unlock()

	for _, call := range left {
		call.abort(durable.ErrDraining)
	}

	for _, call := range left {
		select {
		case <-call.over:
		case <-ctx.Done():
			return
		}
	}

	a.shared.wait(ctx)
}
