package githost_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/companions/githost"
)

func TestPages_listRepositoriesFilesAndCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	require.Contains(t, string(w.get("/").body), "0 found")
	c := w.skill("acme/tables", "ann", "1.0.0")
	c.must("push", "origin", "main")

	const hostile = `<script>alert(1)</script>"'&`
	c.commit(hostile+"\n\nThe rest.", hostile, hostile, "dir/deep/file.txt", "deep text", "binary", "a\x00b",
		"large", strings.Repeat("x", 300<<10))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(c.dir, "link")))
	c.must("add", "link")
	c.must("commit", "--quiet", "--amend", "--no-edit")
	c.must("push", "origin", "HEAD:refs/heads/topic")
	id := c.must("rev-parse", "HEAD")

	page := func(path string) string {
		t.Helper()

		got := w.get(path)
		require.Equal(t, 200, got.status, "%s: %s", path, got.body)
		text := string(got.body)
		require.NotContains(t, text, "<script>")
		require.NotContains(t, text, "ZgotmplZ")
		// The policy allows the style of the page, and nothing that a repository brings.
		style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(text)
		require.Len(t, style, 2)
		sum := sha256.Sum256([]byte(style[1]))
		require.Equal(t, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+
			"'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'", got.header.Get("Content-Security-Policy"))

		return text
	}
	require.Contains(t, page("/"), `<a href="/-/acme/tables">acme/tables</a>`)
	require.Contains(t, page("/?q=none"), "0 found")
	require.Contains(t, page("/-/acme/tables"), "SKILL.md")
	topic := page("/-/acme/tables?ref=topic")
	require.Contains(t, topic, "&lt;script&gt;alert(1)&lt;/script&gt;")
	require.Contains(t, topic, "directory")
	require.Contains(t, topic, "link")

	show := func(path string) string { return page("/-/acme/tables?ref=topic&path=" + url.QueryEscape(path)) }
	require.Contains(t, show("dir/deep"), "file.txt")
	require.Contains(t, show("dir/deep/file.txt"), "<pre>deep text</pre>")
	require.Contains(t, show("binary"), "binary file of 3 bytes")
	require.Contains(t, show("large"), "307200 bytes is too large")
	require.Contains(t, show("link"), "<pre>/etc/passwd</pre>")
	require.Contains(t, page("/-/acme/tables?ref="+id), "dir")
	commits := page("/-/acme/tables/commits?ref=topic")
	require.Contains(t, commits, id[:10])
	require.Contains(t, commits, "Start")

	single := page("/-/acme/tables/commit?ref=" + id)
	require.Contains(t, single, "The rest.")
	require.Contains(t, single, "dir/deep/file.txt")

	for path, status := range map[string]int{
		"/-/acme/none":                               404,
		"/-/acme/tables?ref=none":                    404,
		"/-/acme/tables?ref=--all":                   404,
		"/-/acme/tables?ref=HEAD~1":                  404,
		"/-/acme/tables?ref=" + unknownCommit:        404,
		"/-/acme/tables?path=..%2F..%2Fetc":          404,
		"/-/acme/tables?path=%2Fetc%2Fpasswd":        404,
		"/-/acme/tables?path=none":                   404,
		"/-/acme/tables/commits?page=-1":             422,
		"/-/ac.me/tables":                            422,
		"/-/acme/..%2ftables":                        422,
		"/-/acme/tables/config":                      404,
		"/?q=" + strings.Repeat("x", 300):            422,
		"/-/acme/tables/commit?ref=refs/heads/topic": 404,
	} {
		require.Equal(t, status, w.get(path).status, path)
	}
}

// The address that people clone leads a browser to the page of the repository.
func TestPages_addressOfTheRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)

	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

	for _, path := range []string{"/acme/tables.git", "/acme/tables.git/"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		require.NoError(t, err)
		answer, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusFound, answer.StatusCode, path)
		require.Equal(t, "/-/acme/tables", answer.Header.Get("Location"), path)
	}
}

func TestPages_methods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)

	for _, path := range []string{"/", "/api/health", "/-/acme/tables", "/-/acme/tables/commits"} {
		got := w.send("POST", w.url+path, "", nil, nil)
		require.Equal(t, 405, got.status, path)
		require.Equal(t, "GET, HEAD", got.header.Get("Allow"), path)
		require.Equal(t, "method_not_allowed", got.json(t)["code"], path)
		require.Equal(t, got.header.Get("X-Request-Id"), got.json(t)["request_id"], path)
	}

	require.Equal(t, 404, w.send("POST", w.url+"/-/acme", "", nil, nil).status)
	require.Equal(t, "GET, HEAD", w.send("DELETE", w.url+"/acme/tables.git", "", nil, nil).header.Get("Allow"))
}

func TestPages_paginate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.newClone("acme/tables", "ann")

	var stream strings.Builder
	for i := range 60 {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata <<E\nnumber %d.\nE\n", 1e9+i, i)
	}

	c.input(stream.String(), "fast-import", "--quiet")
	c.must("push", "origin", "main")

	first, second := string(w.get("/-/acme/tables/commits").body), string(w.get("/-/acme/tables/commits?page=1").body)
	require.Contains(t, first, "number 59.")
	require.NotContains(t, first, "number 9.")
	require.Contains(t, first, "page=1")
	require.Contains(t, second, "number 9.")
	require.Contains(t, second, "number 0.")
	require.NotContains(t, second, "page=2")
}

func TestService_health(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.skill("acme/tables", "ann", "1.0.0").must("push", "origin", "main")

	for _, path := range []string{"/api/health", "/readyz"} {
		got := w.get(path)
		require.Equal(t, 200, got.status, string(got.body))
		fields := got.json(t)
		require.Equal(t, "ok", fields["status"])
		require.InDelta(t, 1, fields["repositories"], 0)
		require.NotEmpty(t, fields["git_version"])
	}

	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "work")))

	got := w.get("/api/health")
	for got.status == 200 { // the answer before holds for a second
		require.NoError(t, t.Context().Err())

		got = w.get("/api/health")
	}

	require.Equal(t, 503, got.status)
	require.Equal(t, false, got.json(t)["storage_ok"])
}

// Checks by clients without credentials cost one check a second, whatever they ask.
func TestService_health_isShared(t *testing.T) {
	t.Parallel()

	var asked atomic.Int64

	registry := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(registry.Close)
	w := newWorld(t, func(cfg *githost.Config) { cfg.RegistryURL = registry.URL })

	began := time.Now()

	for range 100 {
		require.Equal(t, 200, w.get("/readyz").status)
		require.Equal(t, 200, w.get("/api/health").status)
	}

	require.LessOrEqual(t, asked.Load(), 1+int64(time.Since(began)/time.Second))
}
