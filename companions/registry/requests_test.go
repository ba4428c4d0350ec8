package registry_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// fields returns the places that a 422 names.
func (r response) fields(t *testing.T) (at []string) {
	t.Helper()
	require.Equal(t, 422, r.status, string(r.body))

	for _, field := range r.json(t)["errors"].([]any) {
		at = append(at, field.(map[string]any)["location"].(string))
	}

	return at
}

func TestService_readsBodiesAsTheAgentDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Equal(t, 201, w.upload("acme/tables", "1.0.0", "ann", pack(t, "SKILL.md", document("tables", "1.0.0", "x"))).status)

	const path = "/skills/acme/tables/release"
	require.Equal(t, 200, w.put(path, "ann", `{"version":"1.0.0","note":{"by":"ci"}}`).status, "unknown fields are ignored")
	require.Equal(t, []string{"body.version"}, w.put(path, "ann", `{"version":1}`).fields(t))
	require.Equal(t, []string{"body.version"}, w.put(path, "ann", `{}`).fields(t))
	require.Equal(t, []string{"body"}, w.put(path, "ann", `["1.0.0"]`).fields(t))
	require.Equal(t, []string{"body"}, w.put(path, "ann", `null`).fields(t))
	w.refused(w.put(path, "ann", ``), 400, "malformed_request")
	w.refused(w.put(path, "ann", `{"version":"1.0.0"}{}`), 400, "malformed_request")

	form := w.put("/registry/templates/agent/basic", machineKey, `{"title":[],"version":"1.0.0"}`)
	require.Equal(t, []string{"body.title"}, form.fields(t))

	var body bytes.Buffer

	upload := multipart.NewWriter(&body)
	require.NoError(t, upload.WriteField("description", "of another tool"))
	part, err := upload.CreateFormFile("file", "skill.zip")
	require.NoError(t, err)

	_, _ = part.Write(pack(t, "SKILL.md", document("tables", "1.1.0", "x")))

	require.NoError(t, upload.WriteField("tags", "a"))
	require.NoError(t, upload.Close())
	require.Equal(
		t,
		201,
		w.send(http.MethodPost, "/skills/acme/tables/versions/1.1.0", "ann", upload.FormDataContentType(), body.Bytes()).status,
	)
}

func TestService_methodsOfPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	for path, allow := range map[string]string{
		"/skills/acme/tables/release":        "PUT",
		"/skills/acme/tables/versions":       "GET, HEAD",
		"/skills/acme/tables/versions/1.0.0": "GET, HEAD, POST",
		"/api/health":                        "GET, HEAD",
		"/":                                  "GET, HEAD",
	} {
		r := w.send(http.MethodPatch, path, "", "", nil)
		w.refused(r, 405, "method_not_allowed")
		require.Equal(t, allow, r.header.Get("Allow"), path)
	}

	r := w.get("/skills/acme/tables/elsewhere")
	w.refused(r, 404, "route_not_found")
	require.Equal(t, r.header.Get("X-Request-Id"), r.json(t)["request_id"])
	require.NotEmpty(t, r.json(t)["request_id"])
}
