package dagrun

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"everloop/domain"
	"everloop/domain/dag"
)

// Triggers of runs.
const (
	TriggerAPI      = "api"
	TriggerSubflow  = "subflow"
	TriggerSchedule = "schedule"
	TriggerEvent    = "trigger"
)

// RunRecord is a run as its owner sees it.
type RunRecord struct {
	ID             string          `json:"id" doc:"The run." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
	ProdSolutionID string          `json:"prod_solution_id" doc:"The production solution." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	SolutionName   string          `json:"prod_solution_name" doc:"The name of the production solution." example:"Reviews"`
	Version        int             `json:"version" doc:"The version of the DAG that it runs." example:"2"`
	NodeID         *string         `json:"node_id,omitempty" doc:"The one node that it runs; left out: the whole DAG." example:"review"`
	Trigger        string          `json:"trigger" enum:"api,subflow,schedule,trigger" doc:"What started it."`
	StartedBy      *string         `json:"started_by,omitempty" doc:"The scheduled task (task/<id>) or trigger (trigger/<id>) that started it; left out: neither." example:"task/01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Status         Status          `json:"status" enum:"pending,running,waiting,completed,failed,cancelled" doc:"Its status."`
	WaitingReason  string          `json:"waiting_reason" enum:"none,question,permission,timer,queued" doc:"Why it does not move; none: it does."`
	Inputs         json.RawMessage `json:"inputs" doc:"Its inputs."`
	Outputs        json.RawMessage `json:"outputs" doc:"The output of its end, or of its ends by their ids; null: there is none yet."`
	Error          *NodeFailure    `json:"error,omitempty" doc:"Why it failed; left out: it did not."`
	ParentRunID    *string         `json:"parent_run_id,omitempty" doc:"The run that it is a subflow of; left out: none."`
	Retries        int             `json:"retries" doc:"How often it was retried." example:"0"`
	CreatedAt      time.Time       `json:"created_at" doc:"Creation time."`
	StartedAt      *time.Time      `json:"started_at" nullable:"true" doc:"Time of its first step; null: not yet."`
	FinishedAt     *time.Time      `json:"finished_at" nullable:"true" doc:"Time of its end; null: it is not over."`
	Usage          domain.Usage    `json:"usage" doc:"What its nodes have used."`
}

// NodeRecord is a node of a run, or an item of a map node, as the owner sees it.
type NodeRecord struct {
	NodeID       string            `json:"node_id" doc:"The node." example:"review"`
	RunNodeID    string            `json:"run_node_id" doc:"Its id within the run." example:"01a1ff63-40a1-7c55-a62e-d84c269739b7"`
	Item         *int              `json:"item,omitempty" doc:"Of an item of a map node: its place in the list, from 0."`
	Attempt      int               `json:"attempt" doc:"The attempt." example:"1"`
	Status       Status            `json:"status" enum:"pending,ready,running,waiting,completed,failed,skipped,cancelled,reused" doc:"Its status."`
	Reason       string            `json:"waiting_reason" enum:"none,question,permission,approval,timer,queued" doc:"Why it does not move; none: it does."`
	SessionID    *domain.SessionID `json:"session_id,omitempty" doc:"The session of its attempt, or of the one whose output it uses again; left out: there is none."`
	ChildRunID   *string           `json:"child_run_id,omitempty" doc:"The run of its subflow, or of the one whose output it uses again; left out: there is none."`
	InputsDigest string            `json:"inputs_digest" doc:"SHA-256 of what it was given; empty: not yet."`
	Outputs      json.RawMessage   `json:"outputs" doc:"Its output; null: there is none."`
	Error        *NodeFailure      `json:"error" doc:"Why its last attempt failed; null: it did not."`
	StartedAt    *time.Time        `json:"started_at" nullable:"true" doc:"Time of its start; null: not yet."`
	FinishedAt   *time.Time        `json:"finished_at" nullable:"true" doc:"Time of its end; null: it is not over."`
	Usage        domain.Usage      `json:"usage" doc:"What its attempts have used."`
	ReusedFrom   *string           `json:"reused_from,omitempty" doc:"The run_node_id that made the output which it uses again; left out: it ran itself."`
	ReuseReason  string            `json:"reuse_reason,omitempty" enum:"same_inputs,kept,definition_changed,inputs_changed,restarted,pinned" doc:"Why an earlier output was used again, or was not; pinned: the run of another node was given it."`
	Files        []OutputFile      `json:"files,omitempty" doc:"The files that it passes on (outputs.files); left out: none."`
	Items        *ItemCounts       `json:"items,omitempty" doc:"Of a map node that has begun: its items."`
}

// ItemCounts is the progress of a map node's items.
type ItemCounts struct {
	Total     int `json:"total" doc:"How many there are." example:"20"`
	Running   int `json:"running" doc:"How many are worked on." example:"8"`
	Completed int `json:"completed" doc:"How many are completed." example:"11"`
	Failed    int `json:"failed" doc:"How many failed." example:"1"`
}

// Query selects runs of an owner, newest first. Without ParentRun and TriggerSubflow it leaves
// out subflows.
type Query struct {
	OwnerID       string
	SolutionID    string   // empty: of all solutions
	Statuses      []Status // as clients see them; empty: all
	Trigger       string   // empty: all but subflows
	ParentRun     string   // only the subflows of this run; empty: of any
	CreatedAfter  *time.Time
	CreatedBefore *time.Time
	Limit, Offset int
}

// New is a run before it is stored.
type New struct {
	ID         string
	SolutionID string
	OwnerID    string
	Version    int
	Trigger    string
	Inputs     json.RawMessage
	ParentRun  string // empty: it is not a subflow
	Depth      int
	Nodes      []string // of the version
	NodeID     string   // the one node that it runs; empty: the whole DAG
	Pinned     []Pinned // outputs of nodes that do not run
	StartedBy  string   // what started it, such as task/<id>; empty: a client or another run
	Waiter     string   // the workflow that is signalled at its end; empty: none
}

// Pinned is the output of a node that the run of another node is given.
type Pinned struct {
	NodeID    string
	Output    json.RawMessage
	From      string           // the unit that made it; empty: the caller gave it
	Files     *string          // what was captured of the node, encoded; nil: it passes no files on
	SessionID domain.SessionID // whose workspace a later node continues; empty: none
}

// OneNode describes the run of one node.
type OneNode struct {
	NodeID  string
	Version int                        // 0: the published one
	Inputs  json.RawMessage            // of the run; nil: of the newest run with the other outputs
	Outputs map[string]json.RawMessage // by node; others are of the newest run that has them all
}

// Resumption configures how a failed run is retried.
type Resumption struct {
	FromNodeID string         // it and its successors run again; empty: only the nodes that must
	Version    int            // 0: the same
	KeepNodes  []string       // nodes whose outputs are reused despite changes
	Override   map[string]any // fields of the inputs that change
}

// Retry is a checked Resumption.
type Retry struct {
	Version int
	Inputs  json.RawMessage
	Barred  map[string]bool // nodes that run again in any case
	Kept    []string        // nodes whose output is used in any case
	Nodes   []string        // of the version
}

// InputsWith returns the inputs of the run with some fields overridden.
func (r RunRecord) InputsWith(override map[string]any) (json.RawMessage, error) {
	if len(override) == 0 {
		return r.Inputs, nil
	}

	values := map[string]any{}
	if err := json.Unmarshal(r.Inputs, &values); err != nil {
		return nil, fmt.Errorf("read the inputs of a run: %w", err)
	}

	maps.Copy(values, override)

	return json.Marshal(values)
}

// Ref names a run.
type Ref struct {
	RunID      string
	SolutionID string
}

// Work is a unit with what its attempt needs to start, to be watched or to be stopped.
type Work struct {
	Unit    Unit
	Request *Request
	Node    dag.Node
	Run     WorkRun
	// ChildSolution is the production solution of the run of its subflow; empty: there is none.
	ChildSolution string
	Idle          bool // its chat waits for something outside of it, so that no activity is expected
}

// WorkRun is the run of a unit.
type WorkRun struct {
	ID         string
	SolutionID string
	OwnerID    string
	Version    int
	Depth      int
}
