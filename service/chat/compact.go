package chat

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/domain"
)

// CompactionRecords stores the compactions that clients request.
type CompactionRecords interface {
	RequestCompaction(ctx context.Context, ownerID string, sessionID domain.SessionID) (domain.CompactionRun, error)
	Compaction(ctx context.Context, ownerID, id string) (domain.CompactionResult, error)
}

// CompactionRuns start compactions.
type CompactionRuns interface {
	StartCompaction(ctx context.Context, run domain.CompactionRun) error
}

// CompactionsConfig is what NewCompactions needs.
type CompactionsConfig struct {
	Store  CompactionRecords
	Runs   CompactionRuns
	Logger *slog.Logger
}

// Compactions starts compactions that clients request. A request may come at any
// time: a running chat continues, and its next model call finds the summary.
type Compactions struct {
	cfg CompactionsConfig
}

// NewCompactions checks the configuration.
func NewCompactions(cfg CompactionsConfig) (*Compactions, error) {
	if cfg.Store == nil || cfg.Runs == nil || cfg.Logger == nil {
		return nil, errors.New("chat: the configuration needs Records, Runs and Logger")
	}

	return &Compactions{cfg: cfg}, nil
}

// Request persists and starts a compaction, or returns the one that is already running.
func (c *Compactions) Request(ctx context.Context, caller domain.Caller, sessionID domain.SessionID) (compactionID string, err error) {
	run, err := c.cfg.Store.RequestCompaction(ctx, caller.User.ID, sessionID)
	if err != nil {
		return "", err
	}

	start, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwardsTimeout)
	go func() {
		defer cancel()

		if err := c.cfg.Runs.StartCompaction(start, run); err != nil {
			c.cfg.Logger.Warn("failed to start a compaction, retrying", "session_id", sessionID, "compaction_id", run.ID, "error", err)
		}
	}()

	return run.ID, nil
}

// Pauses between two reads of a compaction that a caller waits for.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = 500 * time.Millisecond
)

// Await waits for the result of a compaction that the caller has requested. It returns
// the status running if ctx ends first.
func (c *Compactions) Await(ctx context.Context, caller domain.Caller, compactionID string) (domain.CompactionResult, error) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		result, err := c.cfg.Store.Compaction(context.WithoutCancel(ctx), caller.User.ID, compactionID)
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
