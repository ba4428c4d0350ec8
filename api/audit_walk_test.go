package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// auditedAs is the action that each operation leaves in the audit trail
// (docs/rest.md#audit-trail). Operations for administrators that are not here leave
// admin.read.
var auditedAs = map[string]string{
	"POST /api/admin/admins":                                                       "admin.grant",
	"DELETE /api/admin/admins/{user_id}":                                           "admin.revoke",
	"POST /api/admin/runs/{workflow_id}/cancel":                                    "run.cancel",
	"POST /api/admin/runs/{workflow_id}/force-fail":                                "run.force_fail",
	"POST /api/admin/runs/{workflow_id}/resume":                                    "run.resume",
	"POST /api/admin/users":                                                        "user.create",
	"DELETE /api/admin/users/{user_id}":                                            "user.delete",
	"PUT /api/admin/users/{user_id}/biz-roles":                                     "user.biz_roles",
	"POST /api/apps":                                                               "app.create",
	"DELETE /api/apps/{app_id}":                                                    "app.delete",
	"DELETE /api/env/buckets/{bucket}":                                             "env_bucket.delete",
	"POST /api/network-rules":                                                      "network_rule.set",
	"DELETE /api/network-rules/{id}":                                               "network_rule.delete",
	"POST /api/mcp-servers":                                                        "mcp_server.create",
	"PATCH /api/mcp-servers/{id}":                                                  "mcp_server.change",
	"DELETE /api/mcp-servers/{id}":                                                 "mcp_server.delete",
	"POST /api/mcp-servers/{id}/tools/accept":                                      "mcp_server.accept_tools",
	"POST /api/agent-instances":                                                    "agent_instance.create",
	"PATCH /api/agent-instances/{id}":                                              "agent_instance.change",
	"DELETE /api/agent-instances/{id}":                                             "agent_instance.delete",
	"POST /api/prod_agents":                                                        "prod_agent.create",
	"PUT /api/prod_agents/{record_id}":                                             "prod_agent.change",
	"DELETE /api/prod_agents/{record_id}":                                          "prod_agent.delete",
	"POST /api/prod_agents/{record_id}/instantiate":                                "agent_instance.create",
	"POST /api/prod_solution":                                                      "prod_solution.create",
	"PATCH /api/prod_solution/{prod_solution_id}":                                  "prod_solution.change",
	"DELETE /api/prod_solution/{prod_solution_id}":                                 "prod_solution.delete",
	"PUT /api/prod_solution/{prod_solution_id}/session":                            "prod_solution.change",
	"POST /api/prod_solution/dag/{prod_solution_id}/publish":                       "prod_dag.publish",
	"POST /api/prod_solution/dag/{prod_solution_id}/rollback":                      "prod_dag.rollback",
	"DELETE /api/prod_solution/dag/{prod_solution_id}/versions/{version}":          "prod_dag.delete_version",
	"POST /api/prod_solution/dag/{prod_solution_id}/runs":                          "dag_run.create",
	"POST /api/prod_solution/dag/{prod_solution_id}/nodes/{node_id}/run":           "dag_run.create",
	"POST /api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/cancel":          "dag_run.cancel",
	"POST /api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/retry":           "dag_run.retry",
	"POST /api/prod_solution/architecture/{prod_solution_id}/publish":              "prod_architecture.publish",
	"POST /api/prod_solution/architecture/{prod_solution_id}/rollback":             "prod_architecture.rollback",
	"DELETE /api/prod_solution/architecture/{prod_solution_id}/versions/{version}": "prod_architecture.delete_version",
	"DELETE /api/payloads/{payload_id}/annotations/{annotation_id}":                "annotation.delete",
	"DELETE /api/memories/{id}":                                                    "memory.delete",
	"POST /api/scheduled-tasks":                                                    "scheduled_task.create",
	"PATCH /api/scheduled-tasks/{id}":                                              "scheduled_task.change",
	"DELETE /api/scheduled-tasks/{id}":                                             "scheduled_task.delete",
	"POST /api/scheduled-tasks/{id}/start":                                         "scheduled_task.start",
	"POST /api/scheduled-tasks/{id}/stop":                                          "scheduled_task.stop",
	"POST /api/scheduled-tasks/{id}/backfill":                                      "scheduled_task.backfill",
	"POST /api/scheduled-tasks/{id}/run":                                           "scheduled_task.run",
	"POST /api/triggers":                                                           "trigger.create",
	"PATCH /api/triggers/{id}":                                                     "trigger.change",
	"DELETE /api/triggers/{id}":                                                    "trigger.delete",
	"POST /api/triggers/{id}/deliveries/{delivery_id}/redeliver":                   "trigger.redeliver",
	"POST /api/webhooks":                                                           "webhook.create",
	"PATCH /api/webhooks/{id}":                                                     "webhook.change",
	"DELETE /api/webhooks/{id}":                                                    "webhook.delete",
	"POST /api/webhooks/{id}/rotate-secret":                                        "webhook.rotate",
	"POST /api/webhooks/{id}/deliveries/{delivery_id}/redeliver":                   "webhook.redeliver",
	"GET /api/sessions/{session_id}/export":                                        "session.export",
	"POST /api/sessions/import":                                                    "session.import",
	"DELETE /api/sessions/{session_id}":                                            "session.delete",
	"DELETE /api/sessions/{session_id}/files/{file_path}":                          "file.delete",
	"POST /api/sessions/{session_id}/share":                                        "share_link.create",
	"DELETE /api/sessions/{session_id}/share/{token}":                              "share_link.delete",
	"POST /api/user/api-keys/":                                                     "api_key.create",
	"DELETE /api/user/api-keys/{id}":                                               "api_key.delete",

	"POST /api/prod_workspaces":                                                            "workspace.create",
	"DELETE /api/prod_workspaces/{workspace_id}":                                           "workspace.delete",
	"PUT /api/prod_workspaces/{workspace_id}/assistant-session":                            "workspace.assistant",
	"POST /api/prod_workspaces/{workspace_id}/members":                                     "workspace.member",
	"DELETE /api/prod_workspaces/{workspace_id}/members/{user_id}":                         "workspace.member_remove",
	"POST /api/invitations/{invitation_id}/accept":                                         "workspace.join",
	"POST /api/invitations/{invitation_id}/decline":                                        "workspace.decline",
	"POST /api/prod_workspaces/{workspace_id}/squads":                                      "workspace.squad",
	"PATCH /api/prod_workspaces/{workspace_id}/squads/{squad_id}":                          "workspace.squad_change",
	"DELETE /api/prod_workspaces/{workspace_id}/squads/{squad_id}":                         "workspace.squad_delete",
	"DELETE /api/prod_workspaces/{workspace_id}/issues/{issue_id}":                         "issue.delete",
	"POST /api/prod_workspaces/{workspace_id}/issues/{issue_id}/task-runs":                 "issue_run.start",
	"POST /api/prod_workspaces/{workspace_id}/issues/{issue_id}/task-runs/{run_id}/cancel": "issue_run.cancel",
}

