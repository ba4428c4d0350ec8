package api_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// site is one published app of ann's.
type site struct{}

var liveApp = domain.App{ID: "app-1", SessionID: "s", WorkingDir: "site", Name: "site", Status: domain.AppLive, CopyID: "app-app-1.abcd"}

func (site) Publish(_ context.Context, session domain.Session, dir string) (domain.App, error) {
	if dir == "bare" {
		return domain.App{}, domain.Newf(domain.Invalid, domain.CodeNoIndexPage, "the directory has no index.html")
	}
	app := liveApp
	app.SessionID, app.WorkingDir = session.ID, dir
	return app, nil
}

func (site) Unpublish(_ context.Context, _, id string) (domain.App, error) {
	return domain.App{ID: id, Status: domain.AppStopped}, known(id)
}

func (site) App(_ context.Context, _, id string) (domain.App, error) { return liveApp, known(id) }

func (site) Apps(context.Context, string) ([]domain.App, error) { return []domain.App{liveApp}, nil }

func (site) Serve(_ context.Context, id, name string) (domain.ServedApp, error) {
	if err := known(id); err != nil {
		return domain.ServedApp{}, err
	}
	switch name {
	case ".":
		return domain.ServedApp{Directory: true}, nil
	case "docs":
		return domain.ServedApp{Path: "docs", Directory: true}, nil
	case "./", "docs/":
		name = "index.html"
	}
	const page = "<script>alert(1)</script>"
	return domain.ServedApp{Path: name, File: domain.AppFile{Content: io.NopCloser(strings.NewReader(page)), Size: int64(len(page)), ETag: `"v1"`}}, nil
}

func known(id string) error {
	if id != liveApp.ID {
		return domain.AppNotFound()
	}
	return nil
}

var appsWalk = []call{
	{method: "POST", path: "/api/apps", url: "/api/apps", status: 200, hasBody: true, body: `{"session_id":"{s}","working_dir":"site"}`, bad: []bad{
		{body: `{}`, at: "body.session_id"}, {body: `{"session_id":5}`, at: "body.session_id"},
		{body: `{"session_id":"{s}","working_dir":` + `"` + strings.Repeat("x", 4097) + `"}`, at: "body.working_dir"},
	}},
	{method: "GET", path: "/api/apps", url: "/api/apps", status: 200},
	{method: "GET", path: "/api/apps/{app_id}", url: "/api/apps/app-1", status: 200, missing: "/api/apps/none"},
	{method: "DELETE", path: "/api/apps/{app_id}", url: "/api/apps/app-1", status: 200, missing: "/api/apps/none"},
	{method: "GET", path: "/apps/{app_id}/{dir_path}", url: "/apps/app-1/index.html", status: 200, public: true, missing: "/apps/none/index.html"},
}

func TestAPublishedPageIsOfNoOrigin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.do("GET", "/apps/app-1/", "", "")
	require.Equal(t, 200, page.status, page.text)
	require.Equal(t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
	policy := page.header.Get("Content-Security-Policy")
	require.Contains(t, policy, "sandbox allow-scripts")
	require.NotContains(t, policy, "allow-same-origin")
	require.Equal(t, "nosniff", page.header.Get("X-Content-Type-Options"))
	require.Equal(t, "*", page.header.Get("Access-Control-Allow-Origin"))
	require.Empty(t, page.header.Get("Set-Cookie"))
	require.Equal(t, 304, w.do("GET", "/apps/app-1/", "", "", header("If-None-Match", `"v1"`)).status)
	require.Equal(t, 200, w.do("HEAD", "/apps/app-1/", "", "").status)
	moved := w.do("GET", "/apps/app-1/docs", "", "")
	require.Equal(t, 308, moved.status)
	require.Equal(t, "docs/", moved.header.Get("Location"))
	moved = w.do("GET", "/apps/app-1", "", "")
	require.Equal(t, 308, moved.status)
	require.Equal(t, "app-1/", moved.header.Get("Location"))
	part := w.do("GET", "/apps/app-1/film.mp4", "", "", header("Range", "bytes=8-12"))
	require.Equal(t, 206, part.status)
	require.Equal(t, "alert", part.text)
	require.Equal(t, "bytes 8-12/25", part.header.Get("Content-Range"))
	require.Equal(t, 416, w.do("GET", "/apps/app-1/film.mp4", "", "", header("Range", "bytes=99-")).status)
	require.Equal(t, 200, w.do("GET", "/apps/app-1/docs/", "", "").status, "a browser that was led there is led on for ever")
	require.Equal(t, "application/octet-stream", w.do("GET", "/apps/app-1/page.unknown", "", "").header.Get("Content-Type"))

	made := w.do("POST", "/api/apps", w.ann, `{"session_id":"`+w.session("{}")+`","working_dir":"site"}`).json()
	require.Equal(t, w.url+"/apps/app-1/", made["url"])
	require.Equal(t, "sha256:abcd", made["digest"])
	require.Equal(t, "static", made["kind"])
	w.do("POST", "/api/apps", w.bob, `{"session_id":"`+w.session("{}")+`"}`).code(404, "session_not_found")
	w.do("POST", "/api/apps", w.ann, `{"session_id":"`+w.session("{}")+`","working_dir":"bare"}`).code(422, "no_index_page")
	require.Equal(t, "stopped", w.do("DELETE", "/api/apps/app-1", w.ann, "").json()["status"])
}
