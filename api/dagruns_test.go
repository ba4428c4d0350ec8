package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	steps "everloop/activities/contract"
	"everloop/api/production"
	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/domain/schedule"
	"everloop/infra/workspace"
	"everloop/internal/durable"
	"everloop/service/dagruns"
)

const runsOf = "/api/prod_solution/dag/{p}/runs"

var dagRunsWalk = []call{
	{
		method: "POST", path: "/api/prod_solution/dag/{prod_solution_id}/runs", scope: "solutions", url: runsOf, hasBody: true, status: 200,
		body: `{"version":2,"inputs":{"a":[1]},"unknown":1}`, missing: noDAG + "/runs", bad: []bad{
			{body: `{"version":0}`, at: "body.version"},
			{body: `{"inputs":[]}`, at: "body.inputs"},
			{body: `{"version":2,"inputs":{"a":"\u0000"}}`, at: "body.inputs"},
		},
	},
	{
		method:  "GET",
		path:    "/api/prod_solution/dag/{prod_solution_id}/runs",
		scope:   "solutions",
		url:     runsOf + "?limit=2",
		status:  200,
		missing: noDAG + "/runs",
		bad:     []bad{{path: runsOf + "?limit=0", at: "query.limit"}, {path: runsOf + "?offset=-1", at: "query.offset"}},
	},
	{
		method: "GET", path: "/api/prod_solution/dag/{prod_solution_id}/forecast", scope: "solutions", status: 200,
		url: "/api/prod_solution/dag/{p}/forecast?version=2", missing: noDAG + "/forecast",
		bad: []bad{{path: "/api/prod_solution/dag/{p}/forecast?version=0", at: "query.version"}},
	},
	{
		method: "GET", path: "/api/dag-runs", scope: "solutions", status: 200,
		url: "/api/dag-runs?status=failed&status=waiting&trigger=api&created_after=2026-01-01T00:00:00Z&limit=2",
		bad: []bad{
			{path: "/api/dag-runs?limit=0", at: "query.limit"},
			{path: "/api/dag-runs?offset=-1", at: "query.offset"},
			{path: "/api/dag-runs?status=ready", at: "query.status[0]"},
			{path: "/api/dag-runs?trigger=cron", at: "query.trigger"},
			{path: "/api/dag-runs?created_before=yesterday", at: "query.created_before"},
		},
	},
	{
		method: "POST", path: "/api/prod_solution/dag/{prod_solution_id}/nodes/{node_id}/run", scope: "solutions",
		url: "/api/prod_solution/dag/{p}/nodes/z/run", hasBody: true, status: 200,
		body: `{"version":2,"inputs":{"a":[1]},"outputs":{},"unknown":1}`, missing: noDAG + "/nodes/z/run", bad: []bad{
			{body: `{"version":0}`, at: "body.version"},
			{body: `{"inputs":[]}`, at: "body.inputs"},
			{body: `{"version":2,"outputs":{"x":1}}`, at: "body.outputs.x"},
			{body: `{"version":2,"inputs":{"a":"\u0000"}}`, at: "body.inputs"},
		},
	},
	{
		method:  "GET",
		path:    "/api/prod_solution/dag/{prod_solution_id}/runs/{run_id}",
		scope:   "solutions",
		url:     runsOf + "/{dagrun}",
		status:  200,
		missing: noDAG + "/runs/" + none,
	},
	{
		method: "GET", path: "/api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/nodes/{node_id}/items", scope: "solutions",
		url: runsOf + "/{dagrun}/nodes/s/items", status: 200, missing: noDAG + "/runs/" + none + "/nodes/s/items",
		bad: []bad{{path: runsOf + "/{dagrun}/nodes/s/items?limit=0", at: "query.limit"}},
	},
	{
		method:  "GET",
		path:    "/api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/nodes/{node_id}/files/{file_path}",
		scope:   "solutions",
		url:     runsOf + "/{dagrun}/nodes/s/files/a/b.txt",
		status:  200,
		missing: noDAG + "/runs/" + none + "/nodes/s/files/a/b.txt",
		bad:     []bad{{path: runsOf + "/{dagrun}/nodes/s/files/a/b.txt?item=x", at: "query.item"}},
	},
	{
		method:  "POST",
		path:    "/api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/cancel",
		scope:   "solutions",
		url:     runsOf + "/{dagrun}/cancel",
		status:  200,
		missing: noDAG + "/runs/" + none + "/cancel",
	},
	{
		method:  "POST",
		path:    "/api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/retry",
		scope:   "solutions",
		url:     runsOf + "/{dagrun}/retry",
		hasBody: true,
		status:  200,
		body:    `{"from_node_id":"z"}`,
		missing: noDAG + "/runs/" + none + "/retry",
		bad: []bad{
			{body: `{"version":0}`, at: "body.version"},
			{body: `{"from_node_id":"none"}`, at: "body.from_node_id"},
			{body: `{"keep_outputs_of":["z"]}`, at: "body.keep_outputs_of"},
		},
	},
	{
		method:  "GET",
		path:    "/api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/events",
		scope:   "solutions",
		url:     runsOf + "/{dagrun}/events",
		status:  200,
		stream:  true,
		missing: noDAG + "/runs/" + none + "/events",
	},
}

