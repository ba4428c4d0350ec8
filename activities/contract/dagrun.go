package contract

import (
	"time"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/internal/durable"
)

// WorkflowDAGRun is the name of the workflow type of DAG runs, as operators see it.
const WorkflowDAGRun = "DAGRun"

// DAGRunInput names the run of a DAG that a workflow carries.
type DAGRunInput struct {
	RunID string `json:"run_id"`
}

// Steps of DAG runs. Each writes its own rows, and may run again: what it has written is its
// answer. ChatEnded wakes a run when the chat or the subflow of a node may have ended.
var (
	LoadDAGRun      = durable.Activity[LoadDAGRunIn, LoadDAGRunOut]{Name: "dag.load", Preset: durable.Store}
	ActivateDAGNode = durable.Activity[ActivateDAGNodeIn, dagrun.Outcome]{Name: "dag.activate", Preset: durable.Store}
	StartDAGNode    = durable.Activity[DAGNode, dagrun.Outcome]{Name: "dag.start", Preset: durable.Store}
	FollowDAGEdge   = durable.Activity[DAGEdge, dagrun.Outcome]{Name: "dag.follow", Preset: durable.Store}
	BeginDAGNode    = durable.Activity[DAGAttempt, BeginDAGNodeOut]{Name: "dag.begin", Preset: durable.Store}
	TakeDAGNode     = durable.Activity[DAGAttempt, dagrun.Outcome]{Name: "dag.take", Preset: durable.Store}
	GatherDAGNode   = durable.Activity[DAGNode, dagrun.Outcome]{Name: "dag.gather", Preset: durable.Store}
	WatchDAGNode    = durable.Activity[DAGAttempt, WatchDAGNodeOut]{Name: "dag.watch", Preset: durable.Store}
	StopDAGNode     = durable.Activity[StopDAGNodeIn, struct{}]{Name: "dag.stop", Preset: durable.Store}
	PlaceDAGFiles   = durable.Activity[DAGAttempt, BeginDAGNodeOut]{Name: "dag.place_files", Preset: durable.Files}
	CaptureDAGFiles = durable.Activity[DAGAttempt, struct{}]{Name: "dag.capture_files", Preset: durable.Files}
	StoreDAGRun     = durable.Activity[StoreDAGRunIn, struct{}]{Name: "dag.store", Preset: durable.Store}
)

// DAGRunSteps are the names of the steps that are one transaction and are retried without
// limit.
var DAGRunSteps = []string{
	LoadDAGRun.Name, ActivateDAGNode.Name, StartDAGNode.Name, FollowDAGEdge.Name, BeginDAGNode.Name, TakeDAGNode.Name,
	GatherDAGNode.Name, WatchDAGNode.Name, StopDAGNode.Name, StoreDAGRun.Name,
}

// LoadDAGRunIn asks for a page of a run; the first one starts a run that is pending.
type LoadDAGRunIn struct {
	RunID string `json:"run_id"`
	From  int    `json:"from,omitempty"`
}

// LoadDAGRunOut is a page of a run: parts of the skeleton of its graph, then units. Of a run
// that is over it has the units whose work must still be stopped.
type LoadDAGRunOut struct {
	Status dagrun.Status `json:"status"`
	Try    int           `json:"try,omitempty"`
	Cancel bool          `json:"cancel,omitempty"`
	Parent string        `json:"parent,omitempty"` // the workflow that waits for the run; empty: none
	Nodes  []dag.Node    `json:"nodes,omitempty"`
	Edges  []dag.Edge    `json:"edges,omitempty"`
	Units  []dagrun.Unit `json:"units,omitempty"`
	Next   int           `json:"next,omitempty"` // 0: this page is the last one
}

// DAGTry names a try of a run: a retry fences the steps of the try before it.
type DAGTry struct {
	RunID string `json:"run_id"`
	Try   int    `json:"try,omitempty"`
}

// DAGNode names a node of a run.
type DAGNode struct {
	DAGTry
	NodeID string `json:"node"`
}

// ActivateDAGNodeIn names a node, and the numbers of the nodes that lead to it.
type ActivateDAGNodeIn struct {
	DAGNode
	Before []int `json:"before,omitempty"`
	Start  bool  `json:"start,omitempty"`
}

// DAGEdge names an edge of a run by its number in the graph.
type DAGEdge struct {
	DAGTry
	Edge int `json:"edge"`
}

// DAGAttempt names an attempt of a unit.
type DAGAttempt struct {
	DAGNode
	Item     int          `json:"item"`
	Attempt  int          `json:"attempt"`
	Phase    dagrun.Phase `json:"phase"`
	Due      *time.Time   `json:"due,omitempty"`
	Deadline *time.Time   `json:"deadline,omitempty"`
}

// BeginDAGNodeOut has the chat, or the run of a subflow, that does the work of an attempt.
// With Rejected the attempt failed before it started.
type BeginDAGNodeOut struct {
	UnitID     string              `json:"unit"`
	SessionID  domain.SessionID    `json:"session,omitempty"`
	ChatID     domain.ChatID       `json:"chat,omitempty"`
	ChildID    string              `json:"child,omitempty"`
	SolutionID string              `json:"solution,omitempty"` // of the session, or of the subflow
	OwnerID    string              `json:"owner,omitempty"`
	Details    string              `json:"details,omitempty"` // of its workflow for operators
	Rejected   *dagrun.NodeFailure `json:"rejected,omitempty"`
}

// WatchDAGNodeOut is when the next activity of a unit is due, or why its attempt fails.
type WatchDAGNodeOut struct {
	Due     *time.Time          `json:"due,omitempty"`
	Failure *dagrun.NodeFailure `json:"failure,omitempty"`
}

// StopDAGNodeIn names a unit, by its row, whose work must be stopped.
type StopDAGNodeIn struct {
	UnitID string `json:"unit"`
}

// StoreDAGRunIn has units that changed. Status is empty, or the end of the run.
type StoreDAGRunIn struct {
	DAGTry
	Units   []dagrun.Unit       `json:"units,omitempty"`
	Status  dagrun.Status       `json:"status,omitempty"`
	Failure *dagrun.NodeFailure `json:"failure,omitempty"`
}
