package maintenance

import (
	"context"
	"errors"
	"time"

	"everloop/domain/dagrun"
	"everloop/internal/retry"
)

// DAGRunStore keeps the runs of DAGs.
type DAGRunStore interface {
	StalledDAGRuns(ctx context.Context, after string, limit int) ([]dagrun.Ref, error)
}

// DAGRunWorkflows reaches the workflows of DAG runs.
type DAGRunWorkflows interface {
	ResumeDAGRun(ctx context.Context, solutionID, runID string) error
}

// DAGRuns repairs what a crash or an outage left of runs of DAGs.
type DAGRuns struct {
	runs    DAGRunWorkflows
	stalled walk[dagrun.Ref]
	signals *retry.Pauses // by run
}

// NewDAGRuns checks that everything is there.
func NewDAGRuns(store DAGRunStore, runs DAGRunWorkflows) (*DAGRuns, error) {
	if store == nil || runs == nil {
		return nil, errors.New("maintenance: runs of DAGs need a store and workflows")
	}

	return &DAGRuns{
		runs: runs, signals: retry.NewPauses(time.Now),
		stalled: walk[dagrun.Ref]{list: store.StalledDAGRuns, key: func(r dagrun.Ref) string { return r.RunID }},
	}, nil
}

// Repair starts workflows that are gone, and signals those that should have moved.
func (d *DAGRuns) Repair(ctx context.Context) error {
	return d.stalled.each(ctx, atOnce, func(ctx context.Context, run dagrun.Ref) error {
		if _, due := d.signals.Try(run.RunID); !due {
			return nil
		}

		return d.runs.ResumeDAGRun(ctx, run.SolutionID, run.RunID)
	})
}