func (noEngine) Details(durable.Attributes) string { return "" }

func (noEngine) StartDAGRun(context.Context, string, string) error  { return nil }
func (noEngine) ResumeDAGRun(context.Context, string, string) error { return nil }
func (noEngine) LastAt(context.Context, domain.SessionID) (time.Time, error) {
	return time.Time{}, nil
}

func (noEngine) CancelDAGRun(context.Context, string, string) (bool, error) { return true, nil }
func (noEngine) AwaitDAGRun(context.Context, string, string) error          { return nil }

func (noEngine) NotifyWaiter(context.Context, schedule.ChatWaiter) (bool, error) {
	return true, nil
}

// dagRun makes a run of a solution's DAG that failed.
func (w *world) dagRun(solution string) string {
	w.t.Helper()
	run := dagrun.New{
		ID: domain.NewID(), SolutionID: solution, OwnerID: w.annID, Version: 2, Trigger: dagrun.TriggerAPI, Inputs: []byte(`{}`),
		Nodes: []string{"s", "z"},
	}
	require.NoError(w.t, dagruns.NewStore(w.db.DB).CreateDAGRun(w.t.Context(), run))
	_, err := w.db.Pool.Exec(w.t.Context(), `UPDATE dag_runs SET status = 'failed', finished_at = now() WHERE id = $1`, run.ID)
	require.NoError(w.t, err)

	set, failure, err := w.files.Collect(w.t.Context(), w.sessionWithFile("a/b.txt", "content"), "dag-"+run.ID,
		func(string) bool { return true })
	require.NoError(w.t, err)
	require.Nil(w.t, failure)

	set.Item = dagrun.NoItem
	captured, err := json.Marshal(dagrun.Captured{Sets: []dagrun.FileSet{set}})
	require.NoError(w.t, err)
	_, err = w.db.Pool.Exec(w.t.Context(), `UPDATE dag_run_nodes SET status = 'completed', output = '1', files = $2
		WHERE run_id = $1 AND node_id = 's'`, run.ID, string(captured))
	require.NoError(w.t, err)

	return run.ID
}

// sessionWithFile returns a session that is not in the database, with one file.
func (w *world) sessionWithFile(name, content string) domain.Session {
	w.t.Helper()

	session := domain.Session{ID: domain.SessionID(domain.NewID())}
	files, err := w.files.Workspaces.Open(w.t.Context(), session.ID, 0)
	require.NoError(w.t, err)

	defer func() { _ = files.Close() }()

	_, err = files.WriteFile(w.t.Context(), name, strings.NewReader(content), workspace.WriteOptions{Parents: true})
	require.NoError(w.t, err)

	return session
}

// An output file of a node is listed with its digest, and is read whole, in part, or not when the
// client has it.
func TestDAGRuns_files(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	solution := w.prodSolution(w.ann)
	run := strings.ReplaceAll(runsOf, "{p}", solution) + "/" + w.dagRun(solution)

	nodes := w.do("GET", run, w.ann, "").json()["nodes"].([]any)
	listed := nodes[0].(map[string]any)["files"].([]any)[0].(map[string]any)
	sum := sha256.Sum256([]byte("content"))
	require.Equal(t, []any{"a/b.txt", 7.0, hex.EncodeToString(sum[:])}, []any{listed["path"], listed["size"], listed["sha256"]})

	file := run + "/nodes/s/files/a/b.txt"
	whole := w.do("GET", file, w.ann, "")
	require.Equal(t, "content", whole.text)
	require.Equal(t, `"`+hex.EncodeToString(sum[:])+`"`, whole.header.Get("ETag"))
	require.Equal(t, 304, w.do("GET", file, w.ann, "", header("If-None-Match", whole.header.Get("ETag"))).status)

	part := w.do("GET", file, w.ann, "", header("Range", "bytes=1-3"))
	require.Equal(t, []any{206, "ont"}, []any{part.status, part.text})

	w.do("GET", run+"/nodes/s/files/a/none.txt", w.ann, "").code(404, "file_not_found")
	w.do("GET", run+"/nodes/s/files/a%2F..%2Fa%2Fb.txt", w.ann, "").code(404, "file_not_found")
	w.do("GET", run+"/nodes/s/files/a/b.txt?item=0", w.ann, "").code(404, "file_not_found")
	w.do("GET", file, w.bob, "").code(404, "prod_solution_not_found")
}

