package api_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// put makes a file of a session.
func (w *world) put(base, path, content string) reply {
	w.t.Helper()

	body, err := json.Marshal(map[string]string{"content": content})
	require.NoError(w.t, err)
	r := w.do("PUT", base+"/files/"+path, w.ann, string(body))
	require.Equal(w.t, 200, r.status, r.text)

	return r
}

func (w *world) names(base, dir string) (out []string) {
	w.t.Helper()

	var list []struct{ Name string }
	require.NoError(w.t, json.Unmarshal([]byte(w.do("GET", base+"/ls/"+dir, w.ann, "").text), &list))

	for _, e := range list {
		out = append(out, e.Name)
	}

	return out
}

func TestArrangeFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := "/api/sessions/" + w.session(`{}`)
	post := func(path, body string) reply { return w.do("POST", base+path, w.ann, body) }

	w.put(base, "dir/a.txt", "A")
	w.put(base, "dir/taken", "T")

	t.Run("rename", func(t *testing.T) {
		require.Equal(t, map[string]any{"path": "dir/日本 é.txt"}, post("/files/dir/a.txt/rename", `{"new_name":"日本 é.txt"}`).json())
		require.Equal(t, "A", w.do("GET", base+"/files/dir/%E6%97%A5%E6%9C%AC%20%C3%A9.txt", w.ann, "").text)
		require.Equal(t, 200, post("/files/dir%2F%E6%97%A5%E6%9C%AC%20%C3%A9.txt/rename", `{"new_name":"a.txt"}`).status)
		post("/files/dir/a.txt/rename", `{"new_name":"taken"}`).code(409, "file_exists")
		post("/files/dir/a.txt/rename", `{"new_name":"a.txt"}`).code(409, "file_exists")

		for _, name := range []string{"..", "../x", "/etc/x", "x/../../y"} {
			post("/files/dir/a.txt/rename", fmt.Sprintf(`{"new_name":%q}`, name)).code(400, "path_outside_workspace")
		}

		post("/files/dir/a.txt/rename", `{"new_name":"a\u0000b"}`).problem(400)
		post("/files/dir/a.txt/rename", `{"new_name":"`+strings.Repeat("ä", 200)+`"}`).code(400, "invalid_path")
		post("/files/dir/a.txt/rename", `{"new_name":".everloop-tmp-x"}`).code(400, "invalid_path")
		post("/files/./rename", `{"new_name":"x"}`).problem(422)
		post("/files/..%2Fx/rename", `{"new_name":"x"}`).code(400, "path_outside_workspace")
		require.Equal(t, map[string]any{"path": "dir/back\\slash"}, post("/files/dir/taken/rename", `{"new_name":"back\\slash"}`).json())
		require.Equal(t, 200, post("/files/dir/back%5Cslash/rename", `{"new_name":"taken"}`).status)

		// The last word of the path is the operation, however files are named.
		w.put(base, "rename", "R")
		w.put(base, "copy/rename/copy", "C")
		require.Equal(t, map[string]any{"path": "r2"}, post("/files/rename/rename", `{"new_name":"r2"}`).json())
		require.Equal(t, map[string]any{"path": "copy/rename/copy copy"}, post("/files/copy/rename/copy/copy", ``).json())
		require.Equal(t, map[string]any{"path": "copy/copy"}, post("/files/copy/rename/rename", `{"new_name":"copy"}`).json())
	})
	t.Run("copy", func(t *testing.T) {
		require.Equal(t, map[string]any{"path": "dir/a copy.txt"}, post("/files/dir/a.txt/copy", ``).json())
		require.Equal(t, map[string]any{"path": "dir/a copy 2.txt"}, post("/files/dir/a.txt/copy", `{"target_path":null}`).json())
		require.Equal(t, map[string]any{"path": "new/deep/x"}, post("/files/dir/a.txt/copy", `{"target_path":"new/deep/x"}`).json())
		require.Equal(t, "A", w.do("GET", base+"/files/new/deep/x", w.ann, "").text)
		post("/files/dir/a.txt/copy", `{"target_path":"dir/taken"}`).code(409, "file_exists")
		require.Equal(t, 200, post("/files/dir/a.txt/copy", `{"target_path":"dir/taken","overwrite":true}`).status)
		require.Equal(t, "A", w.do("GET", base+"/files/dir/taken", w.ann, "").text)
		require.Equal(t, map[string]any{"path": "dir copy"}, post("/files/dir/copy", `{}`).json())
		require.ElementsMatch(t, []string{"a copy 2.txt", "a copy.txt", "a.txt", "taken"}, w.names(base, "dir%20copy"))
		post("/files/dir/copy", `{"target_path":"dir/in/itself"}`).problem(422)
		post("/files/dir/a.txt/copy", `{"target_path":"dir/a.txt","overwrite":true}`).code(409, "file_exists")

		for _, target := range []string{"../x", "/etc/x", "a/../../x"} {
			post("/files/dir/a.txt/copy", fmt.Sprintf(`{"target_path":%q}`, target)).code(400, "path_outside_workspace")
		}
	})
	t.Run("share-file", func(t *testing.T) {
		require.JSONEq(t, `{"path":".share/a.txt","target":"dir/a.txt"}`, post("/share-file", `{"source_path":"dir/a.txt"}`).text)
		require.JSONEq(t, `{"path":".share/for/bob/the file","target":"dir"}`,
			post("/share-file", `{"source_path":"dir/","link_name":"the file","share_folder":"for/bob"}`).text)
		require.Equal(t, "A", w.do("GET", base+"/files/.share/for/bob/the%20file/a.txt", w.ann, "").text)
		post("/share-file", `{"source_path":"dir/a.txt","link_name":""}`).code(409, "file_exists")
		post("/share-file", `{"source_path":"dir/none"}`).code(404, "file_not_found")

		for _, body := range []string{`{"source_path":"../x"}`, `{"source_path":"dir","link_name":"../x"}`, `{"source_path":"dir","share_folder":"../x"}`, `{"source_path":"dir","share_folder":"/x"}`} {
			post("/share-file", body).code(400, "path_outside_workspace")
		}

		require.Equal(t, 200, w.do("DELETE", base+"/files/.share/for/bob/the%20file", w.ann, "").status, "the link")
		require.Equal(t, "A", w.do("GET", base+"/files/dir/a.txt", w.ann, "").text)
	})
	t.Run("conditions", func(t *testing.T) {
		fresh := w.do("PUT", base+"/files/once", w.ann, `{"content":"1"}`, header("If-None-Match", "*"))
		require.Equal(t, 200, fresh.status)
		w.do("PUT", base+"/files/once", w.ann, `{"content":"2"}`, header("If-None-Match", "*")).code(409, "file_exists")
		w.do("PUT", base+"/files/once", w.ann, `{"content":"2"}`, header("If-None-Match", `"x"`)).problem(422)
		require.Equal(t, "1", w.do("GET", base+"/files/once", w.ann, "").text)
		w.put(base, "once", "3")
		w.do("DELETE", base+"/files/once", w.ann, "", header("If-Match", fresh.header.Get("ETag"))).code(409, "stale_file")
		now := w.do("GET", base+"/files/once", w.ann, "").header.Get("ETag")
		require.Equal(t, 200, w.do("DELETE", base+"/files/once", w.ann, "", header("If-Match", now)).status)
		w.do("DELETE", base+"/files/once", w.ann, "", header("If-Match", now)).code(409, "stale_file")
		w.do("DELETE", base+"/files/dir", w.ann, "", header("If-Match", `"x"`)).problem(422)
	})
}

