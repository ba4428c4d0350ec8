package inbox

import (
	"context"
	"log/slog"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
)

// Janitor makes good what a crash between a commit and the step after it left
// undone. In a healthy service it finds nothing: each finding is counted.
type Janitor struct {
	Records  JanitorRecords
	Journal  Journal
	Runs     JanitorRuns
	Finisher Finisher
	Purger   *Purger
	Tasks    TaskSweeper
	Compact  *Compactions
	Keys     KeyPruner
	Found    func(kind string) // counts a finding, by kind
	Logger   *slog.Logger
}

// JanitorRecords tell what should be running.
type JanitorRecords interface {
	SessionRun(ctx context.Context, ownerID, sessionID string) (domain.SessionRun, error)
	Asleep(ctx context.Context, age time.Duration) ([]string, error)
	UnheardStops(ctx context.Context) ([]domain.OpenChat, error)
	RunningChats(ctx context.Context, age time.Duration) ([]domain.OpenChat, error)
}

// Journal publishes events that were committed and not published.
type Journal interface {
	Sweep(ctx context.Context, age time.Duration) (published int, err error)
}

// JanitorRuns tell what is running.
type JanitorRuns interface {
	Runs
	Describe(ctx context.Context, workflowID, runID string) (domain.RunState, string, error)
	Terminate(ctx context.Context, workflowID, runID, reason string) error
}

// TaskSweeper starts and ends background tasks that a crash left behind.
type TaskSweeper interface {
	Sweep(ctx context.Context) error
}

// KeyPruner forgets answers to idempotent requests after a day.
type KeyPruner interface {
	PruneIdempotency(ctx context.Context) (int64, error)
}

// Finisher ends a chat as its run would have.
type Finisher interface {
	FinishChat(ctx context.Context, in contract.FinishChatIn) (contract.FinishChatOut, error)
}

const (
	sweepEvery     = time.Second
	sweepAge       = 5 * time.Second
	outboxAge      = 5 * time.Second
	reconcileEvery = 10 * time.Second
	reconcileAge   = 10 * time.Second
)

// Run works until ctx ends.
func (j *Janitor) Run(ctx context.Context) {
	sweep, reconcile := time.NewTicker(sweepEvery), time.NewTicker(reconcileEvery)
	defer sweep.Stop()
	defer reconcile.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			j.report(ctx, "sweep", j.Sweep(ctx))
		case <-reconcile.C:
			j.report(ctx, "reconcile", j.Reconcile(ctx))
			j.report(ctx, "purge", j.Purger.Sweep(ctx))
			j.report(ctx, "tasks", j.Tasks.Sweep(ctx))
			j.report(ctx, "compactions", j.Compact.Sweep(ctx))
			_, err := j.Keys.PruneIdempotency(ctx)
			j.report(ctx, "idempotency keys", err)
		}
	}
}

func (j *Janitor) report(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		j.Logger.Warn("janitor could not finish", "part", what, "error", err)
	}
}

// Sweep wakes what sleeps, repeats stops that no run has heard and publishes
// events that were left behind.
func (j *Janitor) Sweep(ctx context.Context) error {
	sessions, err := j.Records.Asleep(ctx, sweepAge)
	if err != nil {
		return err
	}
	for _, id := range sessions {
		if err := j.wake(ctx, id); err != nil {
			return err
		}
		j.Found("asleep")
	}
	stops, err := j.Records.UnheardStops(ctx)
	if err != nil {
		return err
	}
	for _, chat := range stops {
		if err := j.Runs.Stop(ctx, chat.SessionID, chat.ChatID); err != nil {
			return err
		}
	}
	published, err := j.Journal.Sweep(ctx, outboxAge)
	for range published {
		j.Found("unpublished")
	}
	return err
}

func (j *Janitor) wake(ctx context.Context, sessionID string) error {
	run, err := j.Records.SessionRun(ctx, "", sessionID)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return j.Runs.Wake(ctx, run)
}

// Reconcile compares each chat that should run with its run. One whose run has
// closed or cannot go on is ended with the cause; one whose run the engine has
// never heard of goes on in a new one.
func (j *Janitor) Reconcile(ctx context.Context) error {
	chats, err := j.Records.RunningChats(ctx, reconcileAge)
	if err != nil {
		return err
	}
	for _, chat := range chats {
		if err := j.reconcile(ctx, chat); err != nil {
			return err
		}
	}
	return nil
}

func (j *Janitor) reconcile(ctx context.Context, chat domain.OpenChat) error {
	state, cause, err := j.Runs.Describe(ctx, chat.WorkflowID, chat.RunID)
	if err != nil || state == domain.RunOpen {
		return err
	}
	j.Logger.Warn("chat without a working run", "session_id", chat.SessionID, "chat_id", chat.ChatID, "cause", cause)
	j.Found("lost_run")
	if state == domain.RunUnknown {
		return j.wake(ctx, chat.SessionID)
	}
	if state == domain.RunStuck {
		if err := j.Runs.Terminate(ctx, chat.WorkflowID, chat.RunID, "everloop: "+cause); err != nil {
			return err
		}
	}
	out, err := j.Finisher.FinishChat(ctx, contract.FinishChatIn{
		ChatID: chat.ChatID, Reason: domain.FinishFailed, Code: "run_lost", Message: cause,
	})
	if err != nil || !out.Next {
		return err
	}
	return j.wake(ctx, chat.SessionID)
}
