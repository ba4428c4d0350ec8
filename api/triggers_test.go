package api_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/trigger"
)

const promptTarget = `"target":{"kind":"prompt","prompt":"Look at {{body.id}}"}`

var triggersWalk = []call{
	{
		method: "POST", path: "/api/triggers", scope: "triggers", url: "/api/triggers", status: 201, hasBody: true,
		body: `{"name":"Pushes","auth":"github","filter":"event == \"push\"",` + promptTarget + `}`, bad: []bad{
			{body: `{}`, at: "body.name"},
			{body: `{"name":"  ","auth":"github",` + promptTarget + `}`, at: "body.name"},
			{body: `{"name":"x",` + promptTarget + `}`, at: "body.auth"},
			{body: `{"name":"x","auth":"odd",` + promptTarget + `}`, at: "body.auth"},
			{body: `{"name":"x","kind":"odd","auth":"github",` + promptTarget + `}`, at: "body.kind"},
			{body: `{"name":"x","auth":"github"}`, at: "body.target"},
			{body: `{"name":"x","auth":"github","target":{"kind":"prompt"}}`, at: "body.target.prompt"},
			{body: `{"name":"x","auth":"github","target":{"kind":"odd","prompt":"x"}}`, at: "body.target.kind"},
			{body: `{"name":"x","auth":"github","target":{"kind":"prompt","prompt":"{{event.x}}"}}`, at: "body.target.prompt"},
			{body: `{"name":"x","auth":"github","target":{"kind":"session","prompt":"x"}}`, at: "body.target.session_id"},
			{
				body: `{"name":"x","auth":"github","target":{"kind":"session","prompt":"x","session_id":"` + none + `"}}`,
				at:   "body.target.session_id",
			},
			{
				body: `{"name":"x","auth":"github","target":{"kind":"session","prompt":"x","session_id":"{s}","delivery":"interrupt"}}`,
				at:   "body.target.delivery",
			},
			{body: `{"name":"x","auth":"github","filter":"body.",` + promptTarget + `}`, at: "body.filter"},
			{body: `{"name":"x","auth":"github","filter":"other == 1",` + promptTarget + `}`, at: "body.filter"},
			{body: `{"name":"x","auth":"github","secret":"short",` + promptTarget + `}`, at: "body.secret"},
			{body: `{"name":"x","auth":"standard","secret":"whsec_c2hvcnQ=",` + promptTarget + `}`, at: "body.secret"},
			{body: `{"name":"x","auth":"github","rate_limit":0,` + promptTarget + `}`, at: "body.rate_limit"},
			{body: `{"name":"x","kind":"run_ended",` + promptTarget + `}`, at: "body.source"},
			{body: `{"name":"x","kind":"run_ended","source":{"kind":"task","id":"{t}"},` + promptTarget + `}`, at: "body.on"},
			{
				body: `{"name":"x","kind":"run_ended","on":["run_failed"],"source":{"kind":"dag","id":"` + none + `"},` + promptTarget + `}`,
				at:   "body.source.id",
			},
		},
	},
	{method: "GET", path: "/api/triggers", scope: "triggers", url: "/api/triggers", status: 200},
	{
		method: "GET", path: "/api/triggers/{id}", scope: "triggers", url: "/api/triggers/{trigger}", status: 200,
		missing: "/api/triggers/" + none,
	},
	{
		method: "PATCH", path: "/api/triggers/{id}", scope: "triggers", url: "/api/triggers/{trigger}", status: 200, hasBody: true,
		body: `{"name":"y","enabled":true}`, missing: "/api/triggers/" + none, bad: []bad{
			{body: `{"name":""}`, at: "body.name"},
			{body: `{"enabled":1}`, at: "body.enabled"},
			{body: `{"auth":"slack"}`, at: "body.auth"},
			{body: `{"filter":"body."}`, at: "body.filter"},
			{body: `{"on":["run_failed"]}`, at: "body.source"},
		},
	},
	{
		method: "GET", path: "/api/triggers/{id}/deliveries", scope: "triggers", url: "/api/triggers/{trigger}/deliveries", status: 200,
		missing: "/api/triggers/" + none + "/deliveries", bad: []bad{
			{path: "/api/triggers/{trigger}/deliveries?limit=0", at: "query.limit"},
			{path: "/api/triggers/{trigger}/deliveries?outcome=odd", at: "query.outcome"},
		},
	},
	{
		method: "POST", path: "/api/triggers/{id}/deliveries/{delivery_id}/redeliver", scope: "triggers",
		url: "/api/triggers/{trigger}/deliveries/{arrived}/redeliver", status: 200,
		missing: "/api/triggers/{trigger}/deliveries/" + none + "/redeliver",
	},
	{
		method: "POST", path: "/hooks/{trigger_id}", scope: "public", url: "/hooks/{hooked}", body: `{"id":1}`, status: 202, public: true,
		missing: "/hooks/" + none,
	},
	{
		method: "DELETE", path: "/api/triggers/{id}", scope: "triggers", url: "/api/triggers/{trigger}", status: 204,
		missing: "/api/triggers/" + none,
	},
}

