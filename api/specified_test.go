package api_test

import (
	_ "embed"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// specified.txt is every operation that the specification names, one a line.
//
//go:embed testdata/specified.txt
var specified string

// later are specified operations that are not built yet. The list may only
// shrink.
var later = []string{
	"GET /api/agent-instances",
	"POST /api/agent-instances",
	"GET /api/agent-instances/{id}",
	"GET /api/agent-runtimes",
	"GET /api/payloads/{payload_id}/annotations",
	"POST /api/payloads/{payload_id}/annotations",
	"DELETE /api/payloads/{payload_id}/annotations/{annotation_id}",
	"PATCH /api/payloads/{payload_id}/annotations/{annotation_id}",
	"GET /api/prod_agents",
	"POST /api/prod_agents",
	"GET /api/prod_agents/solution-catalog",
	"DELETE /api/prod_agents/{record_id}",
	"GET /api/prod_agents/{record_id}",
	"PUT /api/prod_agents/{record_id}",
	"POST /api/prod_agents/{record_id}/instantiate",
	"POST /api/prod_agents/{record_id}/start-session",
	"GET /api/prod_solution",
	"POST /api/prod_solution",
	"GET /api/prod_solution/dag/{prod_solution_id}",
	"PUT /api/prod_solution/dag/{prod_solution_id}",
	"GET /api/prod_solution/dag/{prod_solution_id}/diff",
	"POST /api/prod_solution/dag/{prod_solution_id}/publish",
	"POST /api/prod_solution/dag/{prod_solution_id}/rollback",
	"GET /api/prod_solution/dag/{prod_solution_id}/runs",
	"POST /api/prod_solution/dag/{prod_solution_id}/runs",
	"GET /api/prod_solution/dag/{prod_solution_id}/runs/{run_id}",
	"POST /api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/cancel",
	"POST /api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/retry",
	"POST /api/prod_solution/dag/{prod_solution_id}/validate",
	"GET /api/prod_solution/dag/{prod_solution_id}/versions",
	"DELETE /api/prod_solution/dag/{prod_solution_id}/versions/{version}",
	"GET /api/prod_solution/dag/{prod_solution_id}/versions/{version}",
	"DELETE /api/prod_solution/{prod_solution_id}",
	"GET /api/prod_solution/{prod_solution_id}",
	"PATCH /api/prod_solution/{prod_solution_id}",
	"PUT /api/prod_solution/{prod_solution_id}/session",
	"GET /api/prod_workspaces",
	"POST /api/prod_workspaces",
	"GET /api/prod_workspaces/{workspace_id}",
	"GET /api/prod_workspaces/{workspace_id}/agents",
	"GET /api/prod_workspaces/{workspace_id}/assistant-session",
	"PUT /api/prod_workspaces/{workspace_id}/assistant-session",
	"GET /api/prod_workspaces/{workspace_id}/issues",
	"POST /api/prod_workspaces/{workspace_id}/issues",
	"GET /api/prod_workspaces/{workspace_id}/issues/child-progress",
	"GET /api/prod_workspaces/{workspace_id}/issues/grouped",
	"GET /api/prod_workspaces/{workspace_id}/issues/query",
	"GET /api/prod_workspaces/{workspace_id}/issues/{issue_id}",
	"PUT /api/prod_workspaces/{workspace_id}/issues/{issue_id}",
	"GET /api/prod_workspaces/{workspace_id}/issues/{issue_id}/comments",
	"POST /api/prod_workspaces/{workspace_id}/issues/{issue_id}/comments",
	"GET /api/prod_workspaces/{workspace_id}/issues/{issue_id}/task-runs",
	"GET /api/prod_workspaces/{workspace_id}/issues/{issue_id}/timeline",
	"GET /api/prod_workspaces/{workspace_id}/issues/{issue_id}/usage",
	"GET /api/prod_workspaces/{workspace_id}/members",
	"POST /api/prod_workspaces/{workspace_id}/members",
	"DELETE /api/prod_workspaces/{workspace_id}/members/{user_id}",
	"GET /api/prod_workspaces/{workspace_id}/squads",
	"POST /api/prod_workspaces/{workspace_id}/squads",
	"GET /api/scheduled-tasks",
	"POST /api/scheduled-tasks",
	"GET /api/scheduled-tasks/calendar",
	"DELETE /api/scheduled-tasks/{id}",
	"GET /api/scheduled-tasks/{id}",
	"PATCH /api/scheduled-tasks/{id}",
	"POST /api/scheduled-tasks/{id}/run",
	"GET /api/scheduled-tasks/{id}/runs",
	"POST /api/scheduled-tasks/{id}/start",
	"POST /api/scheduled-tasks/{id}/stop",
	"GET /api/webhooks",
	"POST /api/webhooks",
	"DELETE /api/webhooks/{id}",
	"GET /api/webhooks/{id}",
	"PATCH /api/webhooks/{id}",
	"GET /api/webhooks/{id}/deliveries",
}

// TestSpecifiedOperations holds the document to the specification: what it names
// is there, but for what comes later.
func TestSpecifiedOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	require.NoError(t, json.Unmarshal([]byte(w.do("GET", "/api/openapi.json", "", "").text), &doc))
	documented := map[string]bool{}
	for path, item := range doc.Paths {
		for method := range item {
			documented[strings.ToUpper(method)+" "+path] = true
		}
	}
	var missing []string
	for operation := range strings.Lines(specified) {
		if operation = strings.TrimSpace(operation); !documented[operation] {
			missing = append(missing, operation)
		}
	}
	require.ElementsMatch(t, later, missing)
}