// audited returns the targets of the records of one action, each with the operation that it
// names, the oldest first.
func (w *world) audited(action string) (out []string) {
	w.t.Helper()
	require.NoError(w.t, w.db.Pool.QueryRow(w.t.Context(), `
		SELECT coalesce(array_agg(target || ' ' || coalesce(details->>'operation', '') ORDER BY id), '{}')
		FROM   audit WHERE action = $1`, action).Scan(&out))

	return out
}

// TestAuditTrail_operations makes every call and holds the trail to the table:
// what is listed leaves one record of its caller, and nothing else leaves one.
func TestAuditTrail_operations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	for _, c := range walk {
		name := c.method + " " + c.path

		action := auditedAs[name]
		if action == "" && c.admin {
			action = "admin.read"
		}

		if c.method == http.MethodDelete {
			require.NotEmpty(t, action, "%s is not audited", name)
		}

		if c.status >= 300 || c.stream && !strings.HasSuffix(c.path, "/export") && !c.admin {
			continue // has no end, or is refused here
		}

		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			c, who := w.ready(c)
			records := func() (n int, newest string) {
				require.NoError(t, w.db.Pool.QueryRow(t.Context(), `
					SELECT count(*), coalesce((SELECT action || ' ' || (target <> '') FROM audit a
						WHERE action NOT LIKE 'auth.%' ORDER BY id DESC LIMIT 1), '')
					FROM audit WHERE action NOT LIKE 'auth.%'`).Scan(&n, &newest))

				return n, newest
			}
			before, _ := records()
			r := w.do(c.method, c.url, who, c.body)
			require.Equal(t, c.status, r.status, r.text)

			after, newest := records()
			if action == "" {
				require.Equal(t, before, after, newest)
				return
			}

			require.Equal(t, before+1, after)

			if action == "admin.read" {
				require.Contains(t, newest, action)
				return
			}

			require.Equal(t, action+" true", newest)
		})
	}
}

// TestAuditTrail_signInsAndRefusals counts the records of a busy key and of a
// guessing client: once each, however often they come.
func TestAuditTrail_signInsAndRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	key := w.restricted("files")
	for range 3 {
		require.Equal(t, 200, w.do("GET", "/api/auth/me", key, "").status)
		w.do("GET", "/api/sessions", key, "").code(403, "scope_missing")
		w.do("GET", "/api/admin/users", w.bob, "").code(403, "administrator_required")
		w.do("GET", "/api/sessions", "el_wrong", "").code(401, "unauthorized")
		w.do("GET", "/api/memories", "el_wrong_too", "").code(401, "unauthorized")
	}

	require.Equal(t, 404, w.do("GET", "/api/sessions/"+none, w.ann, "").status)
	trail := w.do("GET", "/api/admin/audit?limit=100", w.root, "").json()["items"].([]any)
	seen := map[string]int{}

	for _, item := range trail {
		record := item.(map[string]any)
		details := record["details"].(map[string]any)
		require.Equal(t, "rest", details["edge"])
		require.NotEmpty(t, details["address"])
		code, _ := details["code"].(string)
		operation, _ := details["operation"].(string)
		seen[strings.Join([]string{record["action"].(string), record["actor_name"].(string), code, operation}, " ")]++
		require.NotContains(t, record, "el_")
	}

	require.Equal(t, map[string]int{
		"auth.sign_in ann  ": 2, "auth.sign_in bob  ": 1, "auth.sign_in root  ": 1, // two keys of ann
		"auth.refused ann scope_missing /api/sessions":             1,
		"auth.refused bob administrator_required /api/admin/users": 1,
		"auth.refused  unauthorized ":                              1,
	}, seen)
}
