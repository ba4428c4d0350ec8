package activities_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"everloop/activities"
	"everloop/activities/contract"
	"everloop/domain"
)

// slowLedger holds a call that has ended, and answers once the channel is closed.
type slowLedger struct {
	activities.Ledger
	asked  atomic.Int32
	answer chan struct{}
}

func (l *slowLedger) ClaimCall(context.Context, string, string) (domain.LedgerCall, domain.LedgerState, error) {
	l.asked.Add(1)
	<-l.answer

	return domain.LedgerCall{}, domain.CallRecorded, nil
}

func (l *slowLedger) CallStatus(context.Context, string) (domain.ToolCallStatus, error) {
	return domain.CallDone, nil
}

type noStops struct{ activities.Stops }

func (noStops) WatchStop(domain.ChatID) (<-chan struct{}, func()) { return nil, func() {} }

// The turn that asks for a call begins it, and so does its run a moment later:
// each round to the ledger beside the first would be for nothing.
func TestRunTool_claimsCallOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{answer: make(chan struct{})}
		acts := &activities.Activities{Ledger: ledger, Stops: noStops{}}

		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				out, err := acts.TryTool(t.Context(), contract.RunToolIn{ChatID: "c", ToolCallID: "one"})
				require.NoError(t, err)
				require.Equal(t, domain.CallDone, out.Status)
			})
		}

		both.Go(func() {
			_, err := acts.TryTool(t.Context(), contract.RunToolIn{ChatID: "c", ToolCallID: "another"})
			require.NoError(t, err)
		})
		synctest.Wait()
		require.EqualValues(t, 2, ledger.asked.Load(), "once for each call")
		close(ledger.answer)
		both.Wait()
	})
}

// refusingLedger refuses every call: its chat does not run.
type refusingLedger struct{ activities.Ledger }

func (refusingLedger) ClaimCall(context.Context, string, string) (domain.LedgerCall, domain.LedgerState, error) {
	return domain.LedgerCall{}, domain.CallStopped, nil
}

// A worker that stood still may run on in a run that it has lost: what the ledger
// refuses there must not end the chat, which another worker has carried on.
func TestTryTool_leavesAStopToRunTool(t *testing.T) {
	t.Parallel()

	acts := &activities.Activities{Ledger: refusingLedger{}, Stops: noStops{}}
	out, err := acts.TryTool(t.Context(), contract.RunToolIn{ChatID: "c", ToolCallID: "one"})
	require.NoError(t, err)
	require.True(t, out.Pending)
	require.False(t, out.Stopped)
}

// forgetfulLedger lacks every call, as a database does after a failover that lost commits.
type forgetfulLedger struct{ activities.Ledger }

func (forgetfulLedger) ClaimCall(context.Context, string, string) (domain.LedgerCall, domain.LedgerState, error) {
	return domain.LedgerCall{}, 0, domain.Newf(domain.NotFound, domain.CodeCallNotFound, "tool call one does not exist")
}

func TestTryTool_callThatTheDatabaseLost(t *testing.T) {
	t.Parallel()

	acts := &activities.Activities{Ledger: forgetfulLedger{}, Stops: noStops{}}
	out, err := acts.TryTool(t.Context(), contract.RunToolIn{ChatID: "c", ToolCallID: "one"})
	require.NoError(t, err)
	require.Equal(t, contract.RunToolOut{Status: domain.CallCancelled}, out)
}
