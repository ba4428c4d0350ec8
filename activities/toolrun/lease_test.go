package toolrun

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/activities/tools/builtin"
	"everloop/activities/transcripts"
	"everloop/domain"
	"everloop/infra/metrics"
)

// leasedCalls is a ledger of one call.
type leasedCalls struct {
	Ledger
	tool     string                          // of the call; empty: Bash
	late     time.Duration                   // the claim is answered so much later
	renew    func(ctx context.Context) error // nil: renewals succeed
	record   func(ctx context.Context) error // nil: records succeed
	claims   atomic.Int32
	renewals atomic.Int32
	recorded chan domain.FinishedCall
}

func (l *leasedCalls) ClaimCall(_ context.Context, id, _ string) (domain.LedgerCall, domain.LedgerState, error) {
	l.claims.Add(1)
	<-time.After(l.late)

	return l.claimed(id)
}

// claimed returns a call as the ledger does that has claimed it.
func (l *leasedCalls) claimed(id string) (domain.LedgerCall, domain.LedgerState, error) {
	call := domain.LedgerCall{
		ID:        id,
		ToolName:  "Bash",
		Arguments: `{"command":"sleep 600"}`,
		Attempt:   1,
		StartedAt: time.Now(),
		AskedAt:   time.Now(),
	}
	if l.tool != "" {
		call.ToolName, call.Arguments = l.tool, `{}`
	}

	call.Mode = domain.ModeExecuting

	return call, domain.CallClaimed, nil
}

func (l *leasedCalls) RenewCall(ctx context.Context, _ string, _ int) error {
	l.renewals.Add(1)

	if l.renew != nil {
		return l.renew(ctx)
	}

	return nil
}

func (l *leasedCalls) RecordCall(ctx context.Context, _ domain.LedgerCall, done domain.FinishedCall) error {
	if l.record != nil {
		if err := l.record(ctx); err != nil {
			return err
		}
	}

	l.recorded <- done
	return nil
}

// away makes renewals hang in a time from now, or refuses them.
func away(from, until time.Duration, refuses bool) func(ctx context.Context) error {
	began := time.Now()

	return func(ctx context.Context) error {
		since := time.Since(began)
		switch {
		case since < from || since >= until:
			return nil
		case refuses:
			return domain.Unavailablef("the database", nil)
		}

		select {
		case <-time.After(until - since):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
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

// noFiles opens no workspace.
type noFiles struct{}

func (noFiles) Open(context.Context, tools.SessionView) (tools.Files, error) {
	return nil, domain.Unavailablef("no files", nil)
}

// newRunner returns a runner whose files and environment no test reads.
func newRunner(ledger Ledger, registry *tools.Registry) *Runner {
	return &Runner{
		Ledger: ledger, Transcripts: &transcripts.Cache{}, Tools: registry,
		Root:    func(context.Context, domain.SessionID, int) (string, error) { return "/", nil },
		Profile: func(domain.Session) domain.Profile { return domain.Profile{} },
		Env:     func(context.Context, domain.Session) (map[string]string, error) { return nil, nil },
		Metrics: metrics.NewWorker(metrics.New()), Logger: slog.New(slog.DiscardHandler),
	}
}

// one is the call of these tests.
var one = contract.RunToolIn{ChatID: "c", ToolCallID: "one"}

// countedTools counts the toolsets that are built. They have a tool that changes nothing.
type countedTools struct{ built atomic.Int32 }

func (c *countedTools) Tools(context.Context, tools.Scope) []tools.Tool {
	c.built.Add(1)

	return []tools.Tool{{
		Name: "Look", Executing: true, Spec: domain.ToolSpec{Name: "Look", Parameters: json.RawMessage(`{"type":"object"}`)},
		Run: func(ctx context.Context, _ *tools.Call) (tools.Result, error) {
			<-ctx.Done()
			return tools.Result{}, ctx.Err()
		},
	}}
}

// leased returns a runner of one call against the ledger.
func leased(t *testing.T, ledger *leasedCalls) (*Runner, *countedTools) {
	t.Helper()

	registry, err := builtin.New(tools.Deps{Sandbox: sleepingShell{}, Workspaces: noFiles{}})
	require.NoError(t, err)

	counted := &countedTools{}
	registry.Provide(counted)

	ledger.recorded = make(chan domain.FinishedCall, 1)

	return newRunner(ledger, registry), counted
}

// runLeased runs one call against the ledger and returns its record and how many
// toolsets it took.
func runLeased(t *testing.T, ledger *leasedCalls) (domain.FinishedCall, int) {
	t.Helper()

	runner, counted := leased(t, ledger)
	runner.Start(t.Context(), one)

	done := <-ledger.recorded

	synctest.Wait()

	return done, int(counted.built.Load())
}

// Whenever it starts, a short outage of PostgreSQL ends no call that is running.
func TestToolCall_outlivesAnOutageOfTheDatabase(t *testing.T) {
	t.Parallel()

	for name, outage := range map[string]struct {
		lasts   time.Duration
		refuses bool
	}{
		"stands still": {lasts: 5 * time.Second},
		"refuses":      {lasts: 6 * time.Second, refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for begins := 10 * time.Second; begins < 13*time.Second; begins += 125 * time.Millisecond {
				synctest.Test(t, func(t *testing.T) {
					ledger := &leasedCalls{renew: away(begins, begins+outage.lasts, outage.refuses)}
					done, _ := runLeased(t, ledger)
					require.Equal(t, domain.CallDone, done.Status, "it began after %s", begins)
				})
			}
		})
	}
}

// A call ends before the lease that its newest renewal but one gave it, or its claim: a
// crash of PostgreSQL may lose the newest one.
func TestToolCall_endsBeforeItsLease(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		late    time.Duration // the claim is answered so much later
		from    time.Duration // no renewal succeeds any more
		refuses bool
		counts  time.Duration // when that was sent from which the lease counts
	}{
		"never renewed":  {},
		"always refused": {refuses: true},
		"claimed late":   {late: 7 * time.Second},
		"stands still":   {from: 10 * time.Second, counts: 6 * time.Second},
		"refuses":        {from: 10 * time.Second, refuses: true, counts: 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()

				done, _ := runLeased(t, &leasedCalls{late: tc.late, renew: away(tc.from, time.Hour, tc.refuses)})
				require.Equal(t, domain.CallLease-2*time.Second, time.Since(began)-tc.counts)
				requireLeaseLost(t, done)
			})
		})
	}
}

