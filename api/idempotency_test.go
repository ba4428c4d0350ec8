package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func idempotencyKey(k string) with { return header("Idempotency-Key", k) }

func TestIdempotencyKeysThatAreNone(t *testing.T) {
	t.Parallel()

	w := newWorld(t)
	for name, change := range map[string]with{
		"empty":     func(r *http.Request) { r.Header["Idempotency-Key"] = []string{""} },
		"too long":  idempotencyKey(strings.Repeat("k", 256)),
		"two":       func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} },
		"no text":   idempotencyKey("\xff\xfe"),
		"not ASCII": idempotencyKey("schlüssel"),
		"a tab":     idempotencyKey("a\tb"),
	} {
		r := w.do("POST", "/api/sessions", w.ann, `{"intent":"odd"}`, change)
		require.Equal(t, []string{"header.Idempotency-Key"}, r.fields(), name)
	}

	require.EqualValues(t, 0, w.do("GET", "/api/sessions?q=odd", w.ann, "").json()["total"])

	for _, key := range []string{strings.Repeat("k", 255), `"8e03978e-40d5-43dd-bc93-6894a57f9324"`, "a b;c=~!"} {
		first := w.do("POST", "/api/sessions", w.ann, `{}`, idempotencyKey(key))
		require.Equal(t, 200, first.status, first.text)
		require.Equal(t, first.text, w.do("POST", "/api/sessions", w.ann, `{}`, idempotencyKey(key)).text)
	}
	// What changes nothing by being repeated takes no key, and trips over none.
	require.Equal(t, 200, w.do("GET", "/api/sessions", w.ann, "", idempotencyKey("\xff")).status)
}

func TestIdempotencyIsOfOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.session(`{}`), w.session(`{}`)
	key := idempotencyKey("one")

	copies := func(session string) string { return "/api/sessions/" + session + "/files/a/copy" }
	for _, session := range []string{first, second} {
		w.put("/api/sessions/"+session, "a", "text")
	}

	require.Equal(t, 200, w.do("POST", copies(first), w.ann, `{"target_path":"b"}`, key).status)
	w.do("POST", copies(second), w.ann, `{"target_path":"b"}`, key).code(409, "idempotency_key_reused")
	w.do("POST", copies(first)+"?x=1", w.ann, `{"target_path":"b"}`, key).code(409, "idempotency_key_reused")
	w.do("POST", copies(first), w.ann, `{"target_path":"c"}`, key).code(409, "idempotency_key_reused")
	require.Equal(t, "true", w.do("POST", copies(first), w.ann, `{"target_path":"b"}`, key).header.Get("Idempotency-Replayed"))
	require.Equal(t, []string{"a", "b"}, w.names("/api/sessions/"+first, ""))
	require.Equal(t, []string{"a"}, w.names("/api/sessions/"+second, ""))
}

// What failed is not kept: the same request may well succeed later.
func TestIdempotencyKeepsNoFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := "/api/sessions/" + w.session(`{}`)
	key := idempotencyKey("later")
	w.do("POST", base+"/files/a/copy", w.ann, `{"target_path":"b"}`, key).code(404, "file_not_found")
	w.do("POST", base+"/files/a/copy", w.ann, `{"target_path":"b"}`, key).code(404, "file_not_found")
	w.put(base, "a", "text")
	r := w.do("POST", base+"/files/a/copy", w.ann, `{"target_path":"b"}`, key)
	require.Equal(t, 200, r.status, r.text)
	require.Empty(t, r.header.Get("Idempotency-Replayed"))
}

