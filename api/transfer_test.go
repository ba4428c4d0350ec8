package api_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/internal/testkit"
)

// form writes a multipart form with a file, and fields before it.
func form(t *testing.T, content string, fields ...string) (body, kind string) {
	t.Helper()

	var out bytes.Buffer

	w := multipart.NewWriter(&out)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(t, w.WriteField(fields[i], fields[i+1]))
	}

	f, err := w.CreateFormFile("file", "a.zip")
	require.NoError(t, err)
	_, err = f.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, w.Close())

	return out.String(), w.FormDataContentType()
}

func TestForms(t *testing.T) { //nolint:paralleltest // it names the directory of temporary files
	testkit.Engines(t) // theirs are not below the test's own directory, which is removed
	t.Setenv("TMPDIR", t.TempDir())
	w := newWorld(t)
	send := func(path, body, kind string) reply {
		return w.do(http.MethodPost, path, w.ann, body, header("Content-Type", kind))
	}

	const load, look = "/api/sessions/import", "/api/sessions/preview-import"

	body, kind := form(t, "0123456789", "name", "a name", "solution_id", "skill_editor")
	require.EqualValues(t, 10, send(look, body, kind).json()["counts"].(map[string]any)["bytes"])
	require.Contains(t, send(load, body, kind).text, `10 bytes for \"a name\", solution true`)
	big, bigKind := form(t, strings.Repeat("x", 12<<20)) // beyond what a JSON body may have
	require.Contains(t, send(load, big, bigKind).text, fmt.Sprint(12<<20))

	for _, path := range []string{load, look} {
		require.Equal(t, []string{"body.file"}, send(path, "--x--\r\n", "multipart/form-data; boundary=x").fields())
		send(path, body, "multipart/form-data").code(400, "malformed_request")
		send(path, body[:len(body)-20], kind).code(400, "malformed_request")
		send(path, body, "multipart/form-data; boundary=other").code(400, "malformed_request")
		send(path, `{}`, "application/json").code(415, "unsupported_media_type")
		send(path, "", "application/json").code(415, "unsupported_media_type")

		field, fieldKind := form(t, "x", "name", strings.Repeat("n", 1<<20+1))
		send(path, field, fieldKind).code(413, "body_too_large")

		var many []string
		for i := range 101 {
			many = append(many, fmt.Sprint(i), "x")
		}

		crowd, crowdKind := form(t, "x", many...)
		send(path, crowd, crowdKind).code(400, "malformed_request")
	}

	long, longKind := form(t, "x", "name", strings.Repeat("n", 100_001))
	require.Equal(t, []string{"body.name"}, send(load, long, longKind).fields())
	long, longKind = form(t, "x", "solution_id", strings.Repeat("n", 257))
	require.Equal(t, []string{"body.solution_id"}, send(load, long, longKind).fields())

	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)

	for _, f := range left {
		require.NotContains(t, f.Name(), "everloop-upload-", "a file is left")
	}
}

// The scope of files holds for exports too: a caller that may not read them one by one
// does not get them all at once.
func TestExportHoldsWhatTheCallerMayRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.session(`{}`)
	w.do(http.MethodPatch, "/api/sessions/"+id+"/sharing", w.ann, `{"shared":true}`).json()

	for _, tc := range []struct{ key, want string }{
		{w.ann, "Private:true Files:true"},
		{w.restricted("sessions:read"), "Private:true Files:false"},
		{w.restricted("sessions:write"), "Private:true Files:false"},
		{w.restricted("sessions:read", "files"), "Private:true Files:true"},
		{w.bob, "Private:false Files:true"},
	} {
		require.Contains(t, w.do(http.MethodGet, "/api/sessions/"+id+"/export", tc.key, "").text, tc.want)
	}

	w.do(http.MethodGet, "/api/sessions/"+id+"/export", w.restricted("files"), "").code(403, "scope_missing")
}

func TestImportIntoASolutionThatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body, kind := form(t, "0123456789", "solution_id", "nope")
	refused := w.do(http.MethodPost, "/api/sessions/import", w.ann, body, header("Content-Type", kind))
	require.Equal(t, []string{"body.solution_id"}, refused.fields())
}
