package fastpath

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/activities/toolrun"
	"everloop/domain"
)

// refusingLedger refuses every call: its chat does not run.
type refusingLedger struct{ toolrun.Ledger }

func (refusingLedger) ClaimCall(context.Context, string, string) (domain.LedgerCall, domain.LedgerState, error) {
	return domain.LedgerCall{}, domain.CallStopped, nil
}

// A worker that stood still can run on in a run that it has lost: a call that the ledger
// refuses there must not end the chat, which another worker has continued.
func TestPaths_TryTool_leavesStopToRunTool(t *testing.T) {
	t.Parallel()

	paths := &Paths{Tools: &toolrun.Runner{Ledger: refusingLedger{}}}
	out, err := paths.TryTool(t.Context(), contract.RunToolIn{ChatID: "c", ToolCallID: "one"})
	require.NoError(t, err)
	require.True(t, out.Pending)
	require.False(t, out.Stopped)
}

func TestEarlyCalls(t *testing.T) {
	t.Parallel()

	calls := []domain.PlannedCall{
		{ID: "settled", Settled: &domain.Settlement{}},
		{ID: "question", Questions: []byte("[]")},
		{ID: "first"},
		{ID: "sub-agent", Fork: &domain.NewFork{}},
		{ID: "guarded", Guarded: true},
		{ID: "second"},
		{ID: "third"},
	}
	require.Equal(t, []int{2, 5}, earlyCalls(calls, 2))
	require.Equal(t, []int{2, 5, 6}, earlyCalls(calls, 32))
}
