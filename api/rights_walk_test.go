package api_test

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/app"
	"everloop/service/accounts"
	"everloop/service/apps"
)

// ofTheCaller are the operations that name nothing of one user: they list or create what is
// the caller's own, or read what every signed-in caller may read. An operation of the walk is
// in this list, public, for administrators, or owned.
var ofTheCaller = []string{
	"GET /api/config",
	"GET /api/config/models",
	"GET /api/auth/me",
	"POST /api/sessions",
	"GET /api/sessions",
	"POST /api/user/api-keys/",
	"GET /api/user/api-keys/",
	"POST /api/mcp-servers",
	"GET /api/mcp-servers",
	"POST /api/memories",
	"GET /api/memories",
	"POST /api/memories/batch",
	"GET /api/memories/{id}",
	"PUT /api/memories/{id}",
	"PATCH /api/memories/{id}",
	"DELETE /api/memories/{id}",
	"GET /api/solutions",
	"GET /api/solutions/{solution_id}/biz-roles",
	"GET /api/solutions/{solution_id}/files/{file_path}",
	"PUT /api/env/buckets/{bucket}",
	"GET /api/env/buckets",
	"GET /api/env/buckets/{bucket}",
	"DELETE /api/env/buckets/{bucket}",
	"GET /api/network-rules",
	"POST /api/network-rules",
	"GET /api/user/preferences/{key}",
	"PUT /api/user/preferences/{key}",
	"GET /api/profile",
	"PUT /api/profile",
	"GET /api/skills",
	"GET /api/skills/installed",
	"GET /api/skills/search",
	"GET /api/skills/{skill_id}",
	"GET /api/registry/resources",
	"GET /api/registry/resources/{id}",
	"GET /api/registry/organizations",
	"GET /api/registry/templates",
	"GET /api/registry/templates/{type_key}/{subtype}",
	"GET /api/registry/scenarios",
	"GET /api/registry/skill-store/stats",
	"GET /api/gis/status",
	"GET /api/dag-runs",
	"GET /api/inbox",
	"POST /api/inbox/{question_id}/answer",
	"POST /api/user/compute-env/reset",
	"GET /api/user/compute-env/upgrade",
	"POST /api/user/compute-env/upgrade",
	"POST /api/apps",
	"GET /api/apps",
	"GET /api/apps/{app_id}",
	"DELETE /api/apps/{app_id}",
	"POST /api/sessions/tokenize/prompt",
	"POST /api/sessions/tokenize/messages",
	"POST /api/sessions/preview-import",
	"POST /api/transcribe",
	"POST /api/sessions/import",
	"GET /api/sessions/extra_info/by_task/{task_id}",
	"POST /api/prod_solution",
	"GET /api/prod_solution",
	"POST /api/scheduled-tasks",
	"GET /api/scheduled-tasks",
	"GET /api/scheduled-tasks/calendar",
	"GET /api/scheduled-tasks/preview",
	"POST /api/prod_agents",
	"GET /api/prod_agents",
	"GET /api/prod_agents/solution-catalog",
	"GET /api/agent-runtimes",
	"POST /api/agent-instances",
	"GET /api/agent-instances",
	"POST /api/triggers",
	"GET /api/triggers",
	"POST /api/webhooks",
	"GET /api/webhooks",
	"GET /api/user/usage",
	"POST /api/prod_workspaces",
	"GET /api/prod_workspaces",
	"GET /api/invitations",
	"POST /api/invitations/{invitation_id}/accept",
	"POST /api/invitations/{invitation_id}/decline",
}

// ofPeers are the operations on a production agent, which members of a common workspace see
// and start, and do not change, with their status for such a member.
var ofPeers = map[string]int{
	"GET /api/prod_agents/{record_id}":                http.StatusOK,
	"PUT /api/prod_agents/{record_id}":                http.StatusForbidden,
	"DELETE /api/prod_agents/{record_id}":             http.StatusForbidden,
	"POST /api/prod_agents/{record_id}/instantiate":   http.StatusOK,
	"POST /api/prod_agents/{record_id}/start-session": http.StatusOK,
}

