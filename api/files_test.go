package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := "/api/sessions/" + w.session(`{}`)
	put := func(path, content string) reply {
		body, err := json.Marshal(map[string]string{"content": content})
		require.NoError(t, err)

		return w.do("PUT", base+"/files/"+path, w.ann, string(body))
	}
	require.Equal(t, map[string]any{"success": true}, put("dir/sub/a.txt", "hello").json())
	require.Equal(t, 200, put("b%20c%252F%23.md", "# x").status)
	require.Equal(t, 200, put("dir%2Fd.html", "<script>1</script>").status, "an escaped slash is a slash")
	require.Equal(t, 200, put("nul", "a\x00b").status, "a file may hold what text columns may not")

	t.Run("ls", func(t *testing.T) {
		for _, path := range []string{"/ls", "/ls/", "/ls/."} {
			require.JSONEq(
				t,
				`[{"name":"dir","type":"directory"},{"name":"b c%2F#.md","type":"file","size":3},{"name":"nul","type":"file","size":3}]`,
				w.do("GET", base+path, w.ann, "").text,
				path,
			)
		}

		require.JSONEq(t, `[{"name":"a.txt","type":"file","size":5}]`, w.do("GET", base+"/ls/dir/sub/", w.ann, "").text)
		w.do("GET", base+"/ls/none", w.ann, "").code(404, "file_not_found")
		w.do("GET", base+"/ls/nul", w.ann, "").problem(422)
		w.do("GET", base+"/ls/..%2f..", w.ann, "").code(400, "path_outside_workspace")
	})
	t.Run("read", func(t *testing.T) {
		r := w.do("GET", base+"/files/dir/sub/a.txt", w.ann, "")
		require.Equal(t, "hello", r.text)
		require.Equal(t, "text/plain; charset=utf-8", r.header.Get("Content-Type"))
		require.Equal(t, "5", r.header.Get("Content-Length"))
		require.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"))
		require.Equal(t, "inline; filename=a.txt", r.header.Get("Content-Disposition"))
		require.Empty(t, r.header.Get("Content-Security-Policy"))
		etag := r.header.Get("ETag")
		require.Regexp(t, `^"[^"]+"$`, etag)

		head := w.do("HEAD", base+"/files/dir/sub/a.txt", w.ann, "")
		require.Equal(t, 200, head.status)
		require.Equal(t, "5", head.header.Get("Content-Length"))

		for _, tag := range []string{etag, "*", `"x", W/` + etag} {
			r = w.do("GET", base+"/files/dir/sub/a.txt", w.ann, "", header("If-None-Match", tag))
			require.Equal(t, 304, r.status, tag)
			require.Empty(t, r.text)
			require.Equal(t, etag, r.header.Get("ETag"))
		}

		require.Equal(t, 200, w.do("GET", base+"/files/dir/sub/a.txt", w.ann, "", header("If-None-Match", `"x"`)).status)

		r = w.do("GET", base+"/files/b%20c%252F%23.md?download=true", w.ann, "")
		require.Equal(t, "# x", r.text)
		require.Equal(t, `attachment; filename="b c%2F#.md"`, r.header.Get("Content-Disposition"))
		require.Equal(t, "text/markdown; charset=utf-8", r.header.Get("Content-Type"))
		require.Equal(t, "application/octet-stream", w.do("GET", base+"/files/nul", w.ann, "").header.Get("Content-Type"))

		require.Equal(t, 200, put("ü%22%0A.txt", "").status)

		r = w.do("GET", base+"/files/%C3%BC%22%0A.txt", w.ann, "")
		require.Equal(t, `inline; filename*=utf-8''%C3%BC%22%0A.txt`, r.header.Get("Content-Disposition"))
	})
	t.Run("what a browser would run is boxed", func(t *testing.T) {
		require.Equal(t, 200, put("i.svg", "<svg/>").status)
		require.Equal(t, 200, put("page", "<!doctype html><script>1</script>").status)

		for _, path := range []string{"dir/d.html", "i.svg", "page"} {
			r := w.do("GET", base+"/files/"+path, w.ann, "")
			require.Contains(t, r.header.Get("Content-Security-Policy"), "sandbox", path)
			require.NotContains(t, r.header.Get("Content-Security-Policy"), "allow-same-origin", path)
		}
	})
	t.Run("ranges", func(t *testing.T) {
		require.Equal(t, 200, put("digits", "0123456789").status)

		etag := w.do("GET", base+"/files/digits", w.ann, "").header.Get("ETag")
		for asked, want := range map[string]struct {
			status int
			text   string
			rng    string
		}{
			"bytes=2-4":            {206, "234", "bytes 2-4/10"},
			"bytes=7-":             {206, "789", "bytes 7-9/10"},
			"bytes=-2":             {206, "89", "bytes 8-9/10"},
			"bytes=-99":            {206, "0123456789", "bytes 0-9/10"},
			"bytes=5-99":           {206, "56789", "bytes 5-9/10"},
			"bytes=4-2":            {200, "0123456789", ""},
			"bytes=a-b":            {200, "0123456789", ""},
			"lines=1-2":            {200, "0123456789", ""},
			"bytes=0-1,3-4":        {200, "0123456789", ""},
			"bytes=10-":            {416, "", "bytes */10"},
			"bytes=-0":             {416, "", "bytes */10"},
			"bytes=99999999999999": {200, "0123456789", ""},
		} {
			r := w.do("GET", base+"/files/digits", w.ann, "", header("Range", asked))
			require.Equal(t, want.rng, r.header.Get("Content-Range"), asked)

			if want.status == 416 {
				r.code(416, "range_not_satisfiable")
				continue
			}

			require.Equal(t, want.status, r.status, asked)
			require.Equal(t, want.text, r.text, asked)
		}

		require.Equal(t, 200, put("nothing", "").status)

		empty := w.do("GET", base+"/files/nothing", w.ann, "", header("Range", "bytes=0-99"))
		require.Equal(t, []any{200, "", ""}, []any{empty.status, empty.text, empty.header.Get("Content-Range")})

		require.Equal(t, 206, w.do("GET", base+"/files/digits", w.ann, "", header("Range", "bytes=1-2"), header("If-Range", etag)).status)
		require.Equal(
			t,
			200,
			w.do("GET", base+"/files/digits", w.ann, "", header("Range", "bytes=1-2"), header("If-Range", `"old"`)).status,
		)
	})
	t.Run("If-Match", func(t *testing.T) {
		path := base + "/files/versioned"
		first := put("versioned", "1").header.Get("ETag")
		require.Equal(t, first, w.do("GET", path, w.ann, "").header.Get("ETag"))
		second := w.do("PUT", path, w.ann, `{"content":"2"}`, header("If-Match", first))
		require.Equal(t, 200, second.status)
		w.do("PUT", path, w.ann, `{"content":"3"}`, header("If-Match", first)).code(409, "stale_file")
		require.Equal(t, "2", w.do("GET", path, w.ann, "").text)
		require.Equal(t, 200, w.do("PUT", path, w.ann, `{"content":"4"}`, header("If-Match", "*")).status)
		w.do("PUT", base+"/files/fresh", w.ann, `{"content":""}`, header("If-Match", "*")).code(409, "stale_file")
	})
	t.Run("paths that leave", func(t *testing.T) {
		for _, path := range []string{"..%2Fx", "a/../../x", "%2Fetc%2Fpasswd", "../x"} {
			w.do("GET", base+"/files/"+path, w.ann, "").code(400, "path_outside_workspace")
			w.do("PUT", base+"/files/"+path, w.ann, `{"content":""}`).code(400, "path_outside_workspace")
			w.do("DELETE", base+"/files/"+path, w.ann, "").code(400, "path_outside_workspace")
		}

		w.do("GET", base+"/files/%00", w.ann, "").problem(400)
		w.do("GET", base+"/files/"+strings.Repeat("x", 300), w.ann, "").problem(400)
	})
	t.Run("delete", func(t *testing.T) {
		require.Equal(t, map[string]any{"deleted": true}, w.do("DELETE", base+"/files/dir", w.ann, "").json())
		w.do("GET", base+"/files/dir/sub/a.txt", w.ann, "").code(404, "file_not_found")
		w.do("DELETE", base+"/files/dir", w.ann, "").code(404, "file_not_found")
		w.do("DELETE", base+"/files/.", w.ann, "").problem(422)
		w.do("DELETE", base+"/files/", w.ann, "").problem(422)
		w.do("GET", base+"/files/.", w.ann, "").problem(422)
	})
	t.Run("a large file streams", func(t *testing.T) {
		large := strings.Repeat("0123456789abcdef", 500_000) // 8 MB
		require.Equal(t, 200, put("large", large).status)
		require.Equal(t, large, w.do("GET", base+"/files/large", w.ann, "").text)
	})
}