// A process that dies between the claim of a key and its answer locks it for two
// minutes, not for a day, and for the same request alone.
func TestIdempotencyAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := idempotencyKey("crash")
	first := w.do("POST", "/api/sessions", w.ann, `{"intent":"x"}`, key)
	crashed := func(ago string) {
		tag, err := w.db.Pool.Exec(t.Context(), `
			UPDATE idempotency_keys SET status = NULL, content_type = NULL, response = NULL, finished_at = NULL,
			       created_at = now() - $2::interval WHERE user_id = $1 AND key = 'crash'`, w.annID, ago)
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
	}
	crashed("1 minute")
	w.do("POST", "/api/sessions", w.ann, `{"intent":"x"}`, key).code(409, "idempotency_key_in_use")
	crashed("3 minutes")
	w.do("POST", "/api/sessions", w.ann, `{"intent":"y"}`, key).code(409, "idempotency_key_reused")
	again := w.do("POST", "/api/sessions", w.ann, `{"intent":"x"}`, key)
	require.Equal(t, 200, again.status)
	require.NotEqual(t, first.text, again.text, "it ran")
	require.Equal(t, again.text, w.do("POST", "/api/sessions", w.ann, `{"intent":"x"}`, key).text)
}

func TestIdempotencyOfForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := "/api/sessions/" + w.session(`{}`)
	send := func(key string, parts ...[2]string) reply {
		body, kind := formOf(t, parts...) // with another boundary each time
		return w.do("POST", base+"/upload/", w.ann, body, header("Content-Type", kind), idempotencyKey(key))
	}
	file := [2]string{"f", strings.Repeat("x", 200_000)}
	first := send("k", file, [2]string{"/paths", `["one"]`})
	require.JSONEq(t, `{"uploaded":["one"],"failed":[]}`, first.text)

	again := send("k", file, [2]string{"/paths", `["one"]`})
	require.Equal(t, first.text, again.text)
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))

	for name, other := range map[string][][2]string{
		"another path":    {file, {"/paths", `["two"]`}},
		"another content": {{"f", file[1][1:] + "y"}, {"/paths", `["one"]`}},
		"another name":    {{"g", file[1]}, {"/paths", `["one"]`}},
		"one more":        {file, {"/paths", `["one"]`}, {"g", ""}},
		"one less":        {file},
		"another order":   {{"/paths", `["one"]`}, file},
	} {
		r := send("k", other...)
		require.Equal(t, 409, r.status, name)
		r.code(409, "idempotency_key_reused")
	}

	body, kind := formOf(t, file, [2]string{"/paths", `["one"]`})
	w.do("POST", base+"/upload/", w.ann, body[:1000], header("Content-Type", kind), idempotencyKey("k")).code(409, "idempotency_key_reused")
	require.Equal(t, []string{"one"}, w.names(base, ""))

	require.Contains(t, send("refused", [2]string{"/paths", `["a"]`}).fields(), "body.files")
	require.Equal(t, 200, send("refused", file).status, "a refusal leaves the key free")
	require.Equal(t, []string{"f", "one"}, w.names(base, ""))
}

// Of two uploads with one key at the same time the second is asked to wait, while
// the first is still on its way.
func TestIdempotencyWhileAFormComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := "/api/sessions/" + w.session(`{}`)
	body, kind := formOf(t, [2]string{"slow", strings.Repeat("x", 100_000)})
	send := func(content io.Reader) reply {
		request := w.request("POST", base+"/upload/", w.ann, "", header("Content-Type", kind), idempotencyKey("k"))
		request.Body, request.ContentLength = io.NopCloser(content), int64(len(body))

		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return reply{t: t, text: err.Error()}
		}
		defer response.Body.Close()

		text, _ := io.ReadAll(response.Body)

		return reply{t, response.StatusCode, response.Header, string(text)}
	}
	slow, feed := io.Pipe()

	done := make(chan reply)
	go func() { done <- send(slow) }()

	_, err := io.WriteString(feed, body[:50_000])
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var claimed int

		err := w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM idempotency_keys WHERE user_id = $1`, w.annID).Scan(&claimed)

		return err == nil && claimed == 1
	}, timeout, tick)
	send(strings.NewReader(body)).code(409, "idempotency_key_in_use")
	_, err = io.WriteString(feed, body[50_000:])
	require.NoError(t, err)
	require.NoError(t, feed.Close())

	first := <-done
	require.JSONEq(t, `{"uploaded":["slow"],"failed":[]}`, first.text)
	require.Equal(t, first.text, send(strings.NewReader(body)).text)
}