func TestDAGRuns_limit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	at := strings.ReplaceAll(runsOf, "{p}", w.prodSolution(w.ann))
	for range dagrun.MaxOpenRuns {
		require.Equal(t, 200, w.do(http.MethodPost, at, w.ann, `{"version":2}`).status)
	}

	w.do(http.MethodPost, at, w.ann, `{"version":2}`).code(409, "dag_run_limit")
	w.do(http.MethodPost, at, w.ann, `{}`).code(409, "dag_not_published")
}

func TestDAGRuns_versionsInUseStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.prodSolution(w.ann)
	at := "/api/prod_solution/dag/" + id
	run := w.do("POST", at+"/runs", w.ann, `{"version":2}`).json()["id"].(string)
	require.Equal(t, 200, w.do("PUT", at, w.ann, `{"base_version":2,"dag":`+smallDAG+`}`).status)
	w.do("DELETE", at+"/versions/2", w.ann, "").code(409, "version_in_use")
	require.Equal(t, 200, w.do("POST", at+"/runs/"+run+"/cancel", w.ann, "").status)

	ended := steps.StoreDAGRunIn{DAGTry: steps.DAGTry{RunID: run}, Status: dagrun.Cancelled}
	_, err := dagruns.NewStore(w.db.DB).StoreRun(t.Context(), ended)
	require.NoError(t, err)

	cancelled := w.do("GET", at+"/runs/"+run, w.ann, "").json()
	require.Equal(t, "cancelled", cancelled["status"])

	for _, node := range cancelled["nodes"].([]any) {
		require.Contains(t, node, "error", "null where nothing failed")
	}

	require.Equal(t, 200, w.do("DELETE", at+"/versions/2", w.ann, "").status)
}

// The pulse of these streams is an hour away: what ends them is the change of rights.
func TestDAGRuns_streamEndsWithTheRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *parts) { c.StreamPulse = time.Hour })
	solution := w.prodSolution(w.ann)
	run := w.dagRun(solution)
	_, err := w.db.Pool.Exec(t.Context(), `UPDATE dag_runs SET status = 'running', finished_at = NULL WHERE id = $1`, run)
	require.NoError(t, err)

	at := strings.ReplaceAll(runsOf, "{p}", solution) + "/" + run + "/events"
	follow := func(key string) *sse {
		s := w.stream(http.MethodGet, at, key, "")
		for s.event().name != "run:updated" { // then it watches
			continue
		}

		return s
	}
	ends := func(s *sse) {
		for more := true; more; {
			_, more = s.next()
		}
	}

	made := w.do(http.MethodPost, "/api/user/api-keys/", w.ann, `{"name":"k"}`).json()
	revoked := follow(made["plaintext"].(string))
	require.Equal(t, 204, w.do(http.MethodDelete, "/api/user/api-keys/"+made["key"].(map[string]any)["id"].(string), w.ann, "").status)
	ends(revoked)

	deputy, key := w.person("deputy", true)
	lost := follow(key)

	require.Equal(t, 200, w.do(http.MethodDelete, "/api/admin/admins/"+deputy, w.root, "").status)
	ends(lost)
	w.do(http.MethodGet, at, key, "").code(404, "prod_solution_not_found")
}

// overtaken is met by a change between the first read of a run and its answer.
type overtaken struct {
	production.DAGRunRecords
	meets func()
	once  sync.Once
}

func (o *overtaken) DAGRun(ctx context.Context, caller domain.User, solutionID, runID string) (dagrun.RunRecord, error) {
	run, err := o.DAGRunRecords.DAGRun(ctx, caller, solutionID, runID)
	o.once.Do(o.meets)

	return run, err
}

func TestDAGRuns_streamOfKeyRevokedMeanwhile(t *testing.T) {
	t.Parallel()

	records := &overtaken{}
	w := newWorld(t, func(c *parts) {
		c.StreamPulse = time.Hour
		records.DAGRunRecords, c.Production.DAGRunRecords = c.Production.DAGRunRecords, records
	})
	solution := w.prodSolution(w.ann)
	run := w.dagRun(solution)
	_, err := w.db.Pool.Exec(t.Context(), `UPDATE dag_runs SET status = 'running', finished_at = NULL WHERE id = $1`, run)
	require.NoError(t, err)

	made := w.do(http.MethodPost, "/api/user/api-keys/", w.ann, `{"name":"k"}`).json()
	records.meets = func() {
		w.do(http.MethodDelete, "/api/user/api-keys/"+made["key"].(map[string]any)["id"].(string), w.ann, "")
	}

	at := strings.ReplaceAll(runsOf, "{p}", solution) + "/" + run + "/events"

	s := w.stream(http.MethodGet, at, made["plaintext"].(string), "")
	for more := true; more; {
		_, more = s.next()
	}
}
