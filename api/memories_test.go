package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var memoryWalk = []call{
	{
		method:  "POST",
		path:    "/api/memories",
		scope:   "sessions:write",
		url:     "/api/memories",
		hasBody: true,
		status:  201,
		body:    `{"content":"` + strings.Repeat("ä", 500) + `","topic":null}`,
		bad: []bad{
			{body: `{}`, at: "body.content"},
			{body: `{"content":""}`, at: "body.content"},
			{body: `{"content":"` + strings.Repeat("ä", 501) + `"}`, at: "body.content"},
			{body: `{"content":5}`, at: "body.content"},
			{body: `{"content":"x","type":"fact"}`, at: "body.type"},
			{body: `{"content":"x","record_type":"note"}`, at: "body.record_type"},
			{body: `{"content":"x","write_reason":""}`, at: "body.write_reason"},
			{body: `{"content":"x","write_reason":"` + strings.Repeat("x", 501) + `"}`, at: "body.write_reason"},
			{body: `{"content":"x","skill_name":"` + strings.Repeat("x", 256) + `"}`, at: "body.skill_name"},
			{body: `{"content":"x","external_id":"` + strings.Repeat("x", 256) + `"}`, at: "body.external_id"},
		},
	},
	{method: "GET", path: "/api/memories", scope: "sessions:read", url: "/api/memories?keyword=none&limit=100", status: 200, bad: []bad{
		{path: "/api/memories?limit=0", at: "query.limit"},
		{path: "/api/memories?limit=101", at: "query.limit"},
		{path: "/api/memories?offset=-1", at: "query.offset"},
		{path: "/api/memories?status=odd", at: "query.status"},
	}},
	{
		method:  "POST",
		path:    "/api/memories/batch",
		scope:   "sessions:write",
		url:     "/api/memories/batch",
		hasBody: true,
		status:  200,
		body:    `{"action":"disable","ids":[1]}`,
		bad: []bad{
			{body: `{"action":"burn","ids":[1]}`, at: "body.action"},
			{body: `{"action":"delete","ids":[]}`, at: "body.ids"},
			{body: `{"action":"delete"}`, at: "body.ids"},
			{body: `{"action":"delete","ids":["1"]}`, at: "body.ids[0]"},
			{body: `{"action":"delete","ids":[` + strings.Repeat("1,", 100) + `1]}`, at: "body.ids"},
		},
	},
	{
		method:  "GET",
		path:    "/api/memories/{id}",
		scope:   "sessions:read",
		url:     "/api/memories/1",
		status:  200,
		missing: "/api/memories/999999",
		bad:     []bad{{path: "/api/memories/x", at: "path.id"}},
	},
	{
		method:  "PUT",
		path:    "/api/memories/{id}",
		scope:   "sessions:write",
		url:     "/api/memories/1",
		hasBody: true,
		status:  200,
		body:    `{"topic":"t"}`,
		missing: "/api/memories/999999",
		bad: []bad{
			{body: `{"content":""}`, at: "body.content"},
			{body: `{"content":null}`, at: "body.content"},
			{body: `{"type":null}`, at: "body.type"},
			{body: `{"content":"` + strings.Repeat("x", 501) + `"}`, at: "body.content"},
			{body: `{"scope":1}`, at: "body.scope"},
			{body: `{"topic":"` + strings.Repeat("x", 256) + `"}`, at: "body.topic"},
			{body: `{"record_type":"x"}`, at: "body.record_type"},
		},
	},
	{
		method:  "PATCH",
		path:    "/api/memories/{id}",
		scope:   "sessions:write",
		url:     "/api/memories/1",
		hasBody: true,
		status:  200,
		body:    `{"disabled":true}`,
		missing: "/api/memories/999999",
		bad:     []bad{{body: `{}`, at: "body.disabled"}, {body: `{"disabled":"no"}`, at: "body.disabled"}},
	},
	{
		method:  "DELETE",
		path:    "/api/memories/{id}",
		scope:   "sessions:write",
		url:     "/api/memories/1",
		status:  200,
		missing: "/api/memories/999999",
	},
}

func TestMemories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keep := func(body string) (id int64, memory map[string]any) {
		t.Helper()

		a := w.do("POST", "/api/memories", w.ann, body)
		require.Equal(t, http.StatusCreated, a.status, a.text)
		require.NoError(t, json.Unmarshal([]byte(a.text), &memory))

		return int64(memory["id"].(float64)), memory
	}

	id, made := keep(`{"content":"likes tea","skill_name":"kitchen","external_id":"x-1"}`)
	for field, want := range map[string]any{
		"type": "feedback", "content": "likes tea", "skill_name": "kitchen", "record_type": nil, "superseded_by": nil, "updated_at": nil,
		"hit_count": 0.0, "last_hit_at": nil, "disabled": false, "source_session": "",
	} {
		require.Contains(t, made, field)
		require.Equal(t, want, made[field], field)
	}

	one := fmt.Sprintf("/api/memories/%d", id)

	changed := w.do("PUT", one, w.ann, `{"skill_name":null,"content":"likes green tea","unknown":1}`)
	require.Equal(t, 200, changed.status, changed.text)
	require.Contains(t, changed.text, `"skill_name":null`)
	require.Contains(t, changed.text, `"external_id":"x-1"`)
	require.NotContains(t, changed.text, `"updated_at":null`)

	second, _ := keep(`{"content":"works at night","type":"experience"}`)
	list := w.do("GET", "/api/memories?limit=1", w.ann, "")
	require.Contains(t, list.text, `"total":2`)
	require.Contains(t, list.text, "works at night") // the newest first
	require.Contains(t, w.do("GET", "/api/memories?type=feedback&keyword=GREEN", w.ann, "").text, `"total":1`)
	require.Contains(t, w.do("GET", "/api/memories", w.bob, "").text, `"items":[],"total":0`)

	batch := w.do("POST", "/api/memories/batch", w.ann, fmt.Sprintf(`{"action":"disable","ids":[%d,%d,99999]}`, id, second))
	require.JSONEq(t, `{"ok":true,"count":2}`, batch.text)
	require.Contains(t, w.do("GET", "/api/memories?status=active", w.ann, "").text, `"total":0`)
	require.Contains(t, w.do("GET", "/api/memories?status=disabled", w.ann, "").text, `"total":2`)

	require.Empty(t, w.audited("memory.delete"))

	third, _ := keep(`{"content":"sings","type":"experience"}`)
	batch = w.do("POST", "/api/memories/batch", w.ann, fmt.Sprintf(`{"action":"delete","ids":[%d,%d]}`, second, third))
	require.JSONEq(t, `{"ok":true,"count":2}`, batch.text)
	require.Equal(t, []string{fmt.Sprintf("%d %d ", second, third)}, w.audited("memory.delete"))

	require.Equal(t, 404, w.do("GET", one, w.bob, "").status)
	require.Equal(t, 404, w.do("DELETE", one, w.bob, "").status)
	require.JSONEq(t, `{"ok":true}`, w.do("DELETE", one, w.ann, "").text)
	require.Equal(t, 404, w.do("DELETE", one, w.ann, "").status)
}