func requireLeaseLost(t *testing.T, done domain.FinishedCall) {
	t.Helper()
	require.Equal(t, domain.CallError, done.Status)
	require.Equal(t, domain.PhaseFinished, done.Phase)
	require.Contains(t, done.Result, "could not reach its database")
	require.Contains(t, done.Result, "may have taken effect in part")
}

// A renewal may hang whatever its context says.
func TestToolCall_endsBeforeItsLeaseWhenARenewalHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()

		over := make(chan struct{})
		defer close(over)

		ledger := &leasedCalls{renew: func(context.Context) error { <-over; return nil }}
		done, _ := runLeased(t, ledger)
		requireLeaseLost(t, done)
		require.Less(t, time.Since(began), domain.CallLease)
		require.EqualValues(t, 1, ledger.renewals.Load())
	})
}

// The claim of a call may be answered when its lease is nearly over.
func TestToolCall_renewsALateClaimAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := &leasedCalls{late: 9 * time.Second}
		ledger.renew = away(10*time.Second, 20*time.Second, true)
		done, _ := runLeased(t, ledger)
		require.Equal(t, domain.CallDone, done.Status)
	})
}

// An outage that outlasts the lease ends no call whose tool has not started.
func TestToolCall_startsAfterAnOutageBeforeItsTool(t *testing.T) {
	t.Parallel()

	const outage = time.Minute

	for name, tc := range map[string]struct {
		late    time.Duration
		refuses bool
	}{
		"claim answered late":     {late: outage},
		"environment hangs":       {},
		"environment unavailable": {refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ledger := &leasedCalls{late: tc.late, renew: away(0, outage+3*time.Second, false)}
				runner, _ := leased(t, ledger)

				environment := away(0, outage, tc.refuses)
				runner.Env = func(context.Context, domain.Session) (map[string]string, error) {
					return nil, environment(context.Background())
				}

				runner.Start(t.Context(), one)

				done := <-ledger.recorded
				require.Equal(t, domain.CallDone, done.Status, done.Result)
				synctest.Wait()
			})
		})
	}
}

// A call whose tool has ended keeps its lease until its result is recorded, so that no other
// worker takes it over as soon as the database is back.
func TestToolCall_renewsUntilItsResultIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ends, back = time.Minute, 2 * time.Minute // the tool, the database

		began := time.Now()
		outage := away(ends-time.Second, back, true)
		renewed := make(chan time.Duration, 100)
		ledger := &leasedCalls{record: away(0, back+5*time.Second, true), renew: func(ctx context.Context) error {
			err := outage(ctx)
			if err == nil {
				renewed <- time.Since(began)
			}

			return err
		}}
		done, _ := runLeased(t, ledger)
		require.Equal(t, domain.CallDone, done.Status)
		close(renewed)

		var late []time.Duration
		for at := range renewed {
			if at >= back {
				late = append(late, at)
			}
		}

		require.NotEmpty(t, late)
		require.LessOrEqual(t, late[0], back+2*time.Second)
	})
}

// Soon after an outage a call may go through the next one.
func TestToolCall_renewsSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, next := away(10*time.Second, 16*time.Second, true), away(18*time.Second, 24*time.Second, true)
		ledger := &leasedCalls{renew: func(ctx context.Context) error { return errors.Join(first(ctx), next(ctx)) }}
		done, _ := runLeased(t, ledger)
		require.Equal(t, domain.CallDone, done.Status)
	})
}

// A call that changes nothing is run again by RunTool, and leaves no record.
func TestToolCall_readsAgainAfterItsLeaseWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ledger := &leasedCalls{tool: "Look", renew: away(0, time.Hour, true)}
		runner, _ := leased(t, ledger)

		for range 2 {
			call := runner.Start(t.Context(), one)
			<-time.After(domain.CallLease)
			<-call.Over()
			out, err := call.Result()
			require.NoError(t, err)
			require.True(t, out.Pending, "it is run again")
			synctest.Wait()
			require.Empty(t, ledger.recorded)
		}

		require.EqualValues(t, 2, ledger.claims.Load(), "the first one is over")
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
