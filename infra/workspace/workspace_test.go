//go:build linux

package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/internal/sharedfs/sharedfstest"
)

const testUID = 123456

func open(t testing.TB) *Workspace {
	t.Helper()
	dir := t.TempDir()
	w, err := New(filepath.Join(dir, "workspace")).Open(t.Context(), "0190-session", testUID)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = w.Close()

		makeRemovable(dir)
	})

	return w
}

// makeRemovable lets the user of the tests remove directories that a test has left
// without the right to.
func makeRemovable(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}

		return nil
	})
}

func (w *Workspace) put(t testing.TB, p, content string) Info {
	t.Helper()
	info, err := w.WriteFile(t.Context(), p, strings.NewReader(content), WriteOptions{Parents: true})
	require.NoError(t, err)

	return info
}

func (w *Workspace) get(t testing.TB, p string) string {
	t.Helper()

	data, _, err := w.ReadFile(p, 1<<20)
	require.NoError(t, err)

	return string(data)
}

func code(t testing.TB, want string, err error) {
	t.Helper()
	require.Error(t, err)
	require.True(t, domain.HasCode(err, want), "want %s, got %v", want, err)
}

func owner(t testing.TB, path string) int {
	t.Helper()

	info, err := os.Lstat(path)
	require.NoError(t, err)

	return int(info.Sys().(*syscall.Stat_t).Uid)
}

func names(list []Info) (out []string) {
	for _, i := range list {
		out = append(out, i.Name)
	}

	return out
}

func TestLacks(t *testing.T) {
	t.Parallel()
	w := open(t)
	lacks := func(p string) bool { return w.store.Lacks("0190-session", p) }

	require.True(t, w.store.Lacks("0190-other", ".skills"), "it was not opened yet")
	require.False(t, w.store.Lacks("../0190-session", ".skills"), "Open says what is wrong with it")
	require.True(t, lacks(".skills"))
	w.put(t, ".skills/a", "x")
	require.False(t, lacks(".skills"))
	require.False(t, lacks(".skills/a"))
	require.True(t, lacks(".skills/b"))
	require.True(t, lacks(".skills/a/b"))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(w.HostPath(), "link")))
	require.False(t, lacks("link"), "the link is there")
}

func TestOpen_privateDirectory(t *testing.T) {
	w := open(t)
	info, err := os.Stat(w.HostPath())
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())

	if os.Getuid() == 0 {
		require.Equal(t, testUID, owner(t, w.HostPath()))
	}

	w.put(t, "kept", "x")
	again, err := w.store.Open(t.Context(), "0190-session", testUID)
	require.NoError(t, err)
	require.Equal(t, "x", again.get(t, "kept"))

	for _, id := range []string{"", ".", "..", "a/b", "../x", "a\x00", strings.Repeat("a", 129)} {
		_, err := w.store.Open(t.Context(), domain.SessionID(id), testUID)
		code(t, CodeBadPath, err)
	}

	require.NoError(t, w.store.Remove(t.Context(), "0190-session"))
	require.NoDirExists(t, w.HostPath())
	require.NoError(t, w.store.Remove(t.Context(), "0190-session"))
}

func TestConcurrentFirstUse(t *testing.T) {
	store := New(filepath.Join(t.TempDir(), "workspace"))

	var (
		wg     sync.WaitGroup
		failed atomic.Int32
	)

	for range 20 {
		wg.Go(func() {
			w, err := store.Open(context.Background(), "s", testUID)
			if err != nil || w.MkdirAll("a/b/c") != nil {
				failed.Add(1)
			}
		})
	}

	wg.Wait()
	require.Zero(t, failed.Load())

	left, err := os.ReadDir(store.root)
	require.NoError(t, err)

	left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return e.Name() == lockFile }) // where the lock holds the condition
	require.Len(t, left, 1)
}

