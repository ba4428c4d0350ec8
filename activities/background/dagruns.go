package background

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"everloop/activities/contract"
	"everloop/domain/dagrun"
)

// DAGRuns carry out the steps of DAG runs.
type DAGRuns struct {
	Runs DAGRunSteps
}

// DAGRunSteps advance runs, and begin and stop their nodes. An error is retried. With
// advance the run has to be advanced again.
type DAGRunSteps interface {
	Advance(ctx context.Context, runID string, repeated bool) (dagrun.Step, error)
	Begin(ctx context.Context, unitID string) (advance bool, err error)
	StopUnit(ctx context.Context, unitID string) (advance bool, err error)
}

// Advance takes all steps of a run that can be taken now.
func (d *DAGRuns) Advance(ctx context.Context, in contract.DAGRunInput) (out contract.AdvanceDAGRunOut, err error) {
	step, err := d.Runs.Advance(ctx, in.RunID, activity.GetInfo(ctx).Attempt > 1)
	if err != nil {
		return out, err
	}

	out.Ended, out.Begin, out.Stop = step.Ended, nodesOf(step.Begin), nodesOf(step.Stop)
	if step.WakeAt != nil {
		out.WakeMS = max(1, time.Until(*step.WakeAt).Milliseconds()+1)
	}

	return out, nil
}

func nodesOf(handles []dagrun.Handle) []contract.DAGNodeInput {
	var nodes []contract.DAGNodeInput
	for _, h := range handles {
		nodes = append(nodes, contract.DAGNodeInput{ID: h.ID, NodeID: h.NodeID, Attempt: h.Attempt})
	}

	return nodes
}

// Begin begins the work of a node, once however often it is called.
func (d *DAGRuns) Begin(ctx context.Context, in contract.DAGNodeInput) (contract.DAGNodeOut, error) {
	advance, err := d.Runs.Begin(ctx, in.ID)
	return contract.DAGNodeOut{Advance: advance}, err
}

// Stop stops the work of a node that was ended.
func (d *DAGRuns) Stop(ctx context.Context, in contract.DAGNodeInput) (contract.DAGNodeOut, error) {
	advance, err := d.Runs.StopUnit(ctx, in.ID)
	return contract.DAGNodeOut{Advance: advance}, err
}
