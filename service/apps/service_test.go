package apps_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/auth"
	"everloop/domain"
	"everloop/infra/objects"
	"everloop/infra/postgres"
	"everloop/infra/snapshots"
	"everloop/infra/workspace"
	"everloop/internal/testkit"
	"everloop/service/apps"
	"everloop/service/files"
)

// world is a session with a workspace, on real records and a real object store.
type world struct {
	*apps.Service
	t       *testing.T
	db      *postgres.DB
	session domain.Session
	root    string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := postgres.Open(t.Context(), testkit.Postgres(t), postgres.Options{MaxConns: 8})
	require.NoError(t, err)
	t.Cleanup(db.Close)

	user := domain.User{ID: domain.NewID(), Username: "ann"}
	key, _, hash := auth.NewKey(user.ID, "first")
	_, _, err = db.CreateUser(t.Context(), user, key, hash[:])
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
	service, err := apps.New(apps.Config{Records: db, Logger: slog.Default(), Copies: files.AppCopies{
		Store: snapshots.New(snapshots.Config{Objects: store, SpoolDir: t.TempDir()}), Workspaces: spaces,
	}})
	require.NoError(t, err)

	return &world{t: t, db: db, session: session, root: w.HostPath(), Service: service}
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

	app, err := w.Publish(t.Context(), w.session, "site/")
	require.NoError(t, err)
	require.Equal(t, domain.AppLive, app.Status)
	require.Equal(t, "site", app.WorkingDir)
	w.write("site/index.html", "<h1>two</h1>")

	for path, want := range map[string]string{
		"./": "<h1>one</h1>", ".": "directory ", "index.html": "<h1>one</h1>", "docs/": "docs", "docs/a.txt": "a", "empty.css": "", "docs": "directory docs",
		"./docs/../docs/a.txt": "a",
	} {
		got, err := w.read(app.ID, path)
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
	}

	for _, path := range []string{".env", ".git/config", "docs/../.env", "../outside.txt", "link.txt", "passwd", "none", "docs/a.txt/", "index.html/x", "a\x00b", strings.Repeat("a/", 3000)} {
		_, err := w.read(app.ID, path)
		require.True(t, domain.HasCode(err, domain.CodeFileNotFound), "%q: %v", path, err)
	}

	_, err = w.read("none", "./")
	require.True(t, domain.HasCode(err, domain.CodeAppNotFound))

	again, err := w.Publish(t.Context(), w.session, "site")
	require.NoError(t, err)
	require.Equal(t, app.ID, again.ID, "the place keeps its address")
	require.NotEqual(t, app.CopyID, again.CopyID)
	got, err := w.read(app.ID, "./")
	require.NoError(t, err)
	require.Equal(t, "<h1>two</h1>", got)

	_, err = w.Unpublish(t.Context(), "another user", app.ID)
	require.True(t, domain.HasCode(err, domain.CodeAppNotFound))
	stopped, err := w.Unpublish(t.Context(), w.session.OwnerID, app.ID)
	require.NoError(t, err)
	require.Equal(t, domain.AppStopped, stopped.Status)

	_, err = w.read(app.ID, "./")
	require.True(t, domain.HasCode(err, domain.CodeAppNotFound))
	list, err := w.db.Apps(t.Context(), w.session.OwnerID)
	require.NoError(t, err)
	require.Empty(t, list)
	fresh, err := w.Publish(t.Context(), w.session, "site")
	require.NoError(t, err)
	require.NotEqual(t, app.ID, fresh.ID)
}

func TestWhatCannotBePublishedLeavesWhatIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("bare/readme.md", "no page here")
	_, err := w.Publish(t.Context(), w.session, "bare")
	require.True(t, domain.HasCode(err, domain.CodeNoIndexPage), "%v", err)
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
	app, err := w.Publish(t.Context(), w.session, "site")
	require.NoError(t, err)
	big, err := os.Create(filepath.Join(w.root, "site", "big.bin"))
	require.NoError(t, err)
	require.NoError(t, big.Truncate(domain.MaxAppBytes+1))
	require.NoError(t, big.Close())
	_, err = w.Publish(t.Context(), w.session, "site")
	require.True(t, domain.HasCode(err, domain.CodeAppTooLarge), "%v", err)
	got, err := w.read(app.ID, "./")
	require.NoError(t, err)
	require.Equal(t, "fine", got, "what was published stays")
	list, err := w.db.Apps(t.Context(), w.session.OwnerID)
	require.NoError(t, err)
	require.Equal(t, []domain.App{app}, list, "what was refused left something behind")
}
