package production

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/service/dagruns"
)

// DAGRunRecords are the runs of DAGs. Those of solutions that a caller cannot see do not
// exist.
type DAGRunRecords interface {
	DAGRuns(ctx context.Context, caller domain.User, solutionID string, limit, offset int) (page []dagrun.RunRecord, total int, err error)
	QueryDAGRuns(ctx context.Context, q dagrun.Query) (page []dagrun.RunRecord, total int, err error)
	DAGRun(ctx context.Context, caller domain.User, solutionID, runID string) (dagrun.RunRecord, error)
	// The run was read by DAGRun before.
	DAGRunNodes(ctx context.Context, runID string, outputs bool) ([]dagrun.NodeRecord, error)
	DAGRunItems(ctx context.Context, runID, nodeID string, limit, offset int) (page []dagrun.NodeRecord, total int, err error)
}

// DAGRunRef is the path of an operation on one run.
type DAGRunRef struct {
	ProdSolutionRef
	RunID string `path:"run_id" maxLength:"128" doc:"The run." example:"01a1ff63-40a1-7c55-a62e-d84c269739b6"`
}

type dagRunBody struct {
	dagrun.RunRecord
	Nodes []dagrun.NodeRecord `json:"nodes" nullable:"false" doc:"Its nodes."`
}

// DagRunsAPI runs DAGs.
type DagRunsAPI struct {
	Solutions *ProdSolutionsAPI
	Runs      *dagruns.Service
	Store     DAGRunRecords
	Streams   *httpx.Streams
}

const onRun = "prod_solution_not_found dag_run_not_found"

