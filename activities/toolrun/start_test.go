package toolrun

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
)

// slowLedger holds a call that has ended, and answers once the channel is closed.
type slowLedger struct {
	Ledger
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

// The turn that asks for a call starts it, and so does its run a moment later:
// each round to the ledger next to the first would be for nothing.
func TestRunner_Start_claimsCallOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{answer: make(chan struct{})}
		runner := newRunner(ledger, nil)

		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				call := runner.Start(t.Context(), one)
				<-call.Over()

				out, err := call.Result()
				require.NoError(t, err)
				require.Equal(t, domain.CallDone, out.Status)
			})
		}

		both.Go(func() {
			<-runner.Start(t.Context(), contract.RunToolIn{ChatID: "c", ToolCallID: "another"}).Over()
		})
		synctest.Wait()
		require.EqualValues(t, 2, ledger.asked.Load(), "once for each call")
		close(ledger.answer)
		both.Wait()
	})
}

// forgetfulLedger lacks every call, as a database does after a failover that lost commits.
type forgetfulLedger struct{ Ledger }

func (forgetfulLedger) ClaimCall(context.Context, string, string) (domain.LedgerCall, domain.LedgerState, error) {
	return domain.LedgerCall{}, 0, domain.Newf(domain.NotFound, domain.CodeCallNotFound, "tool call one does not exist")
}

func TestRunner_Start_callThatTheDatabaseLost(t *testing.T) {
	t.Parallel()

	call := newRunner(forgetfulLedger{}, nil).Start(t.Context(), one)
	<-call.Over()

	out, err := call.Result()
	require.NoError(t, err)
	require.Equal(t, contract.RunToolOut{Status: domain.CallCancelled}, out)
}

// lossyClaims claims calls, and loses the answer to the first claim of each.
type lossyClaims struct {
	leasedCalls
	nonces []string
}

func (l *lossyClaims) ClaimCall(ctx context.Context, id, nonce string) (domain.LedgerCall, domain.LedgerState, error) {
	l.nonces = append(l.nonces, nonce)
	if len(l.nonces) == 1 {
		return domain.LedgerCall{}, 0, errors.New("the connection was lost before the answer to the commit")
	}

	return l.leasedCalls.ClaimCall(ctx, id, nonce)
}

// A claim whose answer was lost is repeated with its nonce; the claim of a later call has
// another.
func TestRunner_Start_repeatsNonceOfLostClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := &lossyClaims{}
		runner, _ := leased(t, &ledger.leasedCalls)
		runner.Ledger = ledger
		ledger.recorded = make(chan domain.FinishedCall, 2)

		first := runner.Start(t.Context(), one)
		<-first.Over()

		_, err := first.Result()
		require.Error(t, err)

		<-runner.Start(t.Context(), one).Over()
		<-runner.Start(t.Context(), contract.RunToolIn{ChatID: "c", ToolCallID: "another"}).Over()
		require.Len(t, ledger.nonces, 3)
		require.Equal(t, ledger.nonces[0], ledger.nonces[1])
		require.NotEqual(t, ledger.nonces[1], ledger.nonces[2])
	})
}

// Calls that are claimed with the end of their turn are not claimed again, whether the
// statement claims them, leaves them or fails.
func TestRunner_StartClaimed(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		err           error
		claims        int32 // that the ledger is asked for besides
		first, second bool  // which calls this process has run
	}{
		"one of two": {first: true},
		"fenced":     {err: domain.ErrFenced},
		"lost":       {err: errors.New("the answer was lost"), claims: 2, first: true, second: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ledger := &leasedCalls{}
				runner, _ := leased(t, ledger)
				ledger.recorded = make(chan domain.FinishedCall, 2)
				two := contract.RunToolIn{ChatID: "c", ToolCallID: "two"}

				err := runner.StartClaimed(t.Context(), []contract.RunToolIn{one, two}, func(nonces []string) ([]domain.LedgerCall, error) {
					require.Len(t, nonces, 2)

					if c.err != nil {
						return nil, c.err
					}

					call, _, err := ledger.claimed(one.ToolCallID)

					return []domain.LedgerCall{call}, err
				})
				require.Equal(t, c.err, err)
				synctest.Wait()
				require.Equal(t, c.claims, ledger.claims.Load())

				ran := map[string]bool{}

				<-time.After(2 * time.Minute)
				synctest.Wait()
				close(ledger.recorded)

				for done := range ledger.recorded {
					ran[done.ID] = true
				}

				require.Equal(t, c.first, ran["one"])
				require.Equal(t, c.second, ran["two"])
			})
		})
	}
}
