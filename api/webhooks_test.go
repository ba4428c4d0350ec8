package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/webhook"
	"everloop/service/webhooks"
)

var webhooksWalk = []call{
	{
		method: "POST", path: "/api/webhooks", scope: "sessions:write", url: "/api/webhooks", status: 200, hasBody: true,
		body: `{"url":"https://hooks.example.org/x","events":["chat.failed"]}`, bad: []bad{
			{body: `{}`, at: "body.url"},
			{body: `{"url":""}`, at: "body.url"},
			{body: `{"url":"ftp://example.org"}`, at: "body.url"},
			{body: `{"url":"https://a:b@example.org"}`, at: "body.url"},
			{body: `{"url":"https://2130706433/"}`, at: "body.url"},
			{body: `{"url":"https://example.org:0/"}`, at: "body.url"},
			{body: `{"url":"https:///x"}`, at: "body.url"},
			{body: `{"url":"https://example.org/#x"}`, at: "body.url"},
			{body: `{"url":"https://example.org","events":["odd"]}`, at: "body.events[0]"},
			{body: `{"url":"https://example.org","events":"*"}`, at: "body.events"},
			{body: `{"url":"https://example.org","session_id":"` + none + `"}`, at: "body.session_id"},
			{body: `{"url":"https://example.org","task_id":"` + none + `"}`, at: "body.task_id"},
			{body: `{"url":"https://example.org","description":"` + strings.Repeat("x", 501) + `"}`, at: "body.description"},
		},
	},
	{method: "GET", path: "/api/webhooks", scope: "sessions:read", url: "/api/webhooks", status: 200},
	{
		method:  "GET",
		path:    "/api/webhooks/{id}",
		scope:   "sessions:read",
		url:     "/api/webhooks/{hook}",
		status:  200,
		missing: "/api/webhooks/" + none,
	},
	{
		method: "PATCH", path: "/api/webhooks/{id}", scope: "sessions:write", url: "/api/webhooks/{hook}", status: 200, hasBody: true,
		body: `{"description":"y"}`, missing: "/api/webhooks/" + none, bad: []bad{
			{
				body: `{"url":"x"}`,
				at:   "body.url",
			},
			{body: `{"events":["odd"]}`, at: "body.events[0]"},
			{body: `{"enabled":1}`, at: "body.enabled"},
		},
	},
	{
		method:  "POST",
		path:    "/api/webhooks/{id}/rotate-secret",
		scope:   "sessions:write",
		url:     "/api/webhooks/{hook}/rotate-secret",
		status:  200,
		hasBody: true,
		body:    `{"overlap_s":60}`,
		missing: "/api/webhooks/" + none + "/rotate-secret",
		bad:     []bad{{body: `{"overlap_s":-1}`, at: "body.overlap_s"}},
	},
	{
		method: "GET", path: "/api/webhooks/{id}/deliveries", scope: "sessions:read", url: "/api/webhooks/{hook}/deliveries", status: 200,
		missing: "/api/webhooks/" + none + "/deliveries", bad: []bad{
			{path: "/api/webhooks/{hook}/deliveries?limit=0", at: "query.limit"},
			{path: "/api/webhooks/{hook}/deliveries?status=odd", at: "query.status"},
			{path: "/api/webhooks/{hook}/deliveries?event=odd", at: "query.event"},
		},
	},
	{
		method:  "POST",
		path:    "/api/webhooks/{id}/deliveries/{delivery_id}/redeliver",
		scope:   "sessions:write",
		url:     "/api/webhooks/{hook}/deliveries/{delivery}/redeliver",
		status:  200,
		missing: "/api/webhooks/{hook}/deliveries/" + none + "/redeliver",
	},
	{
		method:  "DELETE",
		path:    "/api/webhooks/{id}",
		scope:   "sessions:write",
		url:     "/api/webhooks/{hook}",
		status:  204,
		missing: "/api/webhooks/" + none,
	},
}

// webhook makes a webhook of ann's, in place of those that ann has, and a delivery of it.
func (w *world) webhook() (id, delivery string) {
	w.t.Helper()
	_, err := w.db.Pool.Exec(w.t.Context(), `DELETE FROM webhooks WHERE owner_id = $1`, w.annID)
	require.NoError(w.t, err)
	made, err := webhooks.NewStore(w.db.DB).CreateWebhook(w.t.Context(), w.annID, domain.NewID(), webhook.Spec{
		URL: "https://hooks.example.org/", Events: []webhook.Event{webhook.All}, Enabled: true,
	}, []byte("sealed"))
	require.NoError(w.t, err)

	delivery = domain.NewID()
	_, err = w.db.Pool.Exec(w.t.Context(), `
		INSERT INTO webhook_deliveries (id, webhook_id, event, body, status) VALUES ($1, $2, 'chat.failed', '{"type":"chat.failed"}', 'failed')`,
		delivery, made.ID)
	require.NoError(w.t, err)

	return made.ID, delivery
}

