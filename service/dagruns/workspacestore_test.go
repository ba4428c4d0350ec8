package dagruns_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain/dagrun"
)

// A node continues the workspace as the node before it left it that worked there, not as one that
// was skipped or not approved.
func TestStore_ActivateNode_workspace(t *testing.T) {
	t.Parallel()

	db, store, user, set := newStore(t)
	set(`INSERT INTO prod_solutions (id, owner_id, name) VALUES ('p', $1, 'p')`, user.ID)
	set(`INSERT INTO prod_documents (solution_id, kind, latest) VALUES ('p', 'dag', 1)`)
	set(`INSERT INTO prod_document_versions (solution_id, kind, version, content, digest, created_by, node_count, edge_count, message)
		VALUES ('p', 'dag', 1, $2, 'd', $1, 5, 4, '')`, user.ID, `{"nodes":[{"id":"a","type":"code"},
		{"id":"b","type":"code","workspace":"a"},{"id":"c","type":"code","workspace":"b"},{"id":"d","type":"code","workspace":"a"},
		{"id":"n","type":"code","workspace":"a"}],"edges":[{"id":"1","source":"a","target":"b"},{"id":"2","source":"b","target":"c"},
		{"id":"3","source":"c","target":"d"},{"id":"4","source":"d","target":"n"}]}`)
	set(`INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, status, inputs)
		VALUES ('r', 'p', $1, 1, 'api', 'running', '{}')`, user.ID)
	set(`INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, status, session_id, error_code) VALUES
		('ra', 'r', 'p', 'a', 'completed', 'sa', NULL), ('rb', 'r', 'p', 'b', 'failed', 'sb', 'timeout'),
		('rc', 'r', 'p', 'c', 'failed', 'sc', 'not_approved'), ('rd', 'r', 'p', 'd', 'skipped', NULL, NULL),
		('rn', 'r', 'p', 'n', 'pending', NULL, NULL)`)

	_, err := store.ActivateNode(t.Context(), contract.ActivateDAGNodeIn{
		DAGNode: contract.DAGNode{DAGTry: contract.DAGTry{RunID: "r"}, NodeID: "n"}, Start: true,
	})
	require.NoError(t, err)

	var (
		text    string
		request dagrun.Request
	)

	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT request FROM dag_run_nodes WHERE id = 'rn'`).Scan(&text))
	require.NoError(t, json.Unmarshal([]byte(text), &request))
	require.Equal(t, "rb", request.Workspace)
}
