package contract

import "everloop/internal/durable"

// WorkflowDAGRun is the name of the workflow type of DAG runs, as operators see it.
const WorkflowDAGRun = "DAGRun"

// DAGRunInput names the run of a DAG that a workflow carries.
type DAGRunInput struct {
	RunID string `json:"run_id"`
}

// Steps of DAG runs. Each may run again: the database says what is left to do. ChatEnded
// wakes a run for everything that may let it go on.
var (
	AdvanceDAGRun = durable.Activity[DAGRunInput, AdvanceDAGRunOut]{Name: "dag.advance", Preset: durable.Store}
	BeginDAGNode  = durable.Activity[DAGNodeInput, DAGNodeOut]{Name: "dag.begin", Preset: durable.Store}
	StopDAGNode   = durable.Activity[DAGNodeInput, DAGNodeOut]{Name: "dag.stop", Preset: durable.Store}
)

// AdvanceDAGRunOut says what is to be done. A node is named again until it was.
type AdvanceDAGRunOut struct {
	Ended  bool           `json:"ended,omitempty"`
	Begin  []DAGNodeInput `json:"begin,omitempty"`
	Stop   []DAGNodeInput `json:"stop,omitempty"`
	WakeMS int64          `json:"wake_ms,omitempty"` // until something is due; 0: nothing is
}

// DAGNodeInput names a node of a run, or an item of a map node.
type DAGNodeInput struct {
	ID      string `json:"id"`
	NodeID  string `json:"node,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
}

// DAGNodeOut says whether the run has to be advanced for it.
type DAGNodeOut struct {
	Advance bool `json:"advance,omitempty"`
}