// annJoinsBob makes ann a member of a workspace of bob.
func (w *world) annJoinsBob() {
	w.t.Helper()

	workspace := w.do("POST", "/api/prod_workspaces", w.bob, `{"name":"Bob's"}`).json()["id"].(string)
	r := w.do("POST", "/api/prod_workspaces/"+workspace+"/members", w.bob, `{"user_id":"ann","role":"member"}`)
	require.Less(w.t, r.status, 300, r.text)

	items := w.do("GET", "/api/invitations", w.ann, "").json()["items"].([]any)
	require.Len(w.t, items, 1)

	id := items[0].(map[string]any)["id"].(string)
	require.Equal(w.t, 200, w.do("POST", "/api/invitations/"+id+"/accept", w.ann, "").status)
}

// TestRights_everyOperation tries every operation of the walk with every kind of credential
// whose right has ended or never reached it.
func TestRights_everyOperation(t *testing.T) {
	t.Parallel()

	w := newWorld(t)
	w.annJoinsBob()

	exec := func(sql string, args ...any) {
		_, err := w.db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	rootID := w.do("GET", "/api/auth/me", w.root, "").json()["id"].(string)

	disabledID, disabled := w.person("disabled", true)
	exec(`UPDATE users SET disabled_at = now() WHERE id = $1`, disabledID)

	deletedID, deleted := w.person("deleted", true)
	require.NoError(t, accounts.New(w.db.DB).DeleteUser(t.Context(), deletedID))

	demotedID, demoted := w.person("demoted", true)
	require.NoError(t, accounts.New(w.db.DB).SetAdministrator(t.Context(), demotedID, false))

	single := map[string]string{}
	for scope := range allScopes {
		single[scope] = w.keyOf(rootID, scope)
	}

	walked := map[string]bool{}

	for _, c := range walk {
		name := c.method + " " + c.path
		walked[name] = true

		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t

			if c.public {
				return
			}

			require.NotEqual(t, c.admin || c.owned(), slices.Contains(ofTheCaller, name),
				"classify the operation: owned, for administrators, or in ofTheCaller")

			if !c.owned() || c.admin {
				require.Equal(t, 401, w.status(c.method, c.url, disabled, c.body))
				require.Equal(t, 401, w.status(c.method, c.url, deleted, c.body))

				if c.admin {
					w.do(c.method, c.url, demoted, c.body).code(403, "administrator_required")
				}

				for scope, key := range single {
					if c.admin && scope != "admin" {
						w.do(c.method, c.url, key, c.body).code(403, "scope_missing")
					}
				}

				return
			}

			c, _ := w.ready(c)
			require.Equal(t, 401, w.status(c.method, c.url, disabled, c.body))
			require.Equal(t, 401, w.status(c.method, c.url, deleted, c.body))
			require.Equal(t, 404, w.status(c.method, c.url, demoted, c.body), "who no longer administers")
			require.Equal(t, cmp.Or(ofPeers[name], 404), w.status(c.method, c.url, w.bob, c.body), "a member of the same workspace")

			for scope, key := range single {
				if scope != "admin" {
					require.Contains(t, []int{403, 404}, w.status(c.method, c.url, key, c.body), "an administrator with %s", scope)
				}
			}

			// What belongs to a closed account is there for others as before, and for its
			// owner no more.
			for state, column := range map[string]string{"disabled": "disabled_at", "deleted": "deleted_at"} {
				owner := w.keyOf(w.annID)
				exec(`UPDATE users SET `+column+` = now() WHERE id = $1`, w.annID)
				require.Equal(t, 401, w.status(c.method, c.url, owner, c.body), "the owner, %s", state)
				require.Equal(t, 404, w.status(c.method, c.url, demoted, c.body), "who no longer administers, of a %s owner", state)
				require.Equal(t, cmp.Or(ofPeers[name], 404), w.status(c.method, c.url, w.bob, c.body), "a member, of a %s owner", state)
				exec(`UPDATE users SET `+column+` = NULL WHERE id = $1`, w.annID)
			}
		})
	}

	for _, name := range ofTheCaller {
		require.True(t, walked[name], "%s is not walked any more", name)
	}
}

