package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/board"
	boards "everloop/service/board"
)

var invitationsWalk = []call{
	{method: "GET", path: "/api/invitations", scope: "workspaces", url: "/api/invitations", status: 200},
	{
		method: "POST", path: "/api/invitations/{invitation_id}/accept", scope: "workspaces",
		url: "/api/invitations/{invitation}/accept", status: 200, missing: "/api/invitations/" + none + "/accept",
	},
	{
		method: "POST", path: "/api/invitations/{invitation_id}/decline", scope: "workspaces",
		url: "/api/invitations/{invitation}/decline", status: 200, missing: "/api/invitations/" + none + "/decline",
	},
	{
		method: "GET", path: "/api/prod_workspaces/{workspace_id}/invitations", scope: "workspaces",
		url: onBoard + "/invitations", status: 200, missing: noBoard + "/invitations",
	},
}

// invitation returns the id of the only invitation that a user sees.
func (w *world) invitation(key string) string {
	w.t.Helper()

	items := w.do("GET", "/api/invitations", key, "").json()["items"].([]any)
	require.Len(w.t, items, 1)

	return items[0].(map[string]any)["id"].(string)
}

// invited creates an invitation of ann's.
func (w *world) invited() string {
	w.t.Helper()

	ctx := w.t.Context()
	host, _ := w.person("host-"+domain.NewID(), false)
	made, err := boards.NewStore(w.db.DB).
		CreateWorkspace(ctx, host, board.NewWorkspace{Name: "Inviting", Settings: board.DefaultWorkspaceSettings})
	require.NoError(w.t, err)

	set, err := boards.NewStore(w.db.DB).SetMember(ctx, host, made.ID, "ann", board.WorkspaceMember)
	require.NoError(w.t, err)

	return set.ID
}

// joins invites a user, who accepts.
func (w *world) joins(workspace, name, key, role string) {
	w.t.Helper()

	at := "/api/prod_workspaces/" + workspace + "/members"
	require.Equal(w.t, 200, w.do("POST", at, w.ann, `{"user_id":"`+name+`","role":"`+role+`"}`).status)
	require.Equal(w.t, 200, w.do("POST", "/api/invitations/"+w.invitation(key)+"/accept", key, "").status)
}

func TestProdWorkspaces_invitedMembersAccept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.boardOfAnn()
	at := "/api/prod_workspaces/" + b.workspace
	bobs := w.do("POST", "/api/agent-instances", w.bob, `{"name":"Bobs","runtime_id":"builtin"}`).json()["id"].(string)

	invited := w.do("POST", at+"/members", w.ann, `{"user_id":"bob","role":"member"}`).json()
	require.Equal(t, []any{"invited", "bob", "bob", "", nil}, []any{
		invited["state"], invited["user_id"], invited["name"], invited["email"], invited["avatar_url"],
	})

	// Nothing of the invited user is visible, and nothing of the workspace to them.
	w.do("GET", at, w.bob, "").code(404, "workspace_not_found")
	require.Len(t, w.do("GET", at+"/members", w.ann, "").json()["items"], 2)
	require.NotContains(t, w.do("GET", at+"/agents", w.ann, "").text, bobs)
	require.Len(t, w.do("GET", at+"/invitations", w.ann, "").json()["items"], 1)

	own := w.do("GET", "/api/invitations", w.bob, "").json()["items"].([]any)[0].(map[string]any)
	require.Equal(t, []any{b.workspace, "Board", "member", "ann"}, []any{
		own["workspace_id"], own["workspace_name"], own["role"], own["invited_by"],
	})
	w.do("POST", "/api/invitations/"+own["id"].(string)+"/accept", w.ann, "").code(404, "invitation_not_found")

	accepted := w.do("POST", "/api/invitations/"+own["id"].(string)+"/accept", w.bob, "").json()
	require.Equal(t, []any{b.workspace, "member"}, []any{accepted["id"], accepted["role"]})
	require.Len(t, w.do("GET", at+"/members", w.ann, "").json()["items"], 3)
	require.Empty(t, w.do("GET", "/api/invitations", w.bob, "").json()["items"])
	require.Empty(t, w.do("GET", at+"/invitations", w.ann, "").json()["items"])
	require.Equal(t, "member", w.do("POST", at+"/members", w.ann, `{"user_id":"bob","role":"viewer"}`).json()["state"])
}