// formOf makes a form of fields and files in their order: a name with a slash in
// front is a field.
func formOf(t *testing.T, parts ...[2]string) (body, contentType string) {
	t.Helper()

	var b bytes.Buffer

	form := multipart.NewWriter(&b)

	for _, p := range parts {
		var (
			out io.Writer
			err error
		)
		if field, ok := strings.CutPrefix(p[0], "/"); ok {
			out, err = form.CreateFormField(field)
		} else {
			out, err = form.CreateFormFile("files", p[0])
		}

		require.NoError(t, err)
		_, err = io.WriteString(out, p[1])
		require.NoError(t, err)
	}

	require.NoError(t, form.Close())

	return b.String(), form.FormDataContentType()
}

func TestUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := "/api/sessions/" + w.session(`{}`)
	upload := func(t *testing.T, dir string, parts ...[2]string) reply {
		body, kind := formOf(t, parts...)
		return w.do("POST", base+"/upload/"+dir, w.ann, body, header("Content-Type", kind))
	}

	t.Run("by their own names", func(t *testing.T) {
		r := upload(t, "", [2]string{"ü 1.txt", "one"}, [2]string{"b.bin", "\x00\xff"}, [2]string{"/unknown", "x"})
		require.JSONEq(t, `{"uploaded":["ü 1.txt","b.bin"],"failed":[]}`, r.text)
		require.Equal(t, "\x00\xff", w.do("GET", base+"/files/b.bin", w.ann, "").text)
		require.JSONEq(t, `{"uploaded":["in/to/x"],"failed":[]}`, upload(t, "in%2Fto", [2]string{"x", "1"}).text)
		require.JSONEq(t, `{"uploaded":["in/to/x"],"failed":[]}`, upload(t, "in/to/", [2]string{"x", "2"}, [2]string{"/paths", ""}).text)
		require.Equal(t, "2", w.do("GET", base+"/files/in/to/x", w.ann, "").text)
	})
	t.Run("by paths, wherever they stand", func(t *testing.T) {
		paths := [2]string{"/paths", `["p/q/a.txt","p/日本.txt"]`}

		a, b := [2]string{"a", "A"}, [2]string{"b", "B"}
		for _, parts := range [][][2]string{{paths, a, b}, {a, paths, b}, {a, b, paths}} {
			require.JSONEq(t, `{"uploaded":["up/p/q/a.txt","up/p/日本.txt"],"failed":[]}`, upload(t, "up", parts...).text)
			require.Equal(t, "B", w.do("GET", base+"/files/up/p/%E6%97%A5%E6%9C%AC.txt", w.ann, "").text)
			require.Equal(t, 200, w.do("DELETE", base+"/files/up", w.ann, "").status)
		}
	})
	t.Run("one bad file is no trouble for the others", func(t *testing.T) {
		w.put(base, "isdir/x", "")

		bad := []string{
			"../x",
			"/etc/x",
			"",
			"a/../../x",
			"isdir",
			"isdir/x/y",
			"good",
			"n\x00l",
			strings.Repeat("x", 256),
			"b\\s",
			".everloop-tmp-x",
			"d/",
			".",
		}
		raw, err := json.Marshal(append([]string{"good"}, bad...))
		require.NoError(t, err)

		parts := [][2]string{{"/paths", string(raw)}, {"g", "good"}}
		for range bad {
			parts = append(parts, [2]string{"x", "bad"})
		}

		var got struct {
			Uploaded []string
			Failed   []struct{ Path, Code, Message string }
		}
		require.NoError(t, json.Unmarshal([]byte(upload(t, "", parts...).text), &got))
		require.Equal(t, []string{"good", `b\s`}, got.Uploaded)

		codes := map[string]string{}

		for _, f := range got.Failed {
			require.NotEmpty(t, f.Message)
			codes[f.Path] = f.Code
		}

		require.Equal(t, map[string]string{
			"../x": "path_outside_workspace", "/etc/x": "path_outside_workspace", "": "invalid_path", "a/../../x": "path_outside_workspace",
			"isdir": "is_a_directory", "isdir/x/y": "not_a_directory", "good": "file_exists", "n\x00l": "invalid_path",
			strings.Repeat("x", 256): "invalid_path", ".everloop-tmp-x": "invalid_path", "d/": "invalid_path", ".": "invalid_path",
		}, codes)
		require.Equal(t, "good", w.do("GET", base+"/files/good", w.ann, "").text)
	})
	t.Run("what is no upload leaves nothing", func(t *testing.T) {
		before := w.names(base, "")

		require.Contains(t, upload(t, "").fields(), "body.files")
		require.Contains(t, upload(t, "", [2]string{"new1", "x"}, [2]string{"/paths", `["a","b"]`}).fields(), "body.paths")
		require.Contains(t, upload(t, "", [2]string{"new1", "x"}, [2]string{"/paths", `{"a":1}`}).fields(), "body.paths")
		require.Contains(t, upload(t, "", [2]string{"new1", "x"}, [2]string{"/paths", `null`}).fields(), "body.paths")
		upload(t, "..%2Fx", [2]string{"new1", "x"}).code(400, "path_outside_workspace")
		upload(t, "good", [2]string{"new1", "x"}).code(422, "not_a_directory")
		body, kind := formOf(t, [2]string{"new1", strings.Repeat("x", 100_000)})
		w.do("POST", base+"/upload/", w.ann, body[:50_000], header("Content-Type", kind)).code(400, "malformed_request")
		w.do("POST", base+"/upload/", w.ann, body, header("Content-Type", "multipart/form-data")).problem(400)
		w.do("POST", base+"/upload/", w.ann, `{"files":[]}`).code(415, "unsupported_media_type")
		require.Equal(t, before, w.names(base, ""))
	})
	t.Run("a repeat with its key is one upload", func(t *testing.T) {
		body, kind := formOf(t, [2]string{"keyed", "1"})
		for range 2 {
			r := w.do("POST", base+"/upload/", w.ann, body, header("Content-Type", kind), header("Idempotency-Key", "k1"))
			require.JSONEq(t, `{"uploaded":["keyed"],"failed":[]}`, r.text)
		}
	})
	t.Run("a key without the scope, and another's session", func(t *testing.T) {
		body, kind := formOf(t, [2]string{"x", "1"})
		w.do("POST", base+"/upload/", w.restricted("chat"), body, header("Content-Type", kind)).code(403, "scope_missing")
		w.do("POST", base+"/upload/", w.bob, body, header("Content-Type", kind)).code(404, "session_not_found")
	})
}