// trigger makes a trigger of ann's, whose secret is ann's key, in place of those that ann has, and a
// delivery of it.
func (w *world) trigger() (id, delivery string) {
	w.t.Helper()
	_, err := w.db.Pool.Exec(w.t.Context(), `DELETE FROM triggers WHERE owner_id = $1`, w.annID)
	require.NoError(w.t, err)

	id, _ = w.hooked(`{"name":"x","auth":"bearer","secret":"` + w.ann + `",` + promptTarget + `}`)

	delivery = domain.NewID()
	_, err = w.db.Pool.Exec(w.t.Context(), `
		INSERT INTO trigger_deliveries (id, work_id, trigger_id, key, counted, outcome, event, headers, body, body_bytes)
		VALUES ($1, 'w', $2, 'k', true, 'failed', 'push', '{}', '{}', 2)`, delivery, id)
	require.NoError(w.t, err)

	return id, delivery
}

// StartTrigger implements the start of a delivery.
func (noEngine) StartTrigger(context.Context, string, string) error { return errNoEngine }

// hooked is a trigger of ann's over the interface.
func (w *world) hooked(body string) (id, secret string) {
	w.t.Helper()
	r := w.do("POST", "/api/triggers", w.ann, body)
	require.Equal(w.t, 201, r.status, r.text)

	return r.json()["id"].(string), r.json()["secret"].(string)
}

func TestTriggers_secretIsShownOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, secret := w.hooked(`{"name":"x","auth":"standard",` + promptTarget + `}`)
	require.True(t, strings.HasPrefix(secret, "whsec_"), secret)

	for _, read := range []string{"/api/triggers", "/api/triggers/" + id} {
		require.NotContains(t, w.do("GET", read, w.ann, "").text, secret)
	}

	require.NotContains(t, w.do("PATCH", "/api/triggers/"+id, w.ann, `{"name":"y"}`).json(), "secret")

	rotated := w.do("PATCH", "/api/triggers/"+id, w.ann, `{"secret":null}`).json()["secret"]
	require.NotEqual(t, secret, rotated)
	require.Equal(
		t,
		"a secret of the sender",
		w.do("PATCH", "/api/triggers/"+id, w.ann, `{"secret":"a secret of the sender"}`).json()["secret"],
	)
}

// hook sends a request with a bearer token to the address of a trigger.
func (w *world) hook(path, secret, body string) reply {
	w.t.Helper()
	return w.do("POST", path, "", body, header("Authorization", "Bearer "+secret))
}

func TestTriggers_receive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, secret := w.hooked(`{"name":"x","auth":"bearer","filter":"body.id != 3","rate_limit":4,` + promptTarget + `}`)
	hook := "/hooks/" + id

	first := w.hook(hook, secret, `{"id":1}`)
	require.Equal(t, 202, first.status, first.text)
	again := w.hook(hook, secret, `{"id":1}`)
	require.Equal(t, []any{200, first.json()["delivery_id"]}, []any{again.status, again.json()["delivery_id"]})

	w.hook(hook, "not the secret", `{"id":2}`).code(401, "invalid_signature")
	w.hook("/hooks/"+none, secret, `{"id":2}`).code(404, "trigger_not_found")
	require.Equal(t, 202, w.hook(hook, secret, `{"id":3}`).status)
	w.hook(hook, secret, `{"x":"`+strings.Repeat("x", trigger.MaxBody)+`"}`).code(413, "body_too_large")

	large := `{"x":"` + strings.Repeat("x", trigger.MaxBody-8) + `"}`
	require.Len(t, large, trigger.MaxBody)
	require.Equal(t, 202, w.hook(hook, secret, large).status)
	require.Equal(t, 202, w.hook(hook, secret, `{"id":4}`).status)
	limited := w.hook(hook, secret, `{"id":5}`)
	limited.code(429, "trigger_rate_limited")
	require.Regexp(t, `^[1-9][0-9]?$`, limited.header.Get("Retry-After"))

	require.Equal(t, 200, w.do("PATCH", "/api/triggers/"+id, w.ann, `{"enabled":false,"rate_limit":600}`).status)
	require.Equal(t, 202, w.hook(hook, secret, `{"id":5}`).status)

	page := w.do("GET", "/api/triggers/"+id+"/deliveries", w.ann, "").json()

	var outcomes []any
	for _, item := range page["items"].([]any) {
		outcomes = append(outcomes, item.(map[string]any)["outcome"])
	}

	require.Equal(t, []any{"paused", "rate_limited", nil, nil, "filtered", "invalid_signature", "duplicate", nil}, outcomes)
	require.EqualValues(t, len(outcomes), page["total"])
	require.NotContains(t, w.do("GET", "/api/triggers/"+id+"/deliveries", w.ann, "").text, secret)
	require.EqualValues(t, 1, w.do("GET", "/api/triggers/"+id+"/deliveries?outcome=filtered", w.ann, "").json()["total"])
}
