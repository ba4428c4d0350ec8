package activities

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"everloop/activities/contract"
)

// toolHost holds the tool calls that run in this process, and for a moment those
// that have ended. A call outlives the step that began it, so that a later step
// can wait for it.
type toolHost struct {
	mu    sync.Mutex
	calls map[string]*hostedCall

	beginning singleflight.Group // of calls that the ledger is being asked for
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

func (h *toolHost) add(id string, abort context.CancelCauseFunc) *hostedCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = map[string]*hostedCall{}
	}
	call := &hostedCall{abort: abort, over: make(chan struct{})}
	h.calls[id] = call
	return call
}

// keepEnded is how long the answer of an ended call is kept for its run, which
// otherwise asks the ledger.
const keepEnded = 10 * time.Second

func (h *toolHost) ended(id string, call *hostedCall, out contract.RunToolOut, err error) {
	call.out, call.err = out, err
	close(call.over)
	time.AfterFunc(keepEnded, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.calls[id] == call {
			delete(h.calls, id)
		}
	})
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
		call.abort(errDraining)
	}
	for _, call := range left {
		select {
		case <-call.over:
		case <-ctx.Done():
			return
		}
	}
}
