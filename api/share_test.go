package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// sharing turns the areas of this file on.
func sharing(c *parts) {
	db := c.store
	c.Session.Shares, c.Session.Sharing = db, true
}

// spoken is a history of given turns.
type spoken []domain.Turn

func (s spoken) LastSequence(context.Context, domain.SessionID) (int64, error) {
	return int64(len(s)) - 1, nil
}

func (s spoken) Messages(_ context.Context, _ domain.SessionID, _ *int64, _ int, yield func(domain.Turn) error) error {
	for _, t := range s {
		if err := yield(t); err != nil {
			return err
		}
	}

	return nil
}

func (r reply) list() []map[string]any {
	r.t.Helper()

	var v []map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(r.text), &v), r.text)

	return v
}

func TestShareLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sharing)
	w.turns.count = 3
	id := w.session(`{}`)
	path := "/api/sessions/" + id + "/share"

	made := w.do(http.MethodPost, path, w.ann, "")
	require.Equal(t, 200, made.status, made.text)
	link := made.json()
	token := link["token"].(string)
	require.Len(t, token, 32, "128 random bits")
	require.Equal(t, w.url+"/api/share/"+token, link["url"])
	require.EqualValues(t, 0, link["views"])
	require.Equal(t, map[string]any{"tool_results": false, "thinking": false, "env": true}, link["redact"])
	life := func(link map[string]any) time.Duration {
		created, err := time.Parse(time.RFC3339Nano, link["created_at"].(string))
		require.NoError(t, err)
		expires, err := time.Parse(time.RFC3339Nano, link["expires_at"].(string))
		require.NoError(t, err)

		return expires.Sub(created)
	}
	require.Equal(t, 7*24*time.Hour, life(link))

	hour := w.do(http.MethodPost, path, w.ann, `{"ttl_seconds":3600}`).json()
	require.Equal(t, time.Hour, life(hour))
	require.Equal(t, 200, w.do(http.MethodPost, path, w.ann, `{"ttl_seconds":7776000}`).status)

	for _, body := range []string{`{"ttl_seconds":7776001}`, `{"ttl_seconds":0}`, `{"ttl_seconds":-1}`, `{"ttl_seconds":"x"}`, `{"ttl_seconds":1.5}`} {
		w.do(http.MethodPost, path, w.ann, body).problem(422)
	}

	read := w.do(http.MethodGet, "/api/share/"+token, "", "")
	require.Equal(t, 200, read.status, read.text)
	require.Len(t, read.list(), 3)
	require.Equal(t, "no-store", read.header.Get("Cache-Control"))
	w.do(http.MethodGet, "/api/share/"+strings.Repeat("0", 32), "", "").code(404, "share_not_found")
	w.do(http.MethodGet, "/api/share/"+token[:31], "", "").code(404, "share_not_found")

	// Only the owner makes and revokes; others do not hear that it exists.
	w.do(http.MethodPost, path, w.bob, "").code(404, "session_not_found")
	w.do(http.MethodPost, path, "", "").problem(401)
	w.do(http.MethodPatch, "/api/sessions/"+id+"/sharing", w.ann, `{"shared":true}`)
	w.do(http.MethodPost, path, w.bob, "").problem(403)
	w.do(http.MethodDelete, path+"/"+token, w.bob, "").problem(403)
	other := w.session(`{}`)
	w.do(http.MethodDelete, "/api/sessions/"+other+"/share/"+token, w.ann, "").code(404, "share_not_found")
	w.do(http.MethodDelete, path+"/"+strings.Repeat("0", 32), w.ann, "").code(404, "share_not_found")

	for range 2 { // the second time changes nothing
		require.Equal(t, map[string]any{"revoked": true}, w.do(http.MethodDelete, path+"/"+token, w.ann, "").json())
	}

	w.do(http.MethodGet, "/api/share/"+token, "", "").code(410, "share_gone")

	// An expired link is gone too.
	old := hour["token"].(string)
	require.Equal(t, 200, w.do(http.MethodGet, "/api/share/"+old, "", "").status)
	_, err := w.db.Pool.Exec(t.Context(), `UPDATE share_links SET expires_at = now() - interval '1 second'`)
	require.NoError(t, err)
	w.do(http.MethodGet, "/api/share/"+old, "", "").code(410, "share_gone")

	var views int64
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT sum(views) FROM share_links`).Scan(&views))
	require.EqualValues(t, 2, views, "refused looks are no views")

	var kept int
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM share_links
		WHERE share_links::text LIKE '%' || $1 || '%'`, token).Scan(&kept))
	require.Zero(t, kept, "the token is kept")

	for _, secret := range []string{token, old} {
		require.NotContains(t, w.log.String(), secret, "the token is in the log")
	}

	require.NoError(t, w.db.DeleteSession(t.Context(), domain.SessionID(id)))
	w.do(http.MethodGet, "/api/share/"+token, "", "").code(404, "share_not_found")
}

