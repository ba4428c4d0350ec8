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

// slowLedger holds a call that has ended, and answers when it is told to.
type slowLedger struct {
	activities.Ledger
	asked  atomic.Int32
	answer chan struct{}
}

func (l *slowLedger) ClaimCall(context.Context, string) (domain.LedgerCall, domain.LedgerState, error) {
	l.asked.Add(1)
	<-l.answer
	return domain.LedgerCall{}, domain.CallRecorded, nil
}

func (l *slowLedger) CallStatus(context.Context, string) (domain.ToolCallStatus, error) {
	return domain.CallDone, nil
}

type noStops struct{ activities.Stops }

func (noStops) WatchStop(string) (<-chan struct{}, func()) { return nil, func() {} }

// The turn that asks for a call begins it, and so does its run a moment later:
// each round to the ledger beside the first would be for nothing.
func TestOneCallIsClaimedOnceAtATime(t *testing.T) {
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
