package work

import (
	"context"
	"log/slog"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/postgres/conversation"
	"everloop/infra/temporal"
	"everloop/internal/retry"
)

// Reconciler compares what the database says should run with what runs, and repairs
// the difference.
type Reconciler struct {
	store  *conversation.Store
	runs   temporal.Runs
	finish func(ctx context.Context, in contract.FinishChatIn) (contract.FinishChatOut, error)
	found  func(kind string)
	logger *slog.Logger

	stalledSessions walk[domain.SessionID]
	stops           walk[domain.OpenChat]
	running         walk[domain.OpenChat]
	subAgents       walk[domain.OpenSubAgent]

	wakes    *retry.Pauses // by session
	signals  *retry.Pauses // stop signals, by chat
	suspects *retry.Pauses // by run
	ends     *retry.Pauses // by chat
}

// ReconcilerConfig is what NewReconciler needs; all but Now is required.
type ReconcilerConfig struct {
	Chats *conversation.Store
	Runs  temporal.Runs
	// Finish ends a chat as its run would have.
	Finish func(ctx context.Context, in contract.FinishChatIn) (contract.FinishChatOut, error)
	Found  func(kind string) // counts a finding
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// How long something may take by itself before it is looked at.
const (
	wakeAge = 5 * time.Second
	runAge  = 10 * time.Second
)

// maxConcurrent is how many items of a list are worked on concurrently.
const maxConcurrent = 8

// NewReconciler returns the reconciler of the chats and sub-agents of a database.
func NewReconciler(cfg ReconcilerConfig) *Reconciler {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}

	r := &Reconciler{
		store: cfg.Chats, runs: cfg.Runs, finish: cfg.Finish, found: cfg.Found, logger: cfg.Logger,
		wakes: retry.NewPauses(cfg.Now), signals: retry.NewPauses(cfg.Now),
		suspects: retry.NewPauses(cfg.Now), ends: retry.NewPauses(cfg.Now),
	}
	r.stalledSessions = walk[domain.SessionID]{
		list: func(ctx context.Context, after string, limit int) ([]domain.SessionID, error) {
			return r.store.StalledSessions(ctx, wakeAge, after, limit)
		},
		key: func(id domain.SessionID) string { return string(id) },
	}
	chatID := func(chat domain.OpenChat) string { return string(chat.ChatID) }
	r.stops = walk[domain.OpenChat]{list: r.store.UndeliveredStops, key: chatID}
	r.running = walk[domain.OpenChat]{
		list: func(ctx context.Context, after string, limit int) ([]domain.OpenChat, error) {
			return r.store.RunningChats(ctx, runAge, after, limit)
		},
		key: chatID,
	}
	r.subAgents = walk[domain.OpenSubAgent]{
		list: func(ctx context.Context, after string, limit int) ([]domain.OpenSubAgent, error) {
			return r.store.IdleSubAgents(ctx, runAge, after, limit)
		},
		key: func(agent domain.OpenSubAgent) string { return string(agent.ChatID) + "/" + agent.LoopID },
	}

	return r
}

// WakeSessions wakes the sessions in which a message or an answer waits and no run
// takes it up. A session that still waits is woken again after a doubling pause; when
// its run is stuck, the run is terminated first and a new one continues from the
// database.
func (r *Reconciler) WakeSessions(ctx context.Context) error {
	return r.stalledSessions.each(ctx, maxConcurrent, func(ctx context.Context, sessionID domain.SessionID) error {
		tries, due := r.wakes.Try(string(sessionID))
		if !due {
			return nil
		}

		r.found("stalled")

		if tries > 1 {
			if err := r.terminateStuck(ctx, sessionID); err != nil {
				return err
			}
		}

		return r.wake(ctx, sessionID)
	})
}

// terminateStuck closes the session's run if it cannot continue.
func (r *Reconciler) terminateStuck(ctx context.Context, sessionID domain.SessionID) error {
	look, err := r.runs.LookAtSession(ctx, sessionID)
	if err != nil || look.State != domain.RunStuck || !confirmed(r.suspects, look) {
		return err
	}

	r.logger.Warn("terminating a stuck run between two chats", "session_id", sessionID, "run_id", look.RunID, "cause", look.Cause)
	r.found("stuck_run")

	return r.runs.TerminateRun(ctx, sessionID, look.RunID, "everloop: "+look.Cause)
}

// RepeatStops signals stops again that no run has received, after a doubling pause.
func (r *Reconciler) RepeatStops(ctx context.Context) error {
	return r.stops.each(ctx, maxConcurrent, func(ctx context.Context, chat domain.OpenChat) error {
		if _, due := r.signals.Try(string(chat.ChatID)); !due {
			return nil
		}

		return r.runs.Stop(ctx, chat.SessionID, chat.ChatID)
	})
}

// wake starts or signals the session's run; a deleted session needs none.
func (r *Reconciler) wake(ctx context.Context, sessionID domain.SessionID) error {
	run, err := r.store.SessionRun(ctx, "", sessionID)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return nil
	}

	if err != nil {
		return err
	}

	return r.runs.Wake(ctx, run)
}