// Register adds the operations of the area to the interface.
func (a *DagRunsAPI) Register(r *httpx.Server) {
	const base = "/api/prod_solution/dag/{prod_solution_id}/runs"
	httpx.Register(r, httpx.Operation{
		ID: "create-dag-run", Method: fiber.MethodPost, Path: base, Tag: prodTag,
		Summary: "Run the DAG of a production solution",
		Description: "Runs the published version, or the one that is named. It goes on in the background: read the run, or follow its " +
			"events. A repeat with the same Idempotency-Key is the same run.",
		Scope: auth.Solutions, Audit: "dag_run.create",
		Errors: httpx.Codes{
			403: "forbidden",
			404: "prod_solution_not_found version_not_found", 409: "dag_not_published dag_run_limit prod_solution_archived",
			413: "inputs_too_large", 422: domain.CodeValidationFailed + " " + dagrun.CodeInvalidInputs,
		},
		Example: `{"inputs": {"topic": "June"}}`,
	}, a.create)
	httpx.Register(r, httpx.Operation{
		ID: "list-dag-runs", Method: fiber.MethodGet, Path: base, Tag: prodTag,
		Summary:     "List the runs of the DAG of a production solution, newest first",
		Description: "Runs of subflows are read by their ids, which the nodes of the run name.",
		Scope:       auth.Solutions, Errors: httpx.Codes{404: "prod_solution_not_found"},
	}, a.list)
	httpx.Register(r, httpx.Operation{
		ID: "list-all-dag-runs", Method: fiber.MethodGet, Path: "/api/dag-runs", Tag: prodTag,
		Summary: "List the caller's runs of all DAGs, newest first",
		Description: "Without subflows, unless parent_run_id or the trigger subflow asks for them. An administrator reads runs of others " +
			"by their production solutions.",
		Scope: auth.Solutions,
	}, a.listAll)
	httpx.Register(r, httpx.Operation{
		ID: "run-dag-node", Method: fiber.MethodPost, Path: "/api/prod_solution/dag/{prod_solution_id}/nodes/{node_id}/run", Tag: prodTag,
		Summary: "Run one node of the DAG of a production solution",
		Description: "Starts a run of this node alone. It is given the outputs of the nodes before it: those in outputs, and otherwise " +
			"those of the newest run that has them all. A repeat with the same Idempotency-Key is the same run.",
		Scope: auth.Solutions, Audit: "dag_run.create",
		Errors: httpx.Codes{
			403: "forbidden",
			404: "prod_solution_not_found version_not_found " + dagrun.CodeNodeNotFound,
			409: "dag_not_published dag_run_limit prod_solution_archived",
			413: "inputs_too_large", 422: domain.CodeValidationFailed + " " + dagrun.CodeInvalidInputs,
		},
		Example: `{"inputs": {"topic": "June"}, "outputs": {"draft": "A note on June"}}`,
	}, a.runNode)
	httpx.Register(r, httpx.Operation{
		ID:      "forecast-dag-run",
		Method:  fiber.MethodGet,
		Path:    "/api/prod_solution/dag/{prod_solution_id}/forecast",
		Tag:     prodTag,
		Summary: "Estimate the duration, the tokens and the cost of a run",
		Description: "From the newest completed runs, at most 50: the median and the 90th percentile of each node, and of " +
			"the run. What no run shows is null.",
		Scope:  auth.Solutions,
		Errors: httpx.Codes{404: "prod_solution_not_found version_not_found", 409: "dag_not_published"},
	}, a.forecast)
	httpx.Register(r, httpx.Operation{
		ID: "get-dag-run", Method: fiber.MethodGet, Path: base + "/{run_id}", Tag: prodTag,
		Summary: "Get a run of a DAG with its nodes",
		Scope:   auth.Solutions, Errors: httpx.Codes{404: onRun},
	}, func(ctx context.Context, in *DAGRunRef) (*httpx.Body[dagRunBody], error) {
		if err := a.Solutions.auditAdministrator(ctx, in.ID); err != nil {
			return nil, err
		}

		return a.answer(ctx)(a.Store.DAGRun(ctx, httpx.CallerOf(ctx).User, in.ID, in.RunID))
	})
	httpx.Register(r, httpx.Operation{
		ID: "list-dag-run-items", Method: fiber.MethodGet, Path: base + "/{run_id}/nodes/{node_id}/items", Tag: prodTag,
		Summary: "List the items of a map node of a run, in their order",
		Scope:   auth.Solutions, Errors: httpx.Codes{404: onRun},
	}, a.items)
	httpx.Register(r, httpx.Operation{
		ID: "read-dag-run-file", Method: fiber.MethodGet, Path: base + "/{run_id}/nodes/{node_id}/files/{file_path}", Tag: prodTag,
		Summary:     "Get the content of an output file of a node of a run",
		Description: "The files of a node name the paths. Supports ETag, If-None-Match and Range, as read-file does.",
		Scope:       auth.Solutions,
		Errors: httpx.Codes{
			404: onRun + " " + domain.CodeFileNotFound + " snapshot_not_found", 416: httpx.CodeRange, 422: "snapshot_damaged",
		},
		Headers: map[string]string{
			"ETag": "The SHA-256 of the file, for If-None-Match.", "Content-Range": "With 206: the bytes that are sent, and the size.",
		},
		Replies: httpx.ContentReplies,
	}, a.readFile)
	httpx.Register(r, httpx.Operation{
		ID: "cancel-dag-run", Method: fiber.MethodPost, Path: base + "/{run_id}/cancel", Tag: prodTag,
		Summary:     "Cancel a run of a DAG",
		Description: "What its nodes do is stopped. A run that is over stays as it is.",
		Scope:       auth.Solutions, Audit: "dag_run.cancel", Errors: httpx.Codes{404: onRun},
	}, func(ctx context.Context, in *DAGRunRef) (*httpx.Body[dagRunBody], error) {
		httpx.Concerns(ctx, in.RunID, nil)
		return a.answer(ctx)(a.Runs.Cancel(ctx, httpx.CallerOf(ctx).User, in.ID, in.RunID))
	})
	httpx.Register(r, httpx.Operation{
		ID: "retry-dag-run", Method: fiber.MethodPost, Path: base + "/{run_id}/retry", Tag: prodTag,
		Summary: "Retry a run of a DAG that failed",
		Description: "The run keeps its id. Outputs of finished nodes are used again where the definition of the node and its inputs " +
			"are the " +
			"same; reused_from and reuse_reason of each node say which were and why. With version it goes on with another version.",
		Scope: auth.Solutions, Audit: "dag_run.retry",
		Errors: httpx.Codes{
			403: "forbidden",
			404: onRun + " version_not_found", 409: "dag_run_not_failed dag_run_limit", 413: "inputs_too_large",
			422: domain.CodeValidationFailed + " " + dagrun.CodeInvalidInputs,
		},
		Example: `{"from_node_id": "review", "version": 3}`,
	}, a.retry)
	httpx.Register(r, httpx.Operation{
		ID: "stream-dag-run", Method: fiber.MethodGet, Path: base + "/{run_id}/events", Tag: prodTag,
		Summary: "Stream the progress of a run of a DAG as server-sent events",
		Description: "First the run and each of its nodes as they are, then each change: run:updated has the run, node:updated a node " +
			"without " +
			"its output. The stream ends with the run. A client that comes again gets the state of that moment.",
		Scope: auth.Solutions, Errors: httpx.Codes{404: onRun}, Stream: true,
		Replies: []httpx.Reply{{
			Status: http.StatusOK, Types: []string{"text/event-stream"},
			Example: "event: node:updated\ndata: {\"node_id\":\"review\",\"status\":\"running\",\"attempt\":1}\n\n",
		}},
	}, a.follow)
}

