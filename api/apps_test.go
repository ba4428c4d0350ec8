package api_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/app"
)

// site is one published app of ann's.
type site struct{}

var liveApp = app.App{ID: "app-1", SessionID: "s", WorkingDir: "site", Name: "site", Status: app.Live, CopyID: "app-app-1.abcd"}

func (site) Publish(_ context.Context, session domain.Session, dir string) (app.App, error) {
	if dir == "bare" {
		return app.App{}, domain.Newf(domain.Invalid, app.CodeNoIndexPage, "the directory has no index.html")
	}

	app := liveApp
	app.SessionID, app.WorkingDir = session.ID, dir

	return app, nil
}

func (site) Unpublish(_ context.Context, _, id string) (app.App, error) {
	return app.App{ID: id, Status: app.Stopped}, known(id)
}

func (site) App(_ context.Context, _, id string) (app.App, error) { return liveApp, known(id) }

func (site) Apps(context.Context, string) ([]app.App, error) { return []app.App{liveApp}, nil }

func (site) Serve(ctx context.Context, id, name string) (app.Served, error) {
	if err := known(id); err != nil {
		return app.Served{}, err
	}

	switch name {
	case ".":
		return app.Served{Directory: true}, nil
	case "docs":
		return app.Served{Path: "docs", Directory: true}, nil
	case "./", "docs/":
		name = "index.html"
	}

	if name == "large.bin" {
		return app.Served{
			Path: name,
			File: app.File{Content: fetched{inMemory{strings.NewReader(largeFile)}, ctx}, Size: int64(len(largeFile)), ETag: `"v1"`},
		}, nil
	}

	const page = "<script>alert(1)</script>"

	return app.Served{
		Path: name,
		File: app.File{Content: inMemory{strings.NewReader(page)}, Size: int64(len(page)), ETag: `"v1"`},
	}, nil
}

// largeFile is more than is read at once.
var largeFile = strings.Repeat("0123456789abcdef", 5<<20/16)

type inMemory struct{ *strings.Reader }

func (inMemory) Close() error { return nil }

// fetched is a file whose parts are fetched while it is read, as long as its context
// holds.
type fetched struct {
	inMemory
	ctx context.Context
}

func (f fetched) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}

	return f.inMemory.Read(p)
}

// WriteTo would go round Read.
func (f fetched) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{f})
}

func TestReadApp_streamsAfterTheHandlerHasReturned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	whole := w.do("GET", "/apps/app-1/large.bin", "", "")
	require.Equal(t, 200, whole.status)
	require.True(t, whole.text == largeFile, "%d bytes", len(whole.text))

	part := w.do("GET", "/apps/app-1/large.bin", "", "", header("Range", "bytes=5000000-"))
	require.Equal(t, 206, part.status)
	require.True(t, part.text == largeFile[5000000:], "%d bytes", len(part.text))
	require.Equal(t, 200, w.do("HEAD", "/apps/app-1/large.bin", "", "").status)
}

func TestReadApp_refusesServiceWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("GET", "/apps/app-1/worker.js", "", "", header("Service-Worker", "script")).code(403, "service_worker_refused")
}

func known(id string) error {
	if id != liveApp.ID {
		return app.NotFound()
	}

	return nil
}

var appsWalk = []call{
	{
		method:  "POST",
		path:    "/api/apps",
		scope:   "files",
		url:     "/api/apps",
		status:  200,
		hasBody: true,
		body:    `{"session_id":"{s}","working_dir":"site"}`,
		bad: []bad{
			{body: `{}`, at: "body.session_id"},
			{body: `{"session_id":5}`, at: "body.session_id"},
			{body: `{"session_id":"{s}","working_dir":` + `"` + strings.Repeat("x", 4097) + `"}`, at: "body.working_dir"},
		},
	},
	{method: "GET", path: "/api/apps", scope: "sessions:read", url: "/api/apps", status: 200},
	{method: "GET", path: "/api/apps/{app_id}", scope: "sessions:read", url: "/api/apps/app-1", status: 200, missing: "/api/apps/none"},
	{method: "DELETE", path: "/api/apps/{app_id}", scope: "files", url: "/api/apps/app-1", status: 200, missing: "/api/apps/none"},
	{
		method:  "GET",
		path:    "/apps/{app_id}/{dir_path}",
		scope:   "public",
		url:     "/apps/app-1/index.html",
		status:  200,
		public:  true,
		missing: "/apps/none/index.html",
	},
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
	require.Equal(t, 200, w.do("GET", "/apps/app-1/docs/", "", "").status, "a redirect that browsers keep must still work")
	require.Equal(t, "application/octet-stream", w.do("GET", "/apps/app-1/page.unknown", "", "").header.Get("Content-Type"))

	made := w.do("POST", "/api/apps", w.ann, `{"session_id":"`+w.session("{}")+`","working_dir":"site"}`).json()
	require.Equal(t, w.url+"/apps/app-1/", made["url"])
	require.Equal(t, "sha256:abcd", made["digest"])
	require.Equal(t, "static", made["kind"])
	w.do("POST", "/api/apps", w.bob, `{"session_id":"`+w.session("{}")+`"}`).code(404, "session_not_found")
	w.do("POST", "/api/apps", w.ann, `{"session_id":"`+w.session("{}")+`","working_dir":"bare"}`).code(422, "no_index_page")
	require.Equal(t, "stopped", w.do("DELETE", "/api/apps/app-1", w.ann, "").json()["status"])
}
