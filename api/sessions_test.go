package api_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/api/system"
	"everloop/domain"
)

func TestSessionLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(
		`{"intent":"Write a report","model":"m-1","env":{"TOKEN":"s3cret"},"disable_tools":["Bash"],"solution_id":null,"memory_enabled":true}`,
	)

	detail := w.do("GET", "/api/sessions/"+id, w.ann, "")
	d := detail.json()
	require.Equal(t, "Write a report", d["intent"])
	require.Equal(t, "created", d["status"])
	require.Equal(t, "none", d["waiting_reason"])
	require.Equal(t, "m-1", d["model"])
	require.Equal(t, w.annID, d["user_id"])
	require.Equal(t, "owner", d["viewer_role"])
	require.Equal(t, map[string]any{}, d["solution"])
	require.Nil(t, d["primary_skill_snapshot"])
	require.Contains(t, d, "primary_skill_snapshot")
	require.Nil(t, d["solution_id"])
	require.Nil(t, d["replay_state"])
	require.Contains(t, d, "last_end")
	require.Nil(t, d["last_end"])
	require.NotContains(t, detail.text, "s3cret", "only a change of the environment shows it")

	setup := d["session_setup"].(map[string]any)
	require.Equal(t, []any{"Read"}, setup["tools_enabled"])
	require.Equal(t, []any{"Bash"}, setup["disable_tools"])
	require.Equal(t, "executing", setup["mode"])
	require.Equal(t, "enqueue", setup["delivery_default"])

	d = w.do("PUT", "/api/sessions/"+id+"/env", w.ann, `{"env":{"A":"1"}}`).json()
	require.Equal(t, map[string]any{"A": "1"}, d["env"])
	require.Equal(t, "owner", d["viewer_role"], "the detail with the environment")
	require.Equal(t, true, w.do("PATCH", "/api/sessions/"+id+"/pin", w.ann, `{"pinned":true}`).json()["is_pinned"])
	require.Equal(
		t,
		map[string]any{"memory_enabled": false},
		w.do("PATCH", "/api/sessions/"+id+"/memory", w.ann, `{"memory_enabled":false}`).json(),
	)
	require.Equal(t, "Another", w.do("PATCH", "/api/sessions/"+id, w.ann, `{"intent":"Another"}`).json()["intent"])
	require.Equal(t, "Another", w.do("PATCH", "/api/sessions/"+id, w.ann, `{"intent":null}`).json()["intent"], "null says nothing")
	require.Equal(t, "Another", w.do("PATCH", "/api/sessions/"+id, w.ann, ``).json()["intent"])

	page := w.do("GET", "/api/sessions?q=ANOTH&limit=5", w.ann, "").json()
	require.EqualValues(t, 1, page["total"])
	require.EqualValues(t, 5, page["limit"])
	require.EqualValues(t, 0, page["offset"])
	require.Equal(t, false, page["content_match_truncated"])

	item := page["items"].([]any)[0].(map[string]any)
	for _, field := range []string{
		"id", "intent", "status", "created_at", "updated_at", "user_id", "solution_id", "biz_role_id", "model",
		"shared", "is_pinned", "memory_enabled", "is_persistent", "replay_state",
	} {
		require.Contains(t, item, field)
	}

	require.NotContains(t, item, "env")

	require.Equal(t, map[string]any{"deleted": true}, w.do("DELETE", "/api/sessions/"+id, w.ann, "").json())
	require.Equal(t, []domain.SessionID{domain.SessionID(id)}, w.deleted.ids)

	w.do("POST", "/api/sessions", w.ann, "") // all of it is optional
	require.EqualValues(t, 0, w.do("GET", "/api/sessions", w.bob, "").json()["total"], "lists are one's own")
}

