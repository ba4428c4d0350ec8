package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/service/maintenance"
)

// world is a database and a Temporal server in memory.
type world struct {
	mu              sync.Mutex
	now             time.Time
	stalledSessions []domain.SessionID
	running         []domain.OpenChat
	subAgents       []domain.OpenSubAgent
	look            domain.RunLook
	restart         domain.Restart
	refused         map[string]bool // sessions that cannot be woken
	unended         bool            // the ordinary end fails

	woken            map[domain.SessionID]int
	stopped          map[domain.ChatID]int
	terminated       map[string]int
	ended, abandoned []string
	found            map[string]int
}

func newWorld() *world {
	return &world{
		now:        time.Now(),
		refused:    map[string]bool{},
		woken:      map[domain.SessionID]int{},
		stopped:    map[domain.ChatID]int{},
		terminated: map[string]int{},
		found:      map[string]int{},
	}
}

func (w *world) SessionRun(_ context.Context, _ string, id domain.SessionID) (domain.SessionRun, error) {
	return domain.SessionRun{SessionID: id}, nil
}

func page[T any](list []T, key func(T) string, after string, limit int) (found []T) {
	for _, item := range list {
		if key(item) > after && len(found) < limit {
			found = append(found, item)
		}
	}

	return found
}

func (w *world) StalledSessions(_ context.Context, _ time.Duration, after string, limit int) ([]domain.SessionID, error) {
	return page(w.stalledSessions, func(id domain.SessionID) string { return string(id) }, after, limit), nil
}

func (w *world) UndeliveredStops(_ context.Context, after string, limit int) ([]domain.OpenChat, error) {
	return page(w.running, func(c domain.OpenChat) string { return string(c.ChatID) }, after, limit), nil
}

func (w *world) RunningChats(_ context.Context, _ time.Duration, after string, limit int) ([]domain.OpenChat, error) {
	return page(w.running, func(c domain.OpenChat) string { return string(c.ChatID) }, after, limit), nil
}

func (w *world) IdleSubAgents(_ context.Context, _ time.Duration, after string, limit int) ([]domain.OpenSubAgent, error) {
	return page(w.subAgents, func(a domain.OpenSubAgent) string { return string(a.ChatID) + "/" + a.LoopID }, after, limit), nil
}

func (w *world) CountRestart(context.Context, domain.ChatID, string) (domain.Restart, error) {
	return w.restart, nil
}

func (w *world) AbandonChat(_ context.Context, chatID domain.ChatID, code, _ string) (bool, error) {
	w.abandoned = append(w.abandoned, string(chatID)+" "+code)
	return false, nil
}

func (w *world) Wake(_ context.Context, s domain.SessionRun) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.woken[s.SessionID]++
	if w.refused[string(s.SessionID)] {
		return errors.New("refused")
	}

	return nil
}

func (w *world) Stop(_ context.Context, _ domain.SessionID, chatID domain.ChatID) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.stopped[chatID]++

	return nil
}

func (w *world) LookAtSession(context.Context, domain.SessionID) (domain.RunLook, error) {
	return w.look, nil
}

func (w *world) LookAtSubAgent(_ context.Context, a domain.OpenSubAgent) (domain.RunLook, error) {
	look := w.look
	look.RunID = "of " + a.LoopID

	if w.refused[a.LoopID] {
		return look, errors.New("refused")
	}

	return look, nil
}

func (w *world) TerminateSubAgent(ctx context.Context, a domain.OpenSubAgent, runID, reason string) error {
	return w.TerminateRun(ctx, a.SessionID, runID, reason)
}

func (w *world) TerminateRun(_ context.Context, _ domain.SessionID, runID, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.terminated[runID]++

	return nil
}

func (w *world) FinishChat(_ context.Context, in contract.FinishChatIn) (contract.FinishChatOut, error) {
	if w.unended {
		return contract.FinishChatOut{}, errors.New("invalid character after top-level value")
	}

	w.ended = append(w.ended, string(in.ChatID)+" "+in.Code)

	return contract.FinishChatOut{}, nil
}

func (w *world) reconciler(t *testing.T) *maintenance.Reconciler {
	t.Helper()

	r, err := maintenance.NewReconciler(maintenance.ReconcilerConfig{
		Store: w, Runs: w, Chats: w, Logger: slog.New(slog.DiscardHandler),
		Found: func(kind string) { w.mu.Lock(); defer w.mu.Unlock(); w.found[kind]++ },
		Now:   func() time.Time { return w.now },
	})
	require.NoError(t, err)

	return r
}

// pass lets a time go by in seconds, with something done in each.
func (w *world) pass(seconds int, do func() error) (last error) {
	for range seconds {
		last = do()
		w.now = w.now.Add(time.Second)
	}

	return last
}