func TestWebhooks_secretIsShownOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.do("POST", "/api/webhooks", w.ann, `{"url":"https://hooks.example.org/x"}`).json()
	secret := made["secret"].(string)
	require.True(t, strings.HasPrefix(secret, "whsec_"), secret)
	require.Equal(t, []any{"*"}, made["events"])

	path := "/api/webhooks/" + made["id"].(string)
	require.NotContains(t, w.do("GET", path, w.ann, "").text, "whsec_")
	require.NotContains(t, w.do("GET", "/api/webhooks", w.ann, "").text, "whsec_")
	rotated := w.do("POST", path+"/rotate-secret", w.ann, "").json()
	require.NotEqual(t, secret, rotated["secret"])

	for _, request := range []string{"/api/webhooks", path + "/rotate-secret"} {
		once := func() reply {
			return w.do("POST", request, w.ann, `{"url":"https://hooks.example.org/y"}`, idempotencyKey(request))
		}
		require.Contains(t, once().text, "whsec_")
		once().code(409, "idempotency_secret_not_kept")
	}

	var kept int
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `
		SELECT count(*) FROM idempotency_keys WHERE position('whsec_'::bytea IN response) > 0`).Scan(&kept))
	require.Zero(t, kept)
	require.NotNil(t, rotated["previous_secret_until"])
	require.Nil(t, w.do("POST", path+"/rotate-secret", w.ann, `{"overlap_s":0}`).json()["previous_secret_until"])

	var plain int
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `
		SELECT count(*) FROM webhooks WHERE position('whsec_'::bytea IN sealed) > 0`).Scan(&plain))
	require.Zero(t, plain, "secrets are sealed")
	require.NotContains(t, w.log.String(), "whsec_")
}

func TestWebhooks_limit(t *testing.T) {
	t.Parallel()

	w := newWorld(t)
	for range webhook.MaxWebhooks {
		require.Equal(t, 200, w.do("POST", "/api/webhooks", w.ann, `{"url":"https://hooks.example.org/x"}`).status)
	}

	w.do("POST", "/api/webhooks", w.ann, `{"url":"https://hooks.example.org/x"}`).code(409, "webhook_limit")
	require.Equal(t, 200, w.do("POST", "/api/webhooks", w.bob, `{"url":"https://hooks.example.org/x"}`).status)
}

func TestWebhooks_redeliverOfDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, delivery := w.webhook()
	path := "/api/webhooks/" + id
	require.Equal(t, "pending", w.do("POST", path+"/deliveries/"+delivery+"/redeliver", w.ann, "").json()["status"])
	require.Equal(t, 200, w.do("PATCH", path, w.ann, `{"enabled":false}`).status)
	failed := w.do("GET", path+"/deliveries?status=failed", w.ann, "").json()["items"].([]any)[0].(map[string]any)
	require.Equal(t, "the webhook was disabled", failed["error"])
	w.do("POST", path+"/deliveries/"+delivery+"/redeliver", w.ann, "").code(409, "webhook_disabled")
}

func TestScheduledTasks_notifyAndPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.webhook()
	body := func(notify string) string {
		return `{"title":"t","prompt":"p","cron":"@daily","notify":["` + notify + `"],"question_policy":{"timeout_s":60,"on_timeout":"first_option"}}`
	}
	made := w.do("POST", "/api/scheduled-tasks", w.ann, body(id)).json()
	require.Equal(t, []any{id}, made["notify"])
	require.Equal(t, map[string]any{"timeout_s": 60.0, "on_timeout": "first_option"}, made["question_policy"])
	require.Equal(t, []string{"body.notify"}, w.do("POST", "/api/scheduled-tasks", w.ann, body(none)).fields())
	require.Equal(t, []string{"body.notify"}, w.do("POST", "/api/scheduled-tasks", w.bob, body(id)).fields())

	path := "/api/scheduled-tasks/" + made["id"].(string)

	require.Equal(t, 204, w.do("DELETE", "/api/webhooks/"+id, w.ann, "").status)
	require.Equal(t, 200, w.do("PATCH", path, w.ann, `{"title":"other"}`).status, "what it named may be gone")
	changed := w.do("PATCH", path, w.ann, `{"notify":[],"question_policy":null}`).json()
	require.Empty(t, changed["notify"])
	require.Nil(t, changed["question_policy"])
}

func TestSessions_questionPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session := w.session(`{"session_setup":{"question_policy":{"timeout_s":60,"escalate_after_s":5}}}`)
	setup := w.do("GET", "/api/sessions/"+session, w.ann, "").json()["session_setup"].(map[string]any)
	require.Equal(t, map[string]any{"timeout_s": 60.0, "escalate_after_s": 5.0}, setup["question_policy"])
	setup = w.do("PATCH", "/api/sessions/"+session, w.ann, `{"session_setup":{"question_policy":{}}}`).json()["session_setup"].(map[string]any)
	require.NotContains(t, setup, "question_policy")
	require.Equal(t, []string{"body.session_setup.question_policy.timeout_s"},
		w.do("PATCH", "/api/sessions/"+session, w.ann, `{"session_setup":{"question_policy":{"timeout_s":0}}}`).fields())
}
