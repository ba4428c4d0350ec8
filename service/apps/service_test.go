package apps_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
	"everloop/domain/app"
	"everloop/infra/objects"
	"everloop/infra/postgres"
	"everloop/infra/snapshots"
	"everloop/infra/workspace"
	"everloop/internal/testkit"
	"everloop/service/accounts"
	"everloop/service/apps"
	"everloop/service/files"
	"everloop/service/history"
)

// world is a session with a workspace, on real records and a real object store.
type world struct {
	*apps.Service
	t       *testing.T
	db      *postgres.DB
	session domain.Session
	root    string
	store   *objects.Store
	config  apps.Config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 8})

	user := domain.User{ID: domain.NewID(), Username: "ann"}
	key, _, hash := auth.NewKey(user.ID, "first")
	_, _, err := accounts.New(db.DB).CreateUser(t.Context(), user, key, hash[:])
	require.NoError(t, err)
	session, err := db.CreateSession(t.Context(), user.ID, domain.NewSession{Intent: "A site"})
	require.NoError(t, err)
	bucket := testkit.Objects(t)
	store, err := objects.Open(
		t.Context(),
		objects.Config{Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey},
	)
	require.NoError(t, err)
	spaces := workspace.New(t.TempDir())
	session.SandboxUID = -1
	w, err := spaces.Open(t.Context(), session.ID, session.SandboxUID)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	cfg := apps.Config{Store: apps.NewStore(db.DB), Logger: slog.Default(), Copies: files.AppCopies{
		Store: snapshots.New(snapshots.Config{Objects: store, SpoolDir: t.TempDir()}), Workspaces: spaces,
	}}
	service, err := apps.New(cfg)
	require.NoError(t, err)

	return &world{t: t, db: db, session: session, root: w.HostPath(), Service: service, store: store, config: cfg}
}

// copies names the copies in the object store.
func (w *world) copies() []string {
	w.t.Helper()
	keys, err := w.store.Keys(w.t.Context(), "snapshots/")
	require.NoError(w.t, err)

	var names []string

	for _, key := range keys {
		name := strings.Split(strings.TrimPrefix(key, "snapshots/"), "/")[0]
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}

	return names
}

func (w *world) write(name, content string) {
	w.t.Helper()
	at := filepath.Join(w.root, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(w.t, os.WriteFile(at, []byte(content), 0o644))
}

func (w *world) read(appID, name string) (string, error) {
	served, err := w.Serve(context.Background(), appID, name)
	if err != nil || served.Directory {
		return "directory " + served.Path, err
	}
	defer served.File.Content.Close()

	content, err := io.ReadAll(served.File.Content)
	require.NoError(w.t, err)
	require.EqualValues(w.t, len(content), served.File.Size)

	return string(content), nil
}

func TestAPublishedDirectoryIsServedAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("site/index.html", "<h1>one</h1>")
	w.write("site/docs/index.html", "docs")
	w.write("site/docs/a.txt", "a")
	w.write("site/empty.css", "")
	w.write("site/.env", "SECRET=1")
	w.write("site/.git/config", "x")
	w.write("outside.txt", "not published")
	require.NoError(t, os.Symlink("../outside.txt", filepath.Join(w.root, "site", "link.txt")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(w.root, "site", "passwd")))

	published, err := w.Publish(t.Context(), w.session, "site/")
	require.NoError(t, err)
	require.Equal(t, app.Live, published.Status)
	require.Equal(t, "site", published.WorkingDir)
	w.write("site/index.html", "<h1>two</h1>")

	for path, want := range map[string]string{
		"./": "<h1>one</h1>", ".": "directory ", "index.html": "<h1>one</h1>", "docs/": "docs", "docs/a.txt": "a",
		"empty.css": "", "docs": "directory docs", "./docs/../docs/a.txt": "a",
	} {
		got, err := w.read(published.ID, path)
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
	}

	for _, path := range []string{
		".env", ".git/config", "docs/../.env", "../outside.txt", "link.txt", "passwd", "none", "docs/a.txt/", "index.html/x", "a\x00b",
		strings.Repeat("a/", 3000),
	} {
		_, err := w.read(published.ID, path)
		require.True(t, domain.HasCode(err, domain.CodeFileNotFound), "%q: %v", path, err)
	}

	_, err = w.read("none", "./")
	require.True(t, domain.HasCode(err, app.CodeNotFound))

	again, err := w.Publish(t.Context(), w.session, "site")
	require.NoError(t, err)
	require.Equal(t, published.ID, again.ID, "the place keeps its address")
	require.NotEqual(t, published.CopyID, again.CopyID)
	got, err := w.read(published.ID, "./")
	require.NoError(t, err)
	require.Equal(t, "<h1>two</h1>", got)

	_, err = w.Unpublish(t.Context(), "another user", published.ID)
	require.True(t, domain.HasCode(err, app.CodeNotFound))
	stopped, err := w.Unpublish(t.Context(), w.session.OwnerID, published.ID)
	require.NoError(t, err)
	require.Equal(t, app.Stopped, stopped.Status)

	_, err = w.read(published.ID, "./")
	require.True(t, domain.HasCode(err, app.CodeNotFound))
	list, err := w.Apps(t.Context(), w.session.OwnerID)
	require.NoError(t, err)
	require.Empty(t, list)
	fresh, err := w.Publish(t.Context(), w.session, "site")
	require.NoError(t, err)
	require.NotEqual(t, published.ID, fresh.ID)
}

