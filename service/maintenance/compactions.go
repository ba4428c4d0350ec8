package maintenance

import (
	"context"
	"errors"
	"time"

	"everloop/domain"
	"everloop/internal/retry"
)

// CompactionStore keeps the compactions that clients have asked for.
type CompactionStore interface {
	LostCompactions(ctx context.Context, after string, limit int) ([]domain.CompactionRun, error)
}

// CompactionRuns starts compactions; starting one that runs changes nothing.
type CompactionRuns interface {
	StartCompaction(ctx context.Context, run domain.CompactionRun) error
}

// Compactions starts compactions whose start was lost.
type Compactions struct {
	runs   CompactionRuns
	lost   walk[domain.CompactionRun]
	starts *retry.Pauses // by compaction
}

// NewCompactions checks that everything is there.
func NewCompactions(store CompactionStore, runs CompactionRuns) (*Compactions, error) {
	if store == nil || runs == nil {
		return nil, errors.New("maintenance: compactions need a store and runs")
	}

	key := func(run domain.CompactionRun) string { return run.ID }

	return &Compactions{
		runs:   runs,
		lost:   walk[domain.CompactionRun]{list: store.LostCompactions, key: key},
		starts: retry.NewPauses(time.Now),
	}, nil
}

// Start starts them again, after a doubling pause. It goes on after one that cannot be
// started.
func (c *Compactions) Start(ctx context.Context) error {
	return c.lost.each(ctx, atOnce, func(ctx context.Context, run domain.CompactionRun) error {
		if _, due := c.starts.Try(run.ID); !due {
			return nil
		}

		return c.runs.StartCompaction(ctx, run)
	})
}