// The detail has how the last chat ended; lists, which are read often, do not.
func TestSessionDetail_lastEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(`{}`)
	end := `{"chat_id":"c1","status":"completed","finish_reason":"completed","usage":{"input_tokens":1,"output_tokens":2},"steps":1,` +
		`"duration_ms":5,"result":{"output":{"n":12345678901234567890}}}`
	_, err := w.db.Pool.Exec(t.Context(), `UPDATE sessions SET last_end = $2::json WHERE id = $1`, id, end)
	require.NoError(t, err)

	detail := w.do("GET", "/api/sessions/"+id, w.ann, "")
	require.Equal(t, "c1", detail.json()["last_end"].(map[string]any)["chat_id"])
	require.Contains(t, detail.text, `"output":{"n":12345678901234567890}`)
	require.Contains(t, w.do("PATCH", "/api/sessions/"+id+"/pin", w.ann, `{"pinned":true}`).text, `"last_end":{`)
	require.NotContains(t, w.do("GET", "/api/sessions", w.ann, "").text, "last_end")
	w.do("GET", "/api/sessions/"+id, w.bob, "").code(404, "session_not_found")
}

func TestWhoMaySeeASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(`{"env":{"TOKEN":"s3cret"}}`)
	path := "/api/sessions/" + id
	reads := []string{"", "/messages", "/ls/", "/background-tasks", "/tasks"}
	audited := func() (n int) {
		require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'session.read'
			AND target = $1`, id).Scan(&n))

		return n
	}

	for _, r := range reads {
		w.do("GET", path+r, w.bob, "").code(404, "session_not_found")
	}

	require.Equal(t, map[string]any{"shared": true}, w.do("PATCH", path+"/sharing", w.ann, `{"shared":true}`).json())

	for _, r := range reads {
		require.Equal(t, 200, w.do("GET", path+r, w.bob, "").status, r)
	}

	require.Zero(t, audited())

	seen := w.do("GET", path, w.bob, "")
	require.Equal(t, "viewer", seen.json()["viewer_role"])
	require.NotContains(t, seen.text, "s3cret")

	for _, c := range [][3]string{
		{"PATCH", "", `{"intent":"x"}`},
		{"PATCH", "", `{}`},
		{"DELETE", "", ""},
		{"PUT", "/env", `{"env":{}}`},
		{"PATCH", "/pin", `{"pinned":true}`},
		{"PATCH", "/sharing", `{"shared":false}`},
		{"PATCH", "/memory", `{"memory_enabled":true}`},
		{"PUT", "/files/a", `{"content":""}`},
		{"DELETE", "/files/a", ""},
		{"POST", "/chat", `{"message":"x"}`},
		{"POST", "/stop", ""},
		{"POST", "/background-tasks/task-1/stop", ""},
	} {
		w.do(c[0], path+c[1], w.bob, c[2]).code(403, "forbidden")
		w.do(c[0], path+c[1], w.root, c[2]).code(403, "forbidden")
	}

	require.Empty(t, w.chats.messages())
	require.Empty(t, w.deleted.ids)

	for i, r := range reads {
		require.Equal(t, 200, w.do("GET", path+r, w.root, "").status)
		require.Equal(t, i+1, audited(), "every look by privilege is recorded")
	}

	require.Equal(t, "admin", w.do("GET", path, w.root, "").json()["viewer_role"])
}

func TestUnknownModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("POST", "/api/sessions", w.ann, `{"model":"nope"}`).code(422, "unknown_model")
	w.models.err = domain.Unavailablef("the model gateway", errors.New("refused by 10.0.0.1"))
	require.Equal(t, 200, w.do("POST", "/api/sessions", w.ann, `{"model":"nope"}`).status, "without a list the model is believed")
	r := w.do("GET", "/api/config/models", w.ann, "")
	r.code(503, "dependency_unavailable")
	require.NotContains(t, r.text, "10.0.0.1")
	require.Contains(t, r.text, "model gateway")

	w.models.err = nil
	require.JSONEq(t, `{"default":"m-1","models":[{"id":"m-1","name":"m-1","context_window":128000,"max_output":0,"modalities":["text"],
		"supports":{"tools":false,"thinking":false,"json_schema":false}}]}`,
		w.do("GET", "/api/config/models", w.ann, "").text)
	require.Equal(t, 200, w.do("POST", "/api/sessions", w.ann, `{"model":"m-alias"}`).status, "an alias of the gateway names its model")
}

// The default is the model that chats find, which is not always the first.
func TestDefaultModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *parts) { c.Session.Views.Setup.DefaultModel, c.System.DefaultModel = "", "" })
	w.models.others = []domain.Model{{ID: "ears", Modalities: []string{"audio"}}}
	list := w.do("GET", "/api/config/models", w.ann, "").json()
	require.Equal(t, "m-1", list["default"])
	require.Len(t, list["models"], 2)
}

func TestTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(`{}`)
	subject := "first"
	_, err := w.db.AddSessionTask(t.Context(), domain.SessionID(id), "t1", domain.SessionTaskChange{Subject: &subject})
	require.NoError(t, err)

	list := w.do("GET", "/api/sessions/"+id+"/tasks", w.ann, "").json()
	require.EqualValues(t, 1, list["total"])
	item := list["items"].([]any)[0].(map[string]any)
	require.Equal(t, "first", item["subject"])
	require.Equal(t, "pending", item["status"])
	require.Equal(t, []any{}, item["blocked_by"])

	list = w.do("GET", "/api/sessions/"+id+"/background-tasks", w.ann, "").json()
	require.EqualValues(t, 1, list["total"])

	out := w.do("GET", "/api/sessions/"+id+"/background-tasks/task-1", w.ann, "").json()
	require.Equal(t, []any{}, out["lines"])
	require.Equal(t, 100, w.tasks.tail)
	w.do("GET", "/api/sessions/"+id+"/background-tasks/task-1?tail=3", w.ann, "")
	require.Equal(t, 3, w.tasks.tail)
}

func TestService(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *parts) {
		c.System.Client = system.ClientConfig{ASREnabled: true, GISMapURL: "https://maps.example"}
	})
	require.JSONEq(t, `{"version":"2026.11.21","min_sdk":"1"}`, w.do("GET", "/api/version", "", "").text)
	require.JSONEq(t, `{"status":"ok"}`, w.do("GET", "/healthz", "", "").text)
	config := w.do("GET", "/api/config", w.ann, "").json()
	require.Len(t, config, 9)
	require.Equal(t, true, config["asrEnabled"])

	me := w.do("GET", "/api/auth/me", w.ann, "").json()
	require.Equal(t, "ann", me["username"])
	require.Equal(t, w.annID, me["id"])
	require.Nil(t, me["avatar_url"])
	require.Contains(t, me, "created_at")

	w.down["postgres"] = nil
	require.JSONEq(t, `{"status":"ok","checks":["postgres"]}`, w.do("GET", "/readyz", "", "").text)
	w.down["disk"] = system.Degraded{Err: errors.New("1 byte is free")}
	require.JSONEq(t, `{"status":"degraded","checks":["disk","postgres"],"degraded":["disk"]}`, w.do("GET", "/readyz", "", "").text)
	delete(w.down, "disk")
	w.down["nats"] = errors.New("dial tcp 10.1.2.3: refused")
	r := w.do("GET", "/readyz", "", "")
	r.code(503, "dependency_unavailable")
	require.Contains(t, r.text, "nats")
	require.NotContains(t, r.text, "10.1.2.3")
	require.Contains(t, w.log.String(), "10.1.2.3", "why is for the log")
	metrics := w.do("GET", "/metrics", "", "").text
	require.Contains(t, metrics, `everloop_http_request_seconds_count{method="GET",route="/readyz",status="503"} 1`)
	require.NotContains(t, metrics, w.annID)
}

func TestAnOutageOfTheStoreIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("GET", "/api/auth/me", w.ann, "")
	_, err := w.db.Pool.Exec(context.Background(), `ALTER TABLE sessions RENAME TO gone`)
	require.NoError(t, err)

	r := w.do("GET", "/api/sessions", w.ann, "")
	r.code(500, "internal_error")
	require.NotContains(t, r.text, "relation", "no internal detail")
	require.Contains(t, w.log.String(), "relation", "but the log has it")
}

func TestSessionMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shown := func(r reply) any {
		require.Equal(t, 200, r.status, r.text)
		return r.json()["session_setup"].(map[string]any)["mode"]
	}
	require.Equal(t, "executing", shown(w.do("GET", "/api/sessions/"+w.session(`{}`), w.ann, "")))
	id := "/api/sessions/" + w.session(`{"mode":"planning"}`)
	require.Equal(t, "planning", shown(w.do("GET", id, w.ann, "")))
	require.Equal(t, "planning", shown(w.do("PATCH", id, w.ann, `{"intent":"x","mode":null}`)))
	require.Equal(t, "executing", shown(w.do("PATCH", id, w.ann, `{"mode":"executing"}`)))
	require.Equal(t, "executing", shown(w.do("GET", id, w.ann, "")))
}

func TestMe_scopesAndExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.do("GET", "/api/auth/me", w.ann, "").json()
	require.Equal(t, "ann", me["username"])
	require.Contains(t, me, "scopes")
	require.Nil(t, me["scopes"], "all that ann may")
	require.Nil(t, me["expires_at"])

	made := w.do("POST", "/api/user/api-keys/", w.ann, `{"name":"n","scopes":["skills:write","chat"],"expires_at":"2100-01-02T03:04:05Z"}`).
		json()
	for range 2 { // looked up, and remembered
		me = w.do("GET", "/api/auth/me", made["plaintext"].(string), "").json()
		require.Equal(t, []any{"skills:write", "chat"}, me["scopes"])
		require.Equal(t, "2100-01-02T03:04:05Z", me["expires_at"])
	}
}

func TestSessionNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(`{"network":"none","session_setup":{"permissions":[{"tool":"Network","pattern":"*.example.org","decision":"allow"}]}}`)
	path := "/api/sessions/" + id
	network := func(r reply) any { return r.json()["session_setup"].(map[string]any)["network"] }
	require.Equal(t, "none", network(w.do("GET", path, w.ann, "")))
	require.Equal(t, "rules", network(w.do("PATCH", path, w.ann, `{"network":"rules"}`)))
	require.Equal(t, "rules", network(w.do("PATCH", path, w.ann, `{"network":null}`)), "null leaves it")
	require.Equal(t, "rules", network(w.do("GET", "/api/sessions/"+w.session(`{}`), w.ann, "")), "as the service")

	for _, body := range []string{`{"network":"public"}`, `{"network":"all"}`} {
		require.Contains(t, w.do("PATCH", path, w.ann, body).fields(), "body.network")
		require.Contains(t, w.do("POST", "/api/sessions", w.ann, body).fields(), "body.network")
	}

	bad := `{"session_setup":{"permissions":[{"tool":"Network","decision":"deny"},{"tool":"Network","pattern":"http://x","decision":"allow"}]}}`
	require.Contains(t, w.do("PATCH", path, w.ann, bad).fields(), "body.session_setup.permissions[1].pattern")
	require.Contains(t, w.do("POST", "/api/sessions", w.ann, bad).fields(), "body.session_setup.permissions[1].pattern")
}

func TestSessionSetup_sandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *parts) { c.Session.Views.Setup.SandboxImage = "tools:1" })
	id := w.session(`{}`)
	sandbox := func() map[string]any {
		return w.do("GET", "/api/sessions/"+id, w.ann, "").json()["session_setup"].(map[string]any)["sandbox"].(map[string]any)
	}

	idle := sandbox()
	require.Equal(t, []any{"tools:1", "idle"}, []any{idle["image"], idle["state"]})

	_, err := w.db.Pool.Exec(t.Context(), `UPDATE sessions SET status = 'running' WHERE id = $1`, id)
	require.NoError(t, err)
	require.Equal(t, idle, sandbox(), "only the model works")

	_, err = w.db.Pool.Exec(t.Context(), `
		INSERT INTO background_tasks (id, session_id, kind, title, status, started_at)
		VALUES ('t', $1, 'shell', 't', 'running', '2030-01-01T00:00:00Z')`, id)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"image": "tools:1", "state": "running", "since": "2030-01-01T00:00:00Z"}, sandbox())
}