// A directory that one call creates is never replaced by that of another: who has opened
// it would find it deleted.
func TestWorkspace_WriteFile_concurrentParents(t *testing.T) {
	w := open(t)
	w.put(t, "source/kept", "x")

	for round := range 40 {
		var all sync.WaitGroup

		dir := fmt.Sprintf("%d/a/b", round)
		for i := range 8 {
			all.Go(func() {
				_, err := w.WriteFile(t.Context(), fmt.Sprintf("%s/%d", dir, i), strings.NewReader("x"), WriteOptions{Parents: true})
				if err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}

		all.Go(func() {
			if _, err := w.Copy(
				t.Context(),
				"source",
				fmt.Sprint(round),
				CopyOptions{},
			); err != nil &&
				domain.AsError(err).Code != CodeExists {
				t.Errorf("copy in round %d: %v", round, err)
			}
		})
		all.Wait()

		for i := range 8 {
			require.Equal(t, "x", w.get(t, fmt.Sprintf("%s/%d", dir, i)))
		}
	}
}

func TestClean(t *testing.T) {
	w := open(t)
	for in, want := range map[string]string{
		"": ".", ".": ".", "/workspace": ".", "/workspace/": ".", "/workspace/a/b": "a/b", "a//b/": "a/b", "./a/../b": "b",
		"/workspace/../workspace/x": "x", w.HostPath() + "/y": "y", "...": "...", "日本/ü 🙂": "日本/ü 🙂", "a\nb": "a\nb",
	} {
		got, err := w.Clean(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got)
	}

	for _, in := range []string{"..", "../x", "a/../../x", "/etc/passwd", "/", "/workspacex", "/workspace/../etc", "/workspace/../../x"} {
		_, err := w.Clean(in)
		code(t, domain.CodePathOutside, err)
	}

	for _, in := range []string{"a\x00b", strings.Repeat("x", 256), strings.Repeat("ab/", 1400)} {
		_, err := w.Clean(in)
		code(t, CodeBadPath, err)
	}
}

// A command that runs while a directory is made can write into it from the moment it is there.
func TestWorkspace_mkdir_belongsToTheUserAtOnce(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives directories away")
	}

	w := open(t)
	w.put(t, "first", "x")

	const made = 500

	seen := make(chan int, made)

	go func() {
		defer close(seen)

		for i := range made {
			var st unix.Stat_t
			for unix.Lstat(filepath.Join(w.HostPath(), strconv.Itoa(i)), &st) != nil { // until it is there
				if t.Context().Err() != nil {
					return
				}
			}

			seen <- int(st.Uid)
		}
	}()

	for i := range made {
		require.NoError(t, w.mkdir(strconv.Itoa(i)))
	}

	for uid := range seen {
		require.Equal(t, testUID, uid)
	}

	require.ErrorIs(t, w.mkdir("0"), unix.EEXIST)

	left, err := filepath.Glob(filepath.Join(w.HostPath(), tempPrefix+"*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWriteAndRead(t *testing.T) {
	w := open(t)
	info := w.put(t, "dir/sub/file.txt", "one")
	require.Equal(t, "dir/sub/file.txt", info.Path)
	require.Equal(t, int64(3), info.Size)
	require.Equal(t, "one", w.get(t, "/workspace/dir/sub/file.txt"))

	if os.Getuid() == 0 {
		for _, p := range []string{"dir", "dir/sub", "dir/sub/file.txt"} {
			require.Equal(t, testUID, owner(t, filepath.Join(w.HostPath(), p)), p)
		}
	}

	stat, err := w.Stat("dir/sub/file.txt")
	require.NoError(t, err)
	require.Equal(t, info, stat)

	// The mode stays, the content is new, nothing else is left.
	require.NoError(t, os.Chmod(filepath.Join(w.HostPath(), "dir/sub/file.txt"), 0o751))
	before, err := w.Stat("dir/sub/file.txt")
	require.NoError(t, err)
	after, err := w.WriteFile(t.Context(), "dir/sub/file.txt", strings.NewReader("two"), WriteOptions{IfMatch: before.ETag(), Sync: true})
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o751), after.Mode)
	require.NotEqual(t, before.ETag(), after.ETag())

	left, err := os.ReadDir(filepath.Join(w.HostPath(), "dir/sub"))
	require.NoError(t, err)
	require.Len(t, left, 1)

	_, err = w.WriteFile(t.Context(), "dir/sub/file.txt", strings.NewReader("x"), WriteOptions{IfMatch: before.ETag()})
	code(t, CodeStale, err)
	_, err = w.WriteFile(t.Context(), "absent", strings.NewReader("x"), WriteOptions{IfMatch: before.ETag()})
	code(t, CodeStale, err)
	_, err = w.WriteFile(t.Context(), "dir/sub/file.txt", strings.NewReader("x"), WriteOptions{CreateOnly: true})
	code(t, CodeExists, err)
	_, err = w.WriteFile(t.Context(), "dir", strings.NewReader("x"), WriteOptions{})
	code(t, CodeIsDirectory, err)
	_, err = w.WriteFile(t.Context(), "", strings.NewReader("x"), WriteOptions{})
	code(t, CodeIsDirectory, err)
	_, err = w.WriteFile(t.Context(), "no/such/dir", strings.NewReader("x"), WriteOptions{})
	code(t, domain.CodeFileNotFound, err)
	_, err = w.WriteFile(t.Context(), "dir/sub/file.txt/x", strings.NewReader("x"), WriteOptions{Parents: true})
	code(t, CodeNotDirectory, err)
	_, err = w.WriteFile(t.Context(), "big", strings.NewReader("12345"), WriteOptions{MaxSize: 4})
	code(t, CodeTooLarge, err)
	_, err = w.Stat("big")
	code(t, domain.CodeFileNotFound, err)
	_, _, err = w.ReadFile("dir/sub/file.txt", 2)
	code(t, CodeTooLarge, err)
	_, _, err = w.Open("dir")
	code(t, CodeIsDirectory, err)
	require.Equal(t, "two", w.get(t, "dir/sub/file.txt"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err = w.WriteFile(ctx, "never", strings.NewReader("x"), WriteOptions{})
	require.ErrorIs(t, err, context.Canceled)
	list, err := os.ReadDir(w.HostPath())
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestWriteFile_concurrentConditional(t *testing.T) {
	w := open(t)
	tag := w.put(t, "f", "0").ETag()

	var (
		wins, created atomic.Int32
		wg            sync.WaitGroup
	)
	for i := range 20 {
		wg.Go(func() {
			if _, err := w.WriteFile(context.Background(), "f", strings.NewReader(fmt.Sprint(i)), WriteOptions{IfMatch: tag}); err == nil {
				wins.Add(1)
			}

			if _, err := w.WriteFile(context.Background(), "new", strings.NewReader(fmt.Sprint(i)),
				WriteOptions{CreateOnly: true}); err == nil {
				created.Add(1)
			}
		})
	}

	wg.Wait()
	require.EqualValues(t, 1, wins.Load())
	require.EqualValues(t, 1, created.Load())
}

func TestNames(t *testing.T) {
	w := open(t)
	for _, name := range []string{"Ü 日本語 🙂.txt", strings.Repeat("ä", 127) + "x", " lead", "-rf", "a\nb", "*", `"q'`, ".hidden"} {
		w.put(t, name, name)
		require.Equal(t, name, w.get(t, name))
	}

	deep := strings.Repeat("0123456789/", 360) + "end"
	w.put(t, deep, "deep")
	require.Equal(t, "deep", w.get(t, deep))
	require.NoError(t, w.Remove(t.Context(), "0123456789", true))
}

func TestListOrdersAndShowsLinks(t *testing.T) {
	w := open(t)
	w.put(t, "b.txt", "")
	w.put(t, "a.txt", "")
	require.NoError(t, w.MkdirAll("z"))
	require.NoError(t, w.Symlink("/etc/passwd", "m"))
	require.NoError(t, unix.Mkfifo(filepath.Join(w.HostPath(), "pipe"), 0o600))
	list, err := w.List(t.Context(), "", MaxListed)
	require.NoError(t, err)
	require.Equal(t, []string{"z", "a.txt", "b.txt", "m", "pipe"}, names(list))
	require.Equal(t, Link, list[3].Type)
	require.Equal(t, "/etc/passwd", list[3].Target)
	require.Equal(t, Other, list[4].Type)
	_, err = w.List(t.Context(), "a.txt", MaxListed)
	code(t, CodeNotDirectory, err)
	_, err = w.List(t.Context(), "nothing", MaxListed)
	code(t, domain.CodeFileNotFound, err)
}

func TestTenThousandEntries(t *testing.T) {
	w := open(t)

	count := 10000
	if sharedfstest.Mounted() || sharedfstest.Simulated() { // where a list takes no other way, only longer
		count = 1000
	}

	for i := range count {
		f, err := os.Create(fmt.Sprintf("%s/%05d", w.HostPath(), i))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}

	began := time.Now()
	list, err := w.List(t.Context(), ".", MaxListed)
	require.NoError(t, err)
	t.Logf("listed in %v", time.Since(began))
	require.Len(t, list, count)
	require.Equal(t, fmt.Sprintf("%05d", count-1), list[count-1].Name)
}

func TestLinksStayInside(t *testing.T) {
	w := open(t)
	host := t.TempDir()
	require.NoError(t, os.WriteFile(host+"/secret", []byte("TOP-SECRET"), 0o644))
	w.put(t, "real/file", "in")

	for target, name := range map[string]string{
		"real": "dirlink", "real/file": "filelink", host: "out", host + "/secret": "outfile",
		"../../../../../../../../" + host: "up", "loop": "loop", "/proc/self/root": "magic", "gone": "dangling",
	} {
		require.NoError(t, w.Symlink(target, name))
	}

	require.Equal(t, "in", w.get(t, "dirlink/file"))
	require.Equal(t, "in", w.get(t, "filelink"))

	for _, p := range []string{"out/secret", "outfile", "up/secret", "magic" + host + "/secret"} {
		_, _, err := w.Open(p)
		code(t, domain.CodePathOutside, err)
	}

	_, _, err := w.Open("loop")
	code(t, CodeNotRegular, err)
	_, _, err = w.Open("dangling")
	code(t, domain.CodeFileNotFound, err)

	for _, p := range []string{"out/new", "up/new"} {
		_, err = w.WriteFile(t.Context(), p, strings.NewReader("x"), WriteOptions{Parents: true})
		code(t, domain.CodePathOutside, err)
		code(t, domain.CodePathOutside, w.MkdirAll(p))
		code(t, domain.CodePathOutside, w.Symlink("x", p))
		code(t, domain.CodePathOutside, w.Rename("real", p, false))
		code(t, domain.CodePathOutside, w.Remove(t.Context(), filepath.Dir(p)+"/secret", true))
		_, err = w.List(t.Context(), filepath.Dir(p), MaxListed)
		code(t, domain.CodePathOutside, err)
		_, err = w.Stat(filepath.Dir(p) + "/secret")
		code(t, domain.CodePathOutside, err)
	}
	// The last name of a write is never followed, wherever it leads.
	for _, p := range []string{"outfile", "filelink", "dangling"} {
		_, err = w.WriteFile(t.Context(), p, strings.NewReader("x"), WriteOptions{})
		code(t, CodeNotRegular, err)
	}
	// Delete and rename act on the link itself.
	require.NoError(t, w.Rename("out", "out2", false))
	require.NoError(t, w.Remove(t.Context(), "out2", true))
	require.NoError(t, w.Remove(t.Context(), "dirlink", true))
	require.NoError(t, w.Remove(t.Context(), "loop", false))
	require.Equal(t, "in", w.get(t, "real/file"))

	data, err := os.ReadFile(host + "/secret")
	require.NoError(t, err)
	require.Equal(t, "TOP-SECRET", string(data))

	entries, err := os.ReadDir(host)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestPipesAndSocketsNeverHang(t *testing.T) {
	w := open(t)
	require.NoError(t, unix.Mkfifo(filepath.Join(w.HostPath(), "pipe"), 0o666))

	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)

	defer func() { _ = unix.Close(sock) }()

	dir, err := unix.Open(w.HostPath(), unix.O_PATH, 0)
	require.NoError(t, err)

	defer func() { _ = unix.Close(dir) }()

	require.NoError(t, unix.Bind(sock, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/sock", dir)}))

	done := make(chan struct{})
	go func() {
		defer close(done)

		for _, p := range []string{"pipe", "sock"} {
			_, _, err := w.Open(p)
			code(t, CodeNotRegular, err)
			_, err = w.WriteFile(context.Background(), p, strings.NewReader("x"), WriteOptions{})
			code(t, CodeNotRegular, err)
		}

		n := 0
		_ = w.Walk(context.Background(), "", func(Info) error { n++; return nil })

		require.Equal(t, 3, n)
	}()

	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("an access hangs")
	}
}

func TestRename(t *testing.T) {
	w := open(t)
	w.put(t, "a", "a")
	w.put(t, "b", "b")
	w.put(t, "d/x", "x")
	code(t, CodeExists, w.Rename("a", "b", false))
	code(t, domain.CodeFileNotFound, w.Rename("none", "c", false))
	code(t, CodeBadPath, w.Rename("d", "d/sub", false))
	code(t, CodeIsDirectory, w.Rename("", "c", false))
	require.NoError(t, w.Rename("a", "b", true))
	require.Equal(t, "a", w.get(t, "b"))
	require.NoError(t, w.Rename("d", "e", false))
	require.Equal(t, "x", w.get(t, "e/x"))
}

func TestRemove(t *testing.T) {
	w := open(t)
	w.put(t, "d/e/f", "x")
	w.put(t, "g", "x")
	code(t, CodeNotEmpty, w.Remove(t.Context(), "d", false))
	code(t, CodeIsDirectory, w.Remove(t.Context(), "", true))
	code(t, domain.CodeFileNotFound, w.Remove(t.Context(), "none", true))
	require.NoError(t, os.Chmod(filepath.Join(w.HostPath(), "d/e"), 0))
	require.NoError(t, w.Remove(t.Context(), "d", true))
	require.NoError(t, w.Remove(t.Context(), "g", false))
	list, err := w.List(t.Context(), "", MaxListed)
	require.NoError(t, err)
	require.Empty(t, list)
}

// A command can nest directories far deeper than a path can name.
func TestRemoveBottomlessTree(t *testing.T) {
	w := open(t)
	fd, err := unix.Open(w.HostPath(), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)

	name, depth := "d", 3000

	switch {
	case sharedfstest.Mounted(): // GlusterFS builds the path of each, and refuses one that is too long
		depth = 300
	case sharedfstest.Simulated(): // longer than a path can be too, but sooner
		name, depth = strings.Repeat("d", 40), 200
	}

	for range depth {
		require.NoError(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = next
	}

	require.NoError(t, unix.Close(fd))

	n := 0

	require.NoError(t, w.Walk(t.Context(), "", func(Info) error { n++; return nil }))
	require.Greater(t, n, depth/3)
	require.NoError(t, w.Remove(t.Context(), name, true))
	left, err := os.ReadDir(w.HostPath())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWalk(t *testing.T) {
	w := open(t)
	for _, p := range []string{"a/1", "a/2", "b/skip/x", "b/y", "c"} {
		w.put(t, p, "")
	}

	require.NoError(t, w.Symlink("a", "link"))

	walk := func(p string, stop map[string]error) (got []string, err error) {
		err = w.Walk(t.Context(), p, func(i Info) error { got = append(got, i.Path); return stop[i.Path] })
		return got, err
	}
	got, err := walk("", map[string]error{"b/skip": fs.SkipDir})
	require.NoError(t, err)
	require.Equal(t, []string{".", "a", "a/1", "a/2", "b", "b/skip", "b/y", "c", "link"}, got)
	got, err = walk("a", map[string]error{"a/1": fs.SkipAll})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a/1"}, got)

	boom := errors.New("boom")
	_, err = walk("", map[string]error{"b/y": boom})
	require.ErrorIs(t, err, boom)
	_, err = walk("none", nil)
	code(t, domain.CodeFileNotFound, err)
}

// A goroutine swaps a directory for a link to the outside while everything runs.
func TestWorkspace_directorySwappedForLink(t *testing.T) {
	w := open(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/file", []byte("OUTSIDE"), 0o644))
	w.put(t, "real/file", "inside")
	host := w.HostPath()
	stop := make(chan struct{})

	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}

			_ = os.Remove(host + "/swap")
			_ = os.Symlink(outside, host+"/swap")
			_ = os.Remove(host + "/swap")
			_ = os.Symlink("real", host+"/swap")
			_ = os.Remove(host + "/swap")
			_ = os.Mkdir(host+"/swap", 0o755)
			_ = os.RemoveAll(host + "/swap")
		}
	})

	read, wrote := 0, 0
	for began := time.Now(); time.Since(began) < time.Second || read+wrote == 0 && time.Since(began) < time.Minute; {
		if f, _, err := w.Open("swap/file"); err == nil {
			data, err := io.ReadAll(f)
			_ = f.Close()

			require.NoError(t, err)
			require.NotEqual(t, "OUTSIDE", string(data))

			read++
		}

		if _, err := w.WriteFile(t.Context(), "swap/new", strings.NewReader("x"), WriteOptions{}); err == nil {
			wrote++
		}

		_ = w.MkdirAll("swap/dir/below")
		_ = w.Remove(t.Context(), "swap/file2", true)
		_ = w.Remove(t.Context(), "swap", true)
		_ = w.Symlink("x", "swap/link")
		_ = w.Rename("real/file", "swap/moved", true)
		_ = w.Rename("swap/moved", "real/file", true)
		_, _ = w.List(t.Context(), "swap", MaxListed)

		_ = w.Walk(t.Context(), "", func(Info) error { return nil })
		if _, err := w.Stat("real/file"); err != nil {
			_, _ = w.WriteFile(t.Context(), "real/file", strings.NewReader("inside"), WriteOptions{})
		}
	}

	close(stop)
	swapper.Wait()
	require.Positive(t, read+wrote)

	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	data, err := os.ReadFile(outside + "/file")
	require.NoError(t, err)
	require.Equal(t, "OUTSIDE", string(data))
}

func TestWriteFile_concurrentReaders(t *testing.T) {
	w := open(t)
	content := func(c string) string { return strings.Repeat(c, 1<<16) }
	w.put(t, "f", content("a"))

	var wg sync.WaitGroup

	stop := make(chan struct{})

	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_, _ = w.WriteFile(context.Background(), "f", strings.NewReader(content(string(rune('a'+i%20)))), WriteOptions{})
			}
		}
	})

	for range 300 {
		got := w.get(t, "f")
		require.Equal(t, content(got[:1]), got)
	}

	close(stop)
	wg.Wait()
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"a/b", "../x", "/workspace/..", "/workspace//a", "..\x00", "a/./../..", "/workspace/a/../../../b"} {
		f.Add(s)
	}

	w := open(f)
	f.Fuzz(func(t *testing.T, p string) {
		rel, err := w.Clean(p)
		if err == nil && rel != "." && !filepath.IsLocal(rel) {
			t.Fatalf("%q became %q", p, rel)
		}
	})
}