// answer adds the nodes to a run.
func (a *DagRunsAPI) answer(ctx context.Context) func(dagrun.RunRecord, error) (*httpx.Body[dagRunBody], error) {
	return func(run dagrun.RunRecord, err error) (*httpx.Body[dagRunBody], error) {
		if err != nil {
			return nil, err
		}

		nodes, err := a.Store.DAGRunNodes(ctx, run.ID, true)

		return httpx.Answer(dagRunBody{run, fields.OrEmpty(nodes)}, err)
	}
}

func (a *DagRunsAPI) create(ctx context.Context, in *struct {
	ProdSolutionRef
	Body struct {
		Version *int           `json:"version,omitempty" nullable:"true" minimum:"1" maximum:"2147483647" doc:"The version; left out: the published one." example:"2"`
		Inputs  map[string]any `json:"inputs,omitempty" nullable:"true" doc:"Its inputs, as the output_schema of the start node says; left out: none." example:"{\"topic\": \"June\"}"`
	}
},
) (*httpx.Body[dagRunBody], error) {
	inputs, err := inputsOf(in.Body.Inputs)
	if err != nil {
		return nil, err
	}

	run, err := a.Runs.Start(ctx, httpx.CallerOf(ctx).User, in.ID, fields.Value(in.Body.Version), inputs)
	if err == nil {
		httpx.Concerns(ctx, run.ID, map[string]string{"prod_solution_id": in.ID})
	}

	return a.answer(ctx)(run, err)
}

func (a *DagRunsAPI) runNode(ctx context.Context, in *struct {
	ProdSolutionRef
	NodeID string `path:"node_id" maxLength:"64" doc:"The node." example:"review"`
	Body   struct {
		Version *int           `json:"version,omitempty" nullable:"true" minimum:"1" maximum:"2147483647" doc:"The version; left out: the published one." example:"2"`
		Inputs  map[string]any `json:"inputs,omitempty" nullable:"true" doc:"The inputs of the run; left out: those of the run that the outputs are of." example:"{\"topic\": \"June\"}"`
		Outputs map[string]any `json:"outputs,omitempty" nullable:"true" doc:"Outputs by node, of nodes before it or in its references; others are those of the newest run that has them all." example:"{\"draft\": \"A note on June\"}"`
	}
},
) (*httpx.Body[dagRunBody], error) {
	one := dagrun.OneNode{NodeID: in.NodeID, Version: fields.Value(in.Body.Version), Outputs: map[string]json.RawMessage{}}

	var err error

	if in.Body.Inputs != nil {
		if one.Inputs, err = inputsOf(in.Body.Inputs); err != nil {
			return nil, err
		}
	}

	for id, output := range in.Body.Outputs {
		if one.Outputs[id], err = json.Marshal(output); err != nil || bytes.Contains(one.Outputs[id], []byte(`\u0000`)) {
			return nil, domain.Invalidf("body.outputs."+id, "must not contain NUL characters")
		}
	}

	run, err := a.Runs.RunNode(ctx, httpx.CallerOf(ctx).User, in.ID, one)
	if err == nil {
		httpx.Concerns(ctx, run.ID, map[string]string{"prod_solution_id": in.ID, "node_id": in.NodeID})
	}

	return a.answer(ctx)(run, err)
}

func (a *DagRunsAPI) forecast(ctx context.Context, in *struct {
	ProdSolutionRef
	Version int `query:"version" minimum:"1" maximum:"2147483647" doc:"The version; left out: the published one." example:"2"`
},
) (*httpx.Body[dagrun.Forecast], error) {
	if err := a.Solutions.auditAdministrator(ctx, in.ID); err != nil {
		return nil, err
	}

	return httpx.Answer(a.Runs.Forecast(ctx, httpx.CallerOf(ctx).User, in.ID, in.Version))
}