// TestRights_workspaceOfAClosedAccount holds that a workspace whose owner's account is closed
// stays what it was for its members: they read it, and manage it no more than before.
func TestRights_workspaceOfAClosedAccount(t *testing.T) {
	t.Parallel()

	for _, column := range []string{"disabled_at", "deleted_at"} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()

			w := newWorld(t)
			w.annJoinsBob()
			workspace := w.do("GET", "/api/prod_workspaces", w.ann, "").json()["items"].([]any)[0].(map[string]any)["id"].(string)
			at := "/api/prod_workspaces/" + workspace
			bob := w.do("GET", "/api/auth/me", w.bob, "").json()["id"].(string)
			owner := w.keyOf(bob)

			_, err := w.db.Pool.Exec(t.Context(), `UPDATE users SET `+column+` = now() WHERE id = $1`, bob)
			require.NoError(t, err)

			_, outsider := w.person("outsider", false)

			for _, read := range []string{at, at + "/members", at + "/agents", at + "/squads"} {
				require.Equal(t, 200, w.status("GET", read, w.ann, ""), "a member reads %s", read)
				require.Equal(t, 404, w.status("GET", read, outsider, ""), "another user reads %s", read)
				require.Equal(t, 401, w.status("GET", read, owner, ""), "the owner reads %s", read)
			}

			for _, change := range [][3]string{
				{"DELETE", at, ""},
				{"POST", at + "/members", `{"user_id":"ann","role":"owner"}`},
				{"DELETE", at + "/members/" + bob, ""},
			} {
				require.Equal(t, 403, w.status(change[0], change[1], w.ann, change[2]), "a member: %s %s", change[0], change[1])
				require.Equal(t, 404, w.status(change[0], change[1], outsider, change[2]), "another user: %s %s", change[0], change[1])
				require.Equal(t, 401, w.status(change[0], change[1], owner, change[2]), "the owner: %s %s", change[0], change[1])
			}
		})
	}
}

// page is the copy of an app with one page.
type page struct{ apps.Copies }

func (page) Open(context.Context, string, string) (app.File, error) {
	const text = "<h1>published</h1>"
	return app.File{Content: inMemory{strings.NewReader(text)}, Size: int64(len(text)), ETag: `"v1"`}, nil
}

func (page) Directory(context.Context, string, string) (bool, error) { return false, nil }

// TestRights_appOfAClosedAccount holds that an app is served while the account of its owner is
// open, and only then.
func TestRights_appOfAClosedAccount(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *parts) {
		published, err := apps.New(apps.Config{Store: apps.NewStore(c.db.DB), Copies: page{}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)

		c.Files.Apps = published
	})
	exec := func(sql string, args ...any) {
		_, err := w.db.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	id := domain.NewID()
	exec(`
		INSERT INTO apps (id, owner_id, session_id, working_dir, name, status, copy_id, published_at)
		VALUES ($1, $2, 's1', 'site', 'site', 'live', 'copy', now())`, id, w.annID)

	address := "/apps/" + id + "/index.html"
	served := func(want int, when string) {
		for _, key := range []string{"", w.bob, w.root} {
			require.Equal(t, want, w.status("GET", address, key, ""), when)
		}
	}

	served(200, "an open account")
	exec(`UPDATE users SET disabled_at = now() WHERE id = $1`, w.annID)
	served(404, "disabled")
	exec(`UPDATE users SET disabled_at = NULL WHERE id = $1`, w.annID)
	served(200, "enabled again")
	require.NoError(t, accounts.New(w.db.DB).DeleteUser(t.Context(), w.annID))
	served(404, "deleted")
}