func TestWhatCannotBePublishedLeavesWhatIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("bare/readme.md", "no page here")
	_, err := w.Publish(t.Context(), w.session, "bare")
	require.True(t, domain.HasCode(err, app.CodeNoIndexPage), "%v", err)
	_, err = w.Publish(t.Context(), w.session, "../site")
	require.True(t, domain.HasCode(err, domain.CodePathOutside), "%v", err)

	for _, dir := range []string{"none", "bare/readme.md", "a\x00b", strings.Repeat("x", 300)} {
		_, err := w.Publish(t.Context(), w.session, dir)
		require.Error(t, err)
		require.NotEqual(t, domain.Internal, domain.AsError(err).Kind, "%q: %v", dir, err)
	}

	require.NoError(t, os.Symlink("/etc", filepath.Join(w.root, "etc")))
	_, err = w.Publish(t.Context(), w.session, "etc")
	require.Error(t, err, "a link that leaves the workspace")

	w.write("site/index.html", "fine")
	published, err := w.Publish(t.Context(), w.session, "site")
	require.NoError(t, err)
	big, err := os.Create(filepath.Join(w.root, "site", "big.bin"))
	require.NoError(t, err)
	require.NoError(t, big.Truncate(app.MaxBytes+1))
	require.NoError(t, big.Close())
	_, err = w.Publish(t.Context(), w.session, "site")
	require.True(t, domain.HasCode(err, app.CodeTooLarge), "%v", err)
	got, err := w.read(published.ID, "./")
	require.NoError(t, err)
	require.Equal(t, "fine", got, "what was published stays")
	list, err := w.Apps(t.Context(), w.session.OwnerID)
	require.NoError(t, err)
	require.Equal(t, []app.App{published}, list, "what was refused left something behind")
}

// What is refused leaves no object, and of what is published the store has the newest
// copy alone.
func TestService_Publish_keepsOneCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("site/large.txt", strings.Repeat("no page here", 1000))
	_, err := w.Publish(t.Context(), w.session, "site")
	require.True(t, domain.HasCode(err, app.CodeNoIndexPage), "%v", err)
	require.NoError(t, os.Symlink("large.txt", filepath.Join(w.root, "site", "index.html")))
	_, err = w.Publish(t.Context(), w.session, "site")
	require.True(t, domain.HasCode(err, app.CodeNoIndexPage), "a link is not served: %v", err)
	require.Empty(t, w.copies())

	var app app.App

	for _, page := range []string{"one", "two", "three"} {
		require.NoError(t, os.Remove(filepath.Join(w.root, "site", "index.html")))
		w.write("site/index.html", page)
		app, err = w.Publish(t.Context(), w.session, "site")
		require.NoError(t, err)
		require.Len(t, w.copies(), 1, page)

		got, err := w.read(app.ID, "./")
		require.NoError(t, err)
		require.Equal(t, page, got)
	}

	_, err = w.Unpublish(t.Context(), w.session.OwnerID, app.ID)
	require.NoError(t, err)
	require.Empty(t, w.copies())
}

// Apps count against the budget of their owner, as they are stored.
func TestService_Publish_keepsToTheBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Budget = 100_000
	service, err := apps.New(w.config)
	require.NoError(t, err)

	for _, dir := range []string{"one", "two"} {
		content := make([]byte, 70_000)
		_, _ = rand.Read(content)
		w.write(dir+"/index.html", string(content))
	}

	first, err := service.Publish(t.Context(), w.session, "one")
	require.NoError(t, err)
	_, err = service.Publish(t.Context(), w.session, "two")
	require.True(t, domain.HasCode(err, app.CodeBudget), "%v", err)
	require.Len(t, w.copies(), 1)

	_, owner, err := history.NewStore(w.db.DB, nil).CheckpointBytes(t.Context(), w.session.ID)
	require.NoError(t, err)
	require.Greater(t, owner, int64(70_000), "checkpoints share the budget")

	_, err = service.Unpublish(t.Context(), w.session.OwnerID, first.ID)
	require.NoError(t, err)
	_, err = service.Publish(t.Context(), w.session, "two")
	require.NoError(t, err)
}

// The periodic job removes what a process that died had stored, and the copies of
// deleted users.
func TestService_Clear(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("site/index.html", "live")
	published, err := w.Publish(t.Context(), w.session, "site")
	require.NoError(t, err)

	lost := app.Copy{Name: "app-" + published.ID + "-lost", AppID: published.ID, OwnerID: published.OwnerID, Bytes: 1}
	require.NoError(t, w.KeepCopy(t.Context(), lost, 0))
	require.NoError(t, w.store.Put(t.Context(), "snapshots/"+lost.Name+"/packs/1", []byte("x")))
	require.NoError(t, w.Clear(t.Context()))
	require.Len(t, w.copies(), 2, "it may be one that is being made")

	_, err = w.db.Pool.Exec(t.Context(), `UPDATE app_copies SET made_at = now() - interval '2 hours'`)
	require.NoError(t, err)
	require.NoError(t, w.Clear(t.Context()))
	require.Len(t, w.copies(), 1)

	got, err := w.read(published.ID, "./")
	require.NoError(t, err)
	require.Equal(t, "live", got)

	_, err = w.db.Pool.Exec(t.Context(), `UPDATE users SET deleted_at = now() WHERE id = $1`, published.OwnerID)
	require.NoError(t, err)
	require.NoError(t, w.Clear(t.Context()))
	require.Empty(t, w.copies())
	left, err := w.LeftCopies(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, left)
}
