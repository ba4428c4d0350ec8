// Package toolrun carries out the tool calls of chats, so that no effect happens twice.
// start.go has the one way in which a call starts, and says who decides that. The package
// depends neither on model calls nor on the shortcuts of activities/fastpath.
package toolrun

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/transcripts"
	"everloop/domain"
	"everloop/infra/events"
	"everloop/infra/metrics"
	"everloop/infra/objects"
	"everloop/infra/postgres/conversation"
	"everloop/infra/tracing"
	"everloop/internal/durable"
)

// Runner carries out tool calls on this worker.
type Runner struct {
	Ledger      Ledger
	Store       *conversation.Store
	Transcripts *transcripts.Cache
	Log         *events.Log
	Signals     *events.Signals // nil: no stop is received
	Tools       *tools.Registry
	Root        Root
	Profile     func(domain.Session) domain.Profile
	Env         func(context.Context, domain.Session) (map[string]string, error) // of commands
	Captures    Captures                                                         // nil: files are not captured
	Images      *objects.Store                                                   // keeps the images of results
	Metrics     *metrics.Worker
	Tracing     *tracing.Tracing // nil: calls have no spans
	Logger      *slog.Logger

	calls calls
}

// Ledger is the part of conversation.Store that claims and records calls. It is an interface
// for tests, which let single statements hang, fail and lose their answers.
type Ledger interface {
	ClaimCall(ctx context.Context, toolCallID, claimant string) (domain.LedgerCall, domain.LedgerState, error)
	RenewCall(ctx context.Context, toolCallID string, attempt int) error
	RecordCall(ctx context.Context, call domain.LedgerCall, done domain.FinishedCall) error
	CallStatus(ctx context.Context, toolCallID string) (domain.ToolCallStatus, error)
}

// Root returns the directory of a session's files on this machine.
type Root func(ctx context.Context, sessionID domain.SessionID, uid int) (string, error)

// heldPoll is how often a call that another worker runs is looked at.
const heldPoll = 200 * time.Millisecond

// Run carries out one call of the ledger, or waits for the worker that does. When the
// activity is cancelled, so is the call.
func (r *Runner) Run(ctx context.Context, in contract.RunToolIn) (contract.RunToolOut, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	for {
		call := r.Start(ctx, in)
		select {
		case <-call.over:
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if errors.Is(cause, durable.ErrAttemptLost) {
				return contract.RunToolOut{}, cause // the call continues, and another attempt joins it
			}

			call.abort(cause)
			<-call.over
		}

		if call.err != nil || !call.out.Pending {
			return call.out, call.err
		}

		select { // another worker has the call
		case <-time.After(heldPoll):
		case <-ctx.Done():
			return call.out, context.Cause(ctx)
		}
	}
}

// Drain ends the calls that still run when the worker has stopped, and waits until their
// outcomes are recorded, or ctx ends.
func (r *Runner) Drain(ctx context.Context) {
	left := r.calls.all()
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
}
