//go:build linux

package snapshots

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/infra/objects"
	"everloop/internal/testkit"
)

const testUID = 123456

// bench is a workspace of one session, with a store over a real S3 server.
type bench struct {
	store   *Store
	objects *objects.Store
	session domain.SessionID
	root    string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	bucket := testkit.Objects(t)
	store, err := objects.Open(t.Context(), objects.Config{
		Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	require.NoError(t, err)
	b := &bench{objects: store, session: "0190-session", root: t.TempDir()}
	b.restart(t)

	return b
}

// restart forgets all that the store knew, as a new process does.
func (b *bench) restart(t testing.TB) { b.store = b.fresh(t, b.objects) }

func (b *bench) fresh(t testing.TB, o Objects) *Store {
	s := New(Config{Objects: o, SpoolDir: spoolDir(t)})
	s.grain = 20 * time.Millisecond // of the file system of the tests

	return s
}

// apart stores each snapshot in packs, parts and a head, as one of which much is new.
func apart(s *Store) *Store {
	s.compactContents, s.compactParts = -1, -1
	return s
}

func spoolDir(t testing.TB) string {
	dir := t.TempDir()
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left, "the spool leaves no files")
	})

	return dir
}

func (b *bench) uid() int {
	if os.Geteuid() == 0 {
		return testUID
	}

	return os.Geteuid()
}

func (b *bench) in(previous string) CaptureIn {
	return CaptureIn{SessionID: b.session, Root: b.root, UID: b.uid(), Previous: previous}
}

func (b *bench) capture(t testing.TB, previous string) Snapshot {
	t.Helper()
	s, err := b.store.Capture(t.Context(), b.in(previous))
	require.NoError(t, err)
	require.True(t, s.Complete)

	return s
}

func (b *bench) restore(t testing.TB, id string) Restored {
	t.Helper()
	done, err := b.store.Restore(t.Context(), RestoreIn{SnapshotID: id, Root: b.root, UID: b.uid(), GID: b.uid()})
	require.NoError(t, err)

	return done
}

// put writes a file as a command of the session would.
func (b *bench) put(t testing.TB, p, content string) {
	t.Helper()
	b.mkdir(t, filepath.Dir(p))
	full := filepath.Join(b.root, p)
	require.NoError(t, os.WriteFile(full, []byte(content), 0o644))
	b.own(t, full)
}

func (b *bench) mkdir(t testing.TB, p string) {
	t.Helper()

	at := b.root
	for name := range strings.SplitSeq(p, "/") {
		at = filepath.Join(at, name)
		if err := os.Mkdir(at, 0o755); err == nil {
			b.own(t, at)
		}
	}
}

func (b *bench) link(t testing.TB, target, p string) {
	t.Helper()
	require.NoError(t, os.Symlink(target, filepath.Join(b.root, p)))
	b.own(t, filepath.Join(b.root, p))
}

func (b *bench) own(t testing.TB, full string) {
	if os.Geteuid() == 0 {
		require.NoError(t, os.Lchown(full, testUID, testUID))
	}
}

func (b *bench) get(t testing.TB, p string) string {
	t.Helper()

	data, err := os.ReadFile(filepath.Join(b.root, p))
	require.NoError(t, err)

	return string(data)
}

// picture shows a tree by other means than those that are tested: each path with
// its type, mode and content.
func picture(t testing.TB, root string) map[string]string {
	t.Helper()

	out := map[string]string{}

	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}

		rel, _ := filepath.Rel(root, p)

		info, err := d.Info()
		if err != nil {
			return err
		}

		if os.Geteuid() == 0 {
			require.EqualValues(t, testUID, info.Sys().(*syscall.Stat_t).Uid, "owner of %q", rel)
		}

		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			out[rel] = "link " + target

			return err
		case d.IsDir():
			out[rel] = "directory " + info.Mode().String()
		default:
			data, err := os.ReadFile(p)
			out[rel] = info.Mode().String() + " " + string(data)

			return err
		}

		return nil
	}))

	return out
}

func code(t testing.TB, want string, err error) {
	t.Helper()
	require.Error(t, err)
	require.True(t, domain.HasCode(err, want), "want %s, got %v", want, err)
}

// age waits until a file counts as left alone.
func (b *bench) age(t testing.TB, p string) {
	t.Helper()

	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(b.root, p), &st))
	changed := time.Unix(st.Ctim.Unix())

	require.Eventually(t, func() bool { return time.Since(changed) > 2*b.store.grain }, time.Minute, time.Millisecond)
}