// inputsOf encodes inputs. Text without NUL characters is all that the database takes.
func inputsOf(given map[string]any) (json.RawMessage, error) {
	if given == nil {
		given = map[string]any{}
	}

	raw, err := json.Marshal(given)
	if bytes.Contains(raw, []byte(`\u0000`)) {
		return nil, domain.Invalidf("body.inputs", "must not contain NUL characters")
	}

	return raw, err
}

func (a *DagRunsAPI) list(ctx context.Context, in *struct {
	ProdSolutionRef
	Offset int `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int `query:"limit" default:"200" minimum:"1" maximum:"200" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[fields.List[dagrun.RunRecord]], error) {
	if err := a.Solutions.auditAdministrator(ctx, in.ID); err != nil {
		return nil, err
	}

	page, total, err := a.Store.DAGRuns(ctx, httpx.CallerOf(ctx).User, in.ID, in.Limit, in.Offset)

	return httpx.Answer(fields.List[dagrun.RunRecord]{Items: fields.OrEmpty(page), Total: total}, err)
}

// dagRunFilters select runs, in a query.
type dagRunFilters struct {
	Status         []dagrun.Status `query:"status,explode" enum:"pending,running,waiting,completed,failed,cancelled" maxItems:"20" doc:"Only these statuses; repeatable."`
	ProdSolutionID string          `query:"prod_solution_id" maxLength:"128" doc:"Only runs of this production solution."`
	Trigger        string          `query:"trigger" enum:"api,subflow" doc:"Only runs that this began."`
	ParentRunID    string          `query:"parent_run_id" maxLength:"128" doc:"Only the subflows of this run."`
	CreatedAfter   time.Time       `query:"created_after" doc:"Only runs that were created after this time." example:"2026-11-01T00:00:00Z"`
	CreatedBefore  time.Time       `query:"created_before" doc:"Only runs that were created before this time." example:"2026-12-01T00:00:00Z"`
	Offset         int             `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit          int             `query:"limit" default:"50" minimum:"1" maximum:"200" doc:"Maximum number of entries." example:"20"`
}

func (a *DagRunsAPI) listAll(ctx context.Context, in *dagRunFilters) (*httpx.Body[fields.List[dagrun.RunRecord]], error) {
	page, total, err := a.Store.QueryDAGRuns(ctx, dagrun.Query{
		OwnerID: httpx.CallerOf(ctx).User.ID, SolutionID: in.ProdSolutionID, Statuses: in.Status, Trigger: in.Trigger,
		ParentRun: in.ParentRunID, CreatedAfter: fields.Given(in.CreatedAfter), CreatedBefore: fields.Given(in.CreatedBefore),
		Limit: in.Limit, Offset: in.Offset,
	})

	return httpx.Answer(fields.List[dagrun.RunRecord]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *DagRunsAPI) items(ctx context.Context, in *struct {
	DAGRunRef
	NodeID string `path:"node_id" maxLength:"128" doc:"The map node." example:"each"`
	Offset int    `query:"offset" default:"0" minimum:"0" maximum:"1000000" doc:"Number of entries to skip." example:"0"`
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"200" doc:"Maximum number of entries." example:"20"`
},
) (*httpx.Body[fields.List[dagrun.NodeRecord]], error) {
	if err := a.Solutions.auditAdministrator(ctx, in.ID); err != nil {
		return nil, err
	}

	run, err := a.Store.DAGRun(ctx, httpx.CallerOf(ctx).User, in.ID, in.RunID)
	if err != nil {
		return nil, err
	}

	page, total, err := a.Store.DAGRunItems(ctx, run.ID, in.NodeID, in.Limit, in.Offset)

	return httpx.Answer(fields.List[dagrun.NodeRecord]{Items: fields.OrEmpty(page), Total: total}, err)
}

func (a *DagRunsAPI) readFile(ctx context.Context, in *struct {
	DAGRunRef
	NodeID   string `path:"node_id" maxLength:"128" doc:"The node." example:"draft"`
	FilePath string `path:"file_path" doc:"The path of the file; slashes are part of it." example:"report/summary.md"`
	Item     int    `query:"item" default:"-1" minimum:"-1" maximum:"1000000" doc:"Of a map node: the item that made the file; -1: none." example:"0"`
	httpx.FileRead
},
) (*httpx.Streamed, error) {
	if err := a.Solutions.auditAdministrator(ctx, in.ID); err != nil {
		return nil, err
	}

	run, err := a.Store.DAGRun(ctx, httpx.CallerOf(ctx).User, in.ID, in.RunID)
	if err != nil {
		return nil, err
	}

	var info domain.FileInfo

	file, err := httpx.Outliving(ctx, func(ctx context.Context) (file io.ReadSeekCloser, err error) {
		file, info, err = a.Runs.OpenNodeFile(ctx, run.ID, in.NodeID, in.Item, in.FilePath)
		return file, err
	})
	if err != nil {
		return nil, err
	}

	return httpx.ServeContent(in.FilePath, file, info, in.Download)
}

