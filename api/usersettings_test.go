package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var userSettingsWalk = []call{
	{
		method:  "PUT",
		path:    "/api/env/buckets/{bucket}",
		scope:   "unrestricted",
		url:     "/api/env/buckets/default",
		status:  200,
		hasBody: true,
		body:    `{"env":{"A":"1"}}`,
		bad: []bad{
			{body: `{}`, at: "body.env"},
			{body: `{"env":{"A":1}}`, at: "body.env.A"},
			{body: `{"env":{"A=":"x"}}`, at: "body.env"},
			{path: "/api/env/buckets/-x", body: `{"env":{}}`, at: "path.bucket"},
			{path: "/api/env/buckets/" + strings.Repeat("x", 129), body: `{"env":{}}`, at: "path.bucket"},
		},
	},
	{method: "GET", path: "/api/env/buckets", scope: "unrestricted", url: "/api/env/buckets", status: 200},
	{
		method:  "GET",
		path:    "/api/env/buckets/{bucket}",
		scope:   "unrestricted",
		url:     "/api/env/buckets/default",
		status:  200,
		missing: "/api/env/buckets/none",
	},
	{
		method:  "DELETE",
		path:    "/api/env/buckets/{bucket}",
		scope:   "unrestricted",
		url:     "/api/env/buckets/default",
		status:  200,
		missing: "/api/env/buckets/none",
	},
	{method: "GET", path: "/api/network-rules", scope: "unrestricted", url: "/api/network-rules", status: 200},
	{
		method:  "POST",
		path:    "/api/network-rules",
		scope:   "unrestricted",
		url:     "/api/network-rules",
		status:  200,
		hasBody: true,
		body:    `{"domain":"*.example.org"}`,
		bad: []bad{
			{body: `{}`, at: "body.domain"},
			{body: `{"domain":5}`, at: "body.domain"},
			{body: `{"domain":"https://example.org"}`, at: "body.domain"},
			{body: `{"domain":"*.org"}`, at: "body.domain"},
			{body: `{"domain":"*.github.io"}`, at: "body.domain"},
			{body: `{"domain":"` + strings.Repeat("x", 301) + `"}`, at: "body.domain"},
			{body: `{"domain":"example.org","decision":"ask"}`, at: "body.decision"},
		},
	},
	{
		method:  "DELETE",
		path:    "/api/network-rules/{id}",
		scope:   "unrestricted",
		url:     "/api/network-rules/{r}",
		status:  200,
		missing: "/api/network-rules/" + none,
	},
	{method: "GET", path: "/api/user/preferences/{key}", scope: "unrestricted", url: "/api/user/preferences/theme", status: 200},
	{
		method:  "PUT",
		path:    "/api/user/preferences/{key}",
		scope:   "unrestricted",
		url:     "/api/user/preferences/theme",
		status:  200,
		hasBody: true,
		body:    `{"value":"dark"}`,
		bad: []bad{
			{body: `{}`, at: "body.value"},
			{body: `{"value":1}`, at: "body.value"},
			{body: `{"value":"` + strings.Repeat("x", 100_001) + `"}`, at: "body.value"},
			{path: "/api/user/preferences/" + strings.Repeat("x", 256), body: `{"value":""}`, at: "path.key"},
		},
	},
	{method: "GET", path: "/api/profile", scope: "unrestricted", url: "/api/profile", status: 200},
	{
		method:  "PUT",
		path:    "/api/profile",
		scope:   "unrestricted",
		url:     "/api/profile",
		status:  200,
		hasBody: true,
		body:    `{"layout":{"left":1}}`,
		bad: []bad{
			{body: `{"schema_version":"x"}`, at: "body.schema_version"}, {body: `{"schema_version":0}`, at: "body.schema_version"},
		},
	},
}

func TestUserSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	require.JSONEq(t, `[]`, w.do("GET", "/api/env/buckets", w.ann, "").text)
	put := w.do("PUT", "/api/env/buckets/default", w.ann, `{"env":{"TOKEN":"hunter2"}}`)
	require.JSONEq(t, `{"bucket":"default","env":{"TOKEN":"hunter2"}}`, put.text)
	w.do("PUT", "/api/env/buckets/build", w.ann, `{"env":{}}`)
	require.JSONEq(
		t,
		`[{"bucket":"build","env":{}},{"bucket":"default","env":{"TOKEN":"hunter2"}}]`,
		w.do("GET", "/api/env/buckets", w.ann, "").text,
	)
	w.do("GET", "/api/env/buckets/default", w.bob, "").code(404, "env_bucket_not_found")

	var sealed []byte
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT sealed FROM env_buckets WHERE bucket = 'default'`).Scan(&sealed))
	require.NotContains(t, string(sealed), "hunter2")
	require.NotContains(t, w.log.String(), "hunter2")
	require.JSONEq(t, `{"bucket":"build","status":"deleted"}`, w.do("DELETE", "/api/env/buckets/build", w.ann, "").text)
	// A bucket copied to another user does not open there, and shows nothing.
	_, err := w.db.Pool.Exec(t.Context(), `INSERT INTO env_buckets SELECT u.id, 'stolen', b.sealed FROM env_buckets b, users u
		WHERE u.username = 'bob'`)
	require.NoError(t, err)
	w.do("GET", "/api/env/buckets/stolen", w.bob, "").problem(500)

	require.JSONEq(t, `{"value":null}`, w.do("GET", "/api/user/preferences/a%20b", w.ann, "").text)
	require.JSONEq(t, `{"value":"ü\ufffd"}`, w.do("PUT", "/api/user/preferences/a%20b", w.ann, `{"value":"ü\u0000"}`).text)
	require.JSONEq(t, `{"value":"ü\ufffd"}`, w.do("GET", "/api/user/preferences/a%20b", w.ann, "").text)
	require.JSONEq(t, `{"value":null}`, w.do("GET", "/api/user/preferences/a%20b", w.bob, "").text)

	require.JSONEq(t, `{"schema_version":1,"updated_at":null}`, w.do("GET", "/api/profile", w.ann, "").text)
	kept := w.do("PUT", "/api/profile", w.ann, `{"schema_version":3,"updated_at":"never","panes":["a\u0000",{"b\u0000":null}]}`).json()
	require.EqualValues(t, 3, kept["schema_version"])
	require.NotEqual(t, "never", kept["updated_at"])
	require.Equal(t, kept, w.do("GET", "/api/profile", w.ann, "").json())
	w.do("PUT", "/api/profile", w.ann, `{"x":"`+strings.Repeat("x", 300_000)+`"}`).code(413, "profile_too_large")

	w.do("PUT", "/api/profile", w.ann, `{"wide":12345678901234567890,"fine":0.12345678901234567890}`)
	numbers := w.do("GET", "/api/profile", w.ann, "").text
	require.Contains(t, numbers, `"wide":12345678901234567890`, "a number is kept as it was written")
	require.Contains(t, numbers, `"fine":0.12345678901234567890`)
}
