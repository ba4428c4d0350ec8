package activities_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities"
	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
)

// leasedCalls is a ledger of one call. Renewals hang while hang is open, whatever their
// context says.
type leasedCalls struct {
	activities.Ledger
	hang     chan struct{} // closed at the end; nil: renewals answer
	renewals atomic.Int32
	recorded chan domain.FinishedCall
}

func (l *leasedCalls) ClaimCall(_ context.Context, id, _ string) (domain.LedgerCall, domain.LedgerState, error) {
	call := domain.LedgerCall{ID: id, ToolName: "Bash", Arguments: `{"command":"sleep 600"}`, Attempt: 1, StartedAt: time.Now()}
	call.Mode = domain.ModeExecuting

	return call, domain.CallClaimed, nil
}

func (l *leasedCalls) RenewCall(context.Context, string, int) error {
	l.renewals.Add(1)

	if l.hang != nil {
		<-l.hang
	}

	return nil
}

func (l *leasedCalls) RecordCall(_ context.Context, _ domain.LedgerCall, done domain.FinishedCall) error {
	l.recorded <- done
	return nil
}

// sleepingShell runs every command for a minute, or until it is killed.
type sleepingShell struct{}

func (sleepingShell) Run(ctx context.Context, _ tools.Command) (tools.Exit, error) {
	select {
	case <-time.After(time.Minute):
		return tools.Exit{}, nil
	case <-ctx.Done():
		return tools.Exit{}, ctx.Err()
	}
}

// standIn is the ports that these tests do not look at.
type standIn struct{}

func (standIn) Root(context.Context, string, int) (string, error) { return "/", nil }
func (standIn) ToolEnv(context.Context, domain.Session) (map[string]string, error) {
	return nil, nil
}
func (standIn) Profile(domain.Session) domain.Profile    { return domain.Profile{} }
func (standIn) ChatEnded(string)                         {}
func (standIn) ModelCalled(string, time.Duration)        {}
func (standIn) ToolCalled(string, string, time.Duration) {}
func (standIn) Open(context.Context, tools.SessionView) (tools.Files, error) {
	return nil, domain.Unavailablef("no files", nil)
}

// countedTools counts the toolsets that are built.
type countedTools struct{ built atomic.Int32 }

func (c *countedTools) Tools(context.Context, tools.Scope) []tools.Tool {
	c.built.Add(1)
	return nil
}

// runLeased runs one call against the ledger and returns its record and how many
// toolsets it took.
func runLeased(t *testing.T, ledger *leasedCalls) (domain.FinishedCall, int) {
	t.Helper()

	registry, err := tools.New(tools.Deps{Sandbox: sleepingShell{}, Workspaces: standIn{}})
	require.NoError(t, err)

	counted := &countedTools{}
	registry.Provide(counted)

	ledger.recorded = make(chan domain.FinishedCall, 1)
	acts := &activities.Activities{
		Ledger: ledger, Stops: noStops{}, Tools: registry, Workspaces: standIn{}, Environment: standIn{}, Profiles: standIn{},
		Metrics: standIn{}, Logger: slog.New(slog.DiscardHandler),
	}
	out, err := acts.TryTool(t.Context(), contract.RunToolIn{ChatID: "c", ToolCallID: "one"})
	require.NoError(t, err)
	require.True(t, out.Pending)

	done := <-ledger.recorded

	synctest.Wait()

	return done, int(counted.built.Load())
}

func TestToolCall_endsBeforeItsLeaseWhenARenewalHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()

		ledger := &leasedCalls{hang: make(chan struct{})}
		defer close(ledger.hang)

		done, _ := runLeased(t, ledger)
		require.Equal(t, domain.CallCancelled, done.Status)
		require.Equal(t, 6*time.Second, time.Since(began), "a lease is 10 s")
		require.EqualValues(t, 1, ledger.renewals.Load())
	})
}

func TestToolCall_renewsItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := &leasedCalls{}
		done, toolsets := runLeased(t, ledger)
		require.Equal(t, domain.CallDone, done.Status)
		require.GreaterOrEqual(t, ledger.renewals.Load(), int32(19))
		require.Equal(t, 1, toolsets, "one toolset serves the call and the label of its metric")
	})
}