func (a *DagRunsAPI) retry(ctx context.Context, in *struct {
	DAGRunRef
	Body struct {
		FromNodeID *string        `json:"from_node_id,omitempty" nullable:"true" maxLength:"64" doc:"This node and all that come after it run again; left out: those that have to." example:"review"`
		Version    *int           `json:"version,omitempty" nullable:"true" minimum:"1" maximum:"2147483647" doc:"The version to go on with; left out: the same." example:"3"`
		Keep       []string       `json:"keep_outputs_of,omitempty" nullable:"true" maxItems:"1000" doc:"Nodes whose outputs are used again whatever has changed."`
		Override   map[string]any `json:"override_inputs,omitempty" nullable:"true" doc:"Fields of the inputs that change." example:"{\"topic\": \"July\"}"`
	}
},
) (*httpx.Body[dagRunBody], error) {
	httpx.Concerns(ctx, in.RunID, nil)

	if _, err := inputsOf(in.Body.Override); err != nil {
		return nil, domain.Invalidf("body.override_inputs", "must not contain NUL characters")
	}

	return a.answer(ctx)(a.Runs.Retry(ctx, httpx.CallerOf(ctx).User, in.ID, in.RunID, dagrun.Resumption{
		FromNodeID: fields.Value(
			in.Body.FromNodeID,
		),
		Version:   fields.Value(in.Body.Version),
		KeepNodes: unique(in.Body.Keep),
		Override:  in.Body.Override,
	}))
}

// unique removes repeats from a list.
func unique(list []string) []string {
	seen := map[string]bool{}

	var out []string

	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}

	return out
}

// runPoll is how often a stream looks at its run.
const runPoll = 500 * time.Millisecond

func (a *DagRunsAPI) follow(ctx context.Context, in *DAGRunRef) (*httpx.Streamed, error) {
	if err := a.Solutions.auditAdministrator(ctx, in.ID); err != nil {
		return nil, err
	}

	caller := httpx.CallerOf(ctx)
	if _, err := a.Store.DAGRun(ctx, caller.User, in.ID, in.RunID); err != nil {
		return nil, err
	}

	return &httpx.Streamed{Body: func(ctx huma.Context) {
		a.Streams.Open(ctx, func(ctx context.Context, out *httpx.EventStream) error {
			return a.progress(ctx, out, caller, *in)
		})
	}}, nil
}

// progress sends the run and its nodes each time that they have changed, until the run is
// over, or the caller may not see it any more.
func (a *DagRunsAPI) progress(ctx context.Context, out *httpx.EventStream, caller domain.Caller, in DAGRunRef) error {
	sent := map[string][]byte{}
	send := func(key, name string, value any) {
		data, err := json.Marshal(value)
		if err == nil && !bytes.Equal(sent[key], data) {
			sent[key] = data
			out.Named(name, data)
		}
	}

	changed, leave := a.Streams.Watch(caller, "")
	defer leave()

	// A key that was revoked between its admission and Watch; the run itself is read below.
	if err := a.Streams.CheckCredentials(ctx, caller); err != nil {
		return err
	}

	poll, pulse := time.NewTicker(runPoll), time.NewTicker(a.Streams.Pulse())
	defer poll.Stop()
	defer pulse.Stop()

	for {
		run, err := a.Store.DAGRun(ctx, caller.User, in.ID, in.RunID)
		if err != nil {
			return err
		}

		nodes, err := a.Store.DAGRunNodes(ctx, run.ID, false)
		if err != nil {
			return err
		}

		for _, n := range nodes {
			send(n.RunNodeID, "node:updated", n)
		}

		send("", "run:updated", run)

		if err := out.Flush(); err != nil || run.Status.Over() {
			return err
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		case <-pulse.C:
			if err := out.Comment("pulse"); err != nil {
				return err
			}

			if err := a.Streams.CheckCredentials(ctx, caller); err != nil {
				return err
			}
		case <-changed:
			if err := a.Streams.CheckCredentials(ctx, caller); err != nil {
				return err
			}
		}
	}
}