// An invitation that is declined looks as one of a user that does not exist.
func TestProdWorkspaces_invitationsOfUnknownUsersLookAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.boardOfAnn()
	at := "/api/prod_workspaces/" + b.workspace

	shape := func(r reply) map[string]any {
		t.Helper()
		require.Equal(t, 200, r.status, r.text)

		body := r.json()
		delete(body, "id")
		delete(body, "created_at")
		delete(body, "user_id")
		delete(body, "name")

		return body
	}

	known := shape(w.do("POST", at+"/members", w.ann, `{"user_id":"BOB","role":"viewer"}`))
	require.Equal(t, shape(w.do("POST", at+"/members", w.ann, `{"user_id":"no-such-user","role":"viewer"}`)), known)

	require.Equal(t, true, w.do("POST", "/api/invitations/"+w.invitation(w.bob)+"/decline", w.bob, "").json()["ok"])
	require.Empty(t, w.do("GET", "/api/invitations", w.bob, "").json()["items"])

	pending := w.do("GET", at+"/invitations", w.ann, "").json()["items"].([]any)
	require.Len(t, pending, 2)

	for _, one := range pending {
		require.Equal(t, "invited", one.(map[string]any)["state"])
		name := one.(map[string]any)["user_id"].(string)
		require.Equal(t, 200, w.do("DELETE", at+"/members/"+name, w.ann, "").status)
		w.do("DELETE", at+"/members/"+name, w.ann, "").code(404, "member_not_found")
	}

	require.Empty(t, w.do("GET", at+"/invitations", w.ann, "").json()["items"])
}

// An invitation ends with the right of the member who made it.
func TestProdWorkspaces_invitationsNeedTheirInviter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.boardOfAnn()
	at := "/api/prod_workspaces/" + b.workspace
	w.joins(b.workspace, "bob", w.bob, "admin")
	_, carol := w.person("carol", false)
	require.Equal(t, 200, w.do("POST", at+"/members", w.bob, `{"user_id":"carol","role":"admin"}`).status)
	id := w.invitation(carol)
	w.do("GET", at+"/invitations", carol, "").code(404, "workspace_not_found")
	require.Equal(t, 200, w.do("POST", at+"/members", w.ann, `{"user_id":"bob","role":"viewer"}`).status)
	w.do("GET", at+"/invitations", w.bob, "").code(403, "workspace_role_required")
	require.Empty(t, w.do("GET", "/api/invitations", carol, "").json()["items"])
	w.do("POST", "/api/invitations/"+id+"/accept", carol, "").code(404, "invitation_not_found")
}

// An instance is its owner's alone unless it is shared with a workspace.
func TestAgentInstances_areSharedWithNamedWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.boardOfAnn()
	at := "/api/prod_workspaces/" + b.workspace
	w.joins(b.workspace, "bob", w.bob, "member")

	id := w.do("POST", "/api/agent-instances", w.bob, `{"name":"Bobs","runtime_id":"builtin","env":{"A":"1"}}`).json()["id"].(string)
	assign := `{"title":"t","assignee_type":"agent","assignee_id":"` + id + `"}`

	hidden := func() {
		t.Helper()
		w.do("GET", "/api/agent-instances/"+id, w.ann, "").code(404, "agent_instance_not_found")
		require.NotContains(t, w.do("GET", "/api/agent-instances", w.ann, "").text, id)
		require.NotContains(t, w.do("GET", at+"/agents", w.ann, "").text, id)
		w.do("POST", at+"/issues", w.ann, assign).code(404, "assignee_not_found")
		w.do("POST", at+"/squads", w.ann, `{"name":"S","leader_id":"`+id+`"}`).code(404, "assignee_not_found")
	}
	hidden()

	foreign := w.do("POST", "/api/prod_workspaces", w.ann, `{"name":"Anns"}`).json()["id"].(string)
	w.do("PATCH", "/api/agent-instances/"+id, w.bob, `{"shared_with":[{"workspace_id":"`+foreign+`"}]}`).code(404, "workspace_not_found")

	shared := w.do("PATCH", "/api/agent-instances/"+id, w.bob, `{"shared_with":[{"workspace_id":"`+b.workspace+`","secrets":true}]}`).json()
	require.Equal(t, []any{map[string]any{"workspace_id": b.workspace, "secrets": true}}, shared["shared_with"])
	require.Equal(t, "Bobs", w.do("GET", "/api/agent-instances/"+id, w.ann, "").json()["name"])
	require.Contains(t, w.do("GET", at+"/agents", w.ann, "").text, id)
	require.Empty(
		t,
		w.do("GET", "/api/agent-instances/"+id, w.ann, "").json()["shared_with"],
		"only the owner reads with whom it is shared",
	)
	require.Equal(t, 200, w.do("POST", at+"/issues", w.ann, assign).status)

	// It is assigned by members and above, in workspaces where its owner is one, and not while it is private.
	require.Equal(t, 200, w.do("POST", at+"/members", w.ann, `{"user_id":"bob","role":"viewer"}`).status)
	hidden()
	require.Equal(t, 200, w.do("POST", at+"/members", w.ann, `{"user_id":"bob","role":"member"}`).status)
	require.Equal(t, 200, w.do("POST", at+"/issues", w.ann, assign).status)
	require.Equal(t, 200, w.do("PATCH", "/api/agent-instances/"+id, w.bob, `{"visibility":"private"}`).status)
	hidden()
	require.Equal(t, 200, w.do("PATCH", "/api/agent-instances/"+id, w.bob, `{"visibility":"workspace","shared_with":[]}`).status)
	hidden()
}