func TestASharedViewShowsNoSecrets(t *testing.T) {
	t.Parallel()

	const apiKey = "el_" + "0123456789abcdefghij0123456789ab"

	name, call := "Bash", "call_1"
	w := newWorld(t, sharing, func(c *parts) {
		c.Session.Messages = spoken{{
			ID: "t1", Role: domain.RoleAssistant, MemoryRefs: []any{map[string]any{"memory_id": 7}},
			Blocks: []domain.Block{
				{Type: domain.BlockThinking, Content: "thought of hunter2-long"},
				{Type: domain.BlockText, Content: "your password is hunter2-long, key " + apiKey + " and 1"},
				{Type: domain.BlockToolUse, Content: `{"command":"echo hunter2-long"}`, ToolCallID: &call, ToolName: &name},
				{Type: domain.BlockToolResult, Content: "hunter2-long", ToolCallID: &call, ToolName: &name},
			},
			ToolCalls: []domain.ToolCall{
				{
					ID:          call,
					ToolName:    name,
					Arguments:   `{"command":"echo hunter2-long 'quoted \"hunter2\"' "}`,
					DisplayName: "Bash hunter2-long",
					Result:      "it is hunter2-long, from the bucket hunter2-bucket, of the key the line bGluZSBvZiBodW50ZXIy",
					Phase:       domain.PhaseFinished,
					Images:      []domain.CallImage{{Attachment: picture, MimeType: "image/png", Bytes: 8}},
				},
			},
		}}
	})
	id := w.session(`{"env":{"PASSWORD":"hunter2-long","QUOTED":"quoted \"hunter2\"","PEM":"begin\nbGluZSBvZiBodW50ZXIy\nend","ONE":"1"}}`)
	require.Equal(t, 200, w.do(http.MethodPut, "/api/env/buckets/any", w.ann, `{"env":{"B":"hunter2-bucket"}}`).status)

	open := func(body string) reply {
		token := w.do(http.MethodPost, "/api/sessions/"+id+"/share", w.ann, body).json()["token"].(string)
		return w.do(http.MethodGet, "/api/share/"+token, "", "")
	}
	plain := open("")
	require.Equal(t, 200, plain.status)
	require.NotContains(t, plain.text, "hunter2")
	require.NotContains(t, plain.text, "bGluZSBvZiBodW50ZXIy", "a line of a value with several")
	require.NotContains(t, plain.text, apiKey)
	require.Contains(t, plain.text, "and 1", "short values are words of every text")
	require.Nil(t, plain.list()[0]["memory_refs"])
	require.Contains(t, plain.text, "thought of")
	require.Contains(t, plain.text, "it is")
	require.Contains(t, plain.text, picture)

	redacted := open(`{"redact":{"tool_results":true,"thinking":true}}`)
	require.NotContains(t, redacted.text, "thought of")
	require.NotContains(t, redacted.text, "it is")
	require.NotContains(t, redacted.text, picture, "images are results too")
	require.Contains(t, redacted.text, "your password is")
}

func TestAPictureOfASharedSession(t *testing.T) {
	t.Parallel()

	var id string

	turns := spoken{{ID: "t", Role: domain.RoleUser, Blocks: []domain.Block{{Type: domain.BlockImage}}}}
	w := newWorld(t, sharing, func(c *parts) { c.Session.Messages = turns })
	id = w.session(`{}`)
	turns[0].Blocks[0].Content = "/api/sessions/" + id + "/attachments/" + picture
	token := w.do(http.MethodPost, "/api/sessions/"+id+"/share", w.ann, "").json()["token"].(string)
	shown := w.do(http.MethodGet, "/api/share/"+token, "", "").list()
	path := shown[0]["blocks"].([]any)[0].(map[string]any)["content"].(string)
	require.Equal(t, "/api/share/"+token+"/attachments/"+picture, path)
	got := w.do(http.MethodGet, path, "", "")
	require.Equal(t, 200, got.status)
	require.Equal(t, "image/png", got.header.Get("Content-Type"))
	w.do(http.MethodGet, "/api/share/"+strings.Repeat("0", 32)+"/attachments/"+picture, "", "").problem(404)
}

func TestSharingCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sharing, func(c *parts) { c.Session.Sharing = false })
	id := w.session(`{}`)
	w.do(http.MethodPost, "/api/sessions/"+id+"/share", w.ann, "").code(403, "sharing_disabled")
	w.do(http.MethodGet, "/api/share/x", "", "").code(403, "sharing_disabled")
}

func TestExtraInfo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sharing)
	id, other := w.session(`{}`), w.session(`{}`)
	path, upset := "/api/sessions/"+id+"/extra_info", "/api/sessions/"+id+"/upset_extra_info"

	empty := w.do(http.MethodGet, path, w.ann, "").json()
	require.Equal(t, map[string]any{"session_id": id, "extra": map[string]any{}, "created_at": nil, "updated_at": nil}, empty)

	first := w.do(http.MethodPost, upset, w.ann, `{"extra":{"task_id":"t-1","n":12345678901234567890,"deep":{"a":1},"gone":true}}`)
	require.Equal(t, 200, first.status, first.text)
	require.Contains(t, first.text, "12345678901234567890", "a number stays what it was")

	merged := w.do(http.MethodPost, upset, w.ann, `{"extra":{"deep":{"b":2},"gone":null,"never":null}}`).json()
	require.Equal(t, map[string]any{"b": 2.0}, merged["extra"].(map[string]any)["deep"], "top-level keys are replaced whole")
	require.NotContains(t, merged["extra"], "gone")
	require.NotContains(t, merged["extra"], "never")
	require.Equal(t, "t-1", merged["extra"].(map[string]any)["task_id"])
	require.Equal(t, merged, w.do(http.MethodGet, path, w.ann, "").json())
	require.NotNil(t, merged["created_at"])

	byTask := func(key, task string) map[string]any {
		r := w.do(http.MethodGet, "/api/sessions/extra_info/by_task/"+task, key, "")
		require.Equal(t, 200, r.status, r.text)

		return r.json()
	}
	require.Equal(t, id, byTask(w.ann, "t-1")["session_id"])
	require.Equal(t, "t-1", byTask(w.ann, "t-1")["extra"].(map[string]any)["task_id"])
	nothing := byTask(w.ann, "t-2")
	require.Nil(t, nothing["session_id"])
	require.Equal(t, map[string]any{}, nothing["extra"])
	require.Nil(t, byTask(w.bob, "t-1")["session_id"], "sessions of others are not found")
	require.Nil(t, byTask(w.root, "t-1")["session_id"])
	w.do(http.MethodPost, "/api/sessions/"+other+"/upset_extra_info", w.ann, `{"extra":{"task_id":"t-1"}}`)
	require.Equal(t, other, byTask(w.ann, "t-1")["session_id"], "the last change counts")

	long := strings.Repeat("x", 3000)
	require.Equal(t, 200, w.do(http.MethodPost, upset, w.ann, `{"extra":{"task_id":"`+long+`"}}`).status)
	require.Equal(t, id, byTask(w.ann, long)["session_id"])
	require.Nil(t, byTask(w.ann, long[1:])["session_id"])
	require.Equal(t, 200, w.do(http.MethodPost, upset, w.ann, `{"extra":{"task_id":42}}`).status)
	require.Equal(t, id, byTask(w.ann, "42")["session_id"])

	w.do(http.MethodGet, path, w.bob, "").code(404, "session_not_found")
	w.do(http.MethodPost, upset, w.bob, `{"extra":{}}`).code(404, "session_not_found")
	w.do(http.MethodPatch, "/api/sessions/"+id+"/sharing", w.ann, `{"shared":true}`)
	require.Equal(t, 200, w.do(http.MethodGet, path, w.bob, "").status)
	w.do(http.MethodPost, upset, w.bob, `{"extra":{}}`).problem(403)

	for _, body := range []string{`{}`, `{"extra":[]}`, `{"extra":"x"}`, `{"extra":null}`, `{"extra":{"a":"\u0000"}}`} {
		w.do(http.MethodPost, upset, w.ann, body).problem(422)
	}

	w.do(http.MethodGet, "/api/sessions/extra_info/by_task/a%00b", w.ann, "").problem(422)

	half := strings.Repeat("x", 600<<10)
	require.Equal(t, 200, w.do(http.MethodPost, upset, w.ann, `{"extra":{"one":"`+half+`"}}`).status)
	w.do(http.MethodPost, upset, w.ann, `{"extra":{"two":"`+half+`"}}`).code(413, "extra_info_too_large")
	require.NotContains(t, w.do(http.MethodGet, path, w.ann, "").json()["extra"], "two")
	w.do(http.MethodPost, upset, w.ann, `{"extra":{"a":"`+strings.Repeat("x", 1<<20)+`"}}`).problem(413)
}
