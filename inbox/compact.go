package inbox

import (
	"context"
	"log/slog"
	"time"

	"everloop/domain"
)

// CompactionRecords keep the compactions that clients have asked for.
type CompactionRecords interface {
	RequestCompaction(ctx context.Context, ownerID, sessionID string) (domain.CompactionRun, error)
	Compaction(ctx context.Context, ownerID, id string) (domain.CompactionResult, error)
	LostCompactions(ctx context.Context) ([]domain.CompactionRun, error)
}

// CompactionRuns start compactions.
type CompactionRuns interface {
	StartCompaction(ctx context.Context, run domain.CompactionRun) error
}

// Compactions takes the wish to have a session's history summarised. It may come
// at any time: a chat that runs goes on meanwhile, and its next model call finds
// the summary.
type Compactions struct {
	Records CompactionRecords
	Runs    CompactionRuns
	Logger  *slog.Logger
}

// Request makes the wish durable and starts the work. While an earlier one of
// the session is at work, it is that one.
func (c *Compactions) Request(ctx context.Context, caller domain.Caller, sessionID string) (compactionID string, err error) {
	run, err := c.Records.RequestCompaction(ctx, caller.User.ID, sessionID)
	if err != nil {
		return "", err
	}
	start, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwardsTimeout)
	go func() {
		defer cancel()
		if err := c.Runs.StartCompaction(start, run); err != nil {
			c.Logger.Warn("compaction not started yet; the janitor will", "session_id", sessionID, "compaction_id", run.ID, "error", err)
		}
	}()
	return run.ID, nil
}

// Pauses between two looks at a compaction that somebody waits for.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = 500 * time.Millisecond
)

// Await waits for the result of a compaction that the caller has asked for. When
// ctx ends before, it is that it still runs.
func (c *Compactions) Await(ctx context.Context, caller domain.Caller, compactionID string) (domain.CompactionResult, error) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		result, err := c.Records.Compaction(context.WithoutCancel(ctx), caller.User.ID, compactionID)
		if err != nil || result.Status != domain.CompactionRunning {
			return result, err
		}
		select {
		case <-ctx.Done():
			return result, nil
		case <-time.After(pause):
		}
	}
}

// Sweep starts compactions whose start was lost. One that is at work is left
// alone: an open run is not started again.
func (c *Compactions) Sweep(ctx context.Context) error {
	lost, err := c.Records.LostCompactions(ctx)
	if err != nil {
		return err
	}
	for _, run := range lost {
		if err := c.Runs.StartCompaction(ctx, run); err != nil {
			return err
		}
	}
	return nil
}