func TestReconciler_WakeSessions_goesOnAndDoublesItsPauses(t *testing.T) {
	t.Parallel()

	w := newWorld()
	for i := range 500 {
		w.stalledSessions = append(w.stalledSessions, domain.SessionID(fmt.Sprintf("s%03d", i)))
	}

	w.refused["s000"] = true
	r := w.reconciler(t)
	require.Error(t, r.WakeSessions(t.Context()))
	require.Len(t, w.woken, 500, "a session that cannot be woken keeps no other from it")
	require.NoError(t, w.pass(3*3600, func() error { _ = r.WakeSessions(t.Context()); return nil }))
	require.LessOrEqual(t, w.woken["s499"], 50, "a run that does not react is not signalled each second")
	require.Empty(t, w.terminated)
}

func TestReconciler_WakeSessions_terminatesAStuckRun(t *testing.T) {
	t.Parallel()

	w := newWorld()
	w.stalledSessions, w.look = []domain.SessionID{
		"s",
	}, domain.RunLook{
		State: domain.RunStuck,
		RunID: "r",
		Cause: "its workflow task keeps failing",
	}
	r := w.reconciler(t)
	require.NoError(t, r.WakeSessions(t.Context()))
	require.Empty(t, w.terminated)
	require.NoError(t, w.pass(20, func() error { return r.WakeSessions(t.Context()) }))
	require.NotZero(t, w.terminated["r"])
	require.NotZero(t, w.found["stuck_run"])
}

func TestReconciler_CheckSubAgents(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		state      domain.RunState
		terminated bool
	}{
		"open":    {state: domain.RunOpen},
		"closed":  {state: domain.RunClosed},
		"unknown": {state: domain.RunUnknown},
		"stuck":   {state: domain.RunStuck, terminated: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newWorld()
			for i := range 500 {
				w.subAgents = append(w.subAgents, domain.OpenSubAgent{ChatID: "c", LoopID: fmt.Sprintf("l%03d", i)})
			}

			w.look.State, w.refused["l000"] = tc.state, true

			r := w.reconciler(t)
			require.Error(t, r.CheckSubAgents(t.Context()))
			require.Empty(t, w.terminated, "what has caused it may pass by itself")

			w.now = w.now.Add(10 * time.Second)

			require.Error(t, r.CheckSubAgents(t.Context()))
			require.Equal(t, tc.terminated, w.terminated["of l499"] == 1, "one that cannot be looked at keeps no other from it")
			require.Equal(t, tc.terminated, w.found["stuck_sub_agent"] == 499)
		})
	}
}

func TestReconciler_RepeatStops_doublesItsPauses(t *testing.T) {
	t.Parallel()

	w := newWorld()
	w.running = []domain.OpenChat{{ChatID: "c", SessionID: "s"}}
	r := w.reconciler(t)
	require.NoError(t, w.pass(3600, func() error { return r.RepeatStops(t.Context()) }))
	require.LessOrEqual(t, w.stopped["c"], 25)
}

func TestReconciler_CheckRuns(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		look       domain.RunLook
		restart    domain.Restart
		unended    bool
		woken      bool
		terminated bool
		ended      []string
		abandoned  []string
	}{
		"open":    {look: domain.RunLook{State: domain.RunOpen}},
		"unknown": {look: domain.RunLook{State: domain.RunUnknown}, woken: true},
		"closed": {
			look:    domain.RunLook{State: domain.RunClosed},
			restart: domain.Restart{Running: true, Counted: true, Count: 1}, woken: true,
		},
		"ended meanwhile": {look: domain.RunLook{State: domain.RunClosed}},
		"stuck": {
			look:    domain.RunLook{State: domain.RunStuck, RunID: "r"},
			restart: domain.Restart{Running: true, Counted: true, Count: 3}, woken: true, terminated: true,
		},
		"too often": {
			look:    domain.RunLook{State: domain.RunClosed},
			restart: domain.Restart{Running: true, Counted: true, Count: 4}, ended: []string{"c run_lost"},
		},
		"by administrators": {
			look:    domain.RunLook{State: domain.RunClosed},
			restart: domain.Restart{Running: true, Count: 1, ForceFailed: "enough"}, ended: []string{"c run_lost"},
		},
		"end keeps failing": {
			look:       domain.RunLook{State: domain.RunStuck, RunID: "r", Finishing: true},
			restart:    domain.Restart{Running: true, Counted: true, Count: 1},
			terminated: true, unended: true, abandoned: []string{"c internal_error"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newWorld()
			w.running, w.look, w.restart, w.unended = []domain.OpenChat{{ChatID: "c", SessionID: "s"}}, tc.look, tc.restart, tc.unended

			r := w.reconciler(t)
			for range 60 {
				_ = r.CheckRuns(t.Context())

				w.now = w.now.Add(10 * time.Second)
				if len(w.ended)+len(w.abandoned) > 0 {
					break
				}
			}

			require.Equal(t, tc.woken, w.woken["s"] > 0)
			require.Equal(t, tc.terminated, w.terminated["r"] > 0)
			require.Equal(t, tc.ended, w.ended)
			require.Equal(t, tc.abandoned, w.abandoned)
		})
	}
}