// TestUploadCutOff hangs up in the middle of a file.
func TestUploadCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := "/api/sessions/" + w.session(`{}`)
	body, kind := formOf(t, [2]string{"half", strings.Repeat("x", 1<<20)})
	reader, writer := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), "POST", w.url+base+"/upload/", reader)
	require.NoError(t, err)

	request.ContentLength = int64(len(body))
	request.Header.Set("Authorization", "Bearer "+w.ann)
	request.Header.Set("Content-Type", kind)

	ended := make(chan struct{})
	go func() {
		defer close(ended)

		if r, err := http.DefaultTransport.RoundTrip(request); err == nil {
			_ = r.Body.Close()
		}
	}()

	_, err = io.WriteString(writer, body[:600_000])
	require.NoError(t, err)
	require.NoError(t, writer.CloseWithError(io.ErrClosedPipe)) // the client closes its connection
	<-ended
	require.Eventually(t, func() bool {
		return strings.Contains(w.log.String(), `"route":"/api/sessions/{session_id}/upload/{dir_path}"`)
	}, timeout, tick, "the upload has ended")
	require.Empty(t, w.names(base, ""))
}

func TestDownloadDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(`{}`)
	base := "/api/sessions/" + id
	w.put(base, "ü dir/sub/日本.txt", "hello")
	w.put(base, `ü dir/b%5Cs`, "slash")
	w.put(base, "other", "no")
	r := w.do("GET", base+"/download-dir/%C3%BC%20dir/", w.ann, "")
	require.Equal(t, 200, r.status)
	require.Equal(t, "application/zip", r.header.Get("Content-Type"))
	require.Equal(t, `attachment; filename*=utf-8''%C3%BC%20dir.zip`, r.header.Get("Content-Disposition"))
	archive, err := zip.NewReader(strings.NewReader(r.text), int64(len(r.text)))
	require.NoError(t, err)
	require.Equal(t, []string{"b＼s", "sub/", "sub/日本.txt"}, entriesOf(archive))
	content, err := fs.ReadFile(archive, "sub/日本.txt")
	require.NoError(t, err)
	require.Equal(t, "hello", string(content))

	for _, path := range []string{"", "/", "/."} {
		r = w.do("GET", base+"/download-dir"+path, w.ann, "")
		require.Equal(t, "attachment; filename=workspace.zip", r.header.Get("Content-Disposition"))
		archive, err = zip.NewReader(strings.NewReader(r.text), int64(len(r.text)))
		require.NoError(t, err)
		require.Len(t, archive.File, 5)
	}

	w.do("GET", base+"/download-dir/other", w.ann, "").code(422, "not_a_directory")
	w.do("GET", base+"/download-dir/..%2F..", w.ann, "").code(400, "path_outside_workspace")
	w.do("GET", base+"/download-dir/", w.bob, "").code(404, "session_not_found")
	require.Equal(t, 200, w.do("PATCH", base+"/sharing", w.ann, `{"shared":true}`).status)
	require.Equal(t, 200, w.do("GET", base+"/download-dir/", w.bob, "").status, "who may read, may take a copy")
	w.do("POST", base+"/files/other/rename", w.bob, `{"new_name":"x"}`).problem(403)
}

func entriesOf(archive *zip.Reader) (out []string) {
	for _, f := range archive.File {
		out = append(out, f.Name)
	}

	return out
}
