package backup

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/internal/release"
)

// written returns a backup of one tree, made by this package.
func written(t *testing.T, tree Tree) []byte {
	t.Helper()

	var out bytes.Buffer

	head := Head{Format: format, Version: release.Version, Time: time.Now().UTC()}
	a, err := newArchive(&out, head)
	require.NoError(t, err)
	require.NoError(t, a.tree(t.Context(), tree))
	require.NoError(t, a.finish(Manifest{Head: head, Parts: a.parts.parts()}))

	return out.Bytes()
}

func skip(*tar.Header, io.Reader) error { return nil }

// restored extracts the backup of a tree.
func restored(t *testing.T, archive []byte, name, dir string) error {
	t.Helper()

	into, err := openTarget(dir)
	require.NoError(t, err)

	prefix := filesPart + "/" + name + "/"

	_, err = read(bytes.NewReader(archive), func(header *tar.Header, body io.Reader) error {
		return into.take(header, strings.TrimPrefix(header.Name, prefix), prefix, body)
	})
	if err != nil {
		into.root.Close()
		return err
	}

	return into.close()
}

func TestTree_everyKindOfFile(t *testing.T) {
	t.Parallel()

	from := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(from, "a", "locked"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(from, "skipped"), 0o755))

	long := strings.Repeat("long-", 40)
	for name, content := range map[string]string{
		"plain": "text", "empty": "", "a/" + long: "deep", "ümläut": "utf-8", "not\xffutf8": "bytes", "a/locked/in": "read only",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte(content), 0o640))
	}

	at := time.Date(2020, 2, 3, 4, 5, 6, 789, time.UTC)
	require.NoError(t, os.Chtimes(filepath.Join(from, "plain"), at, at))
	require.NoError(t, os.Chmod(filepath.Join(from, "plain"), 0o751))
	require.NoError(t, os.Link(filepath.Join(from, "plain"), filepath.Join(from, "second")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(from, "away")))
	require.NoError(t, os.Symlink("missing", filepath.Join(from, "a", "dangling")))
	require.NoError(t, unix.Mkfifo(filepath.Join(from, "pipe"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(from, "a", "locked"), 0o555))

	archive := written(t, Tree{Name: "workspace", Dir: from, Skip: []string{"skipped"}})
	to := filepath.Join(t.TempDir(), "new")
	require.NoError(t, restored(t, archive, "workspace", to))

	for name, content := range map[string]string{
		"plain": "text", "empty": "", "a/" + long: "deep", "ümläut": "utf-8", "not\xffutf8": "bytes", "a/locked/in": "read only",
	} {
		got, err := os.ReadFile(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, content, string(got), name)
	}

	info, err := os.Stat(filepath.Join(to, "plain"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o751), info.Mode())
	require.True(t, info.ModTime().Equal(at), info.ModTime())

	second, err := os.Stat(filepath.Join(to, "second"))
	require.NoError(t, err)
	require.True(t, os.SameFile(info, second), "hard links are one file again")

	link, err := os.Readlink(filepath.Join(to, "away"))
	require.NoError(t, err)
	require.Equal(t, "/etc/passwd", link)

	locked, err := os.Stat(filepath.Join(to, "a", "locked"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o555), locked.Mode().Perm())
	require.NoError(t, os.Chmod(filepath.Join(to, "a", "locked"), 0o755)) // for the end of the test
	require.NoError(t, os.Chmod(filepath.Join(from, "a", "locked"), 0o755))

	require.NoFileExists(t, filepath.Join(to, "pipe"))
	require.NoDirExists(t, filepath.Join(to, "skipped"))
}

// many returns a directory with more names than are read at once.
func many(t *testing.T) (dir *os.File, names []string) {
	t.Helper()

	at := t.TempDir()

	for i := range 2*nameBatch + 1 {
		names = append(names, fmt.Sprintf("f%05d", i))
		require.NoError(t, os.WriteFile(filepath.Join(at, names[i]), nil, 0o600))
	}

	dir, err := os.Open(at)
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Close() })

	return dir, names
}

// visited returns what ordered visits, in its order.
func visited(t *testing.T, dir *os.File) (names []string) {
	t.Helper()

	require.NoError(t, ordered(dir, isRepository(int(dir.Fd())), func(name string) error {
		names = append(names, name)
		return nil
	}))

	return names
}

// A directory with very many names is not read as a whole.
func TestEachName_isBounded(t *testing.T) {
	t.Parallel()

	dir, names := many(t)
	require.ElementsMatch(t, names, visited(t, dir))

	_, err := dir.Seek(0, io.SeekStart)
	require.NoError(t, err)
	require.ErrorIs(t, eachName(dir, func(string) error { return io.ErrClosedPipe }), io.ErrClosedPipe)

	rest, err := dir.Readdirnames(-1)
	require.NoError(t, err)
	require.Len(t, rest, len(names)-nameBatch, "so many had been read when the first was visited")
}

// In a git repository the references come first, so that each has its objects.
func TestOrdered_repository(t *testing.T) {
	t.Parallel()

	dir, names := many(t)

	for _, below := range []string{"objects", "refs"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir.Name(), below), 0o700))
	}

	require.NotContains(t, visited(t, dir), "packed-refs", "without HEAD it is no repository")
	require.NoError(t, os.WriteFile(filepath.Join(dir.Name(), "HEAD"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir.Name(), "packed-refs"), nil, 0o600))

	_, err := dir.Seek(0, io.SeekStart)
	require.NoError(t, err)

	got := visited(t, dir)
	require.ElementsMatch(t, append(names, "refs", "HEAD", "packed-refs", "objects"), got)
	require.Equal(t, []string{"packed-refs", "objects"}, got[len(got)-2:])
}

// A repository that is repacked while it is read is noticed, however many packs it has.
func TestPacks_changes(t *testing.T) {
	t.Parallel()

	dir, _ := many(t)
	in := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(in, "objects"), 0o700))
	require.NoError(t, os.Rename(dir.Name(), filepath.Join(in, "objects", "pack")))

	top, err := os.Open(in)
	require.NoError(t, err)
	t.Cleanup(func() { _ = top.Close() })

	read := func() packed { return packs(int(top.Fd()), true) }
	before := read()
	require.Equal(t, 2*nameBatch+1, before.count)
	require.Equal(t, before, read())

	require.NoError(t, os.Rename(filepath.Join(in, "objects", "pack", "f00001"), filepath.Join(in, "objects", "pack", "g")))
	require.NotEqual(t, before, read())
	require.Zero(t, packs(int(top.Fd()), false))
}

func TestRead_damaged(t *testing.T) {
	t.Parallel()

	from := t.TempDir()
	content := make([]byte, 1<<20)

	for i := range content {
		content[i] = byte(i * i >> 7)
	}

	require.NoError(t, os.WriteFile(filepath.Join(from, "file"), content, 0o600))
	whole := written(t, Tree{Name: "workspace", Dir: from})

	_, err := read(bytes.NewReader(whole), skip)
	require.NoError(t, err)

	for _, at := range []int{len(whole) / 4, len(whole) / 2, len(whole) - 40} {
		broken := bytes.Clone(whole)
		broken[at] ^= 0x10
		_, err := read(bytes.NewReader(broken), skip)
		require.Error(t, err, "a bit at %d of %d", at, len(whole))
	}

	for _, length := range []int{len(whole) / 2, len(whole) - 1, 100} {
		_, err := read(bytes.NewReader(whole[:length]), skip)
		require.Error(t, err, "cut at %d of %d", length, len(whole))
	}

	for _, text := range []string{"", "no backup at all"} {
		_, err := read(strings.NewReader(text), skip)
		require.Error(t, err)
	}
}

// forged returns a backup whose compression and tar are right, with these entries.
func forged(t *testing.T, head Head, manifest bool, entries ...*tar.Header) []byte {
	t.Helper()

	var out bytes.Buffer

	a, err := newArchive(&out, head)
	require.NoError(t, err)

	for _, entry := range entries {
		require.NoError(t, a.add(entry, strings.NewReader("content")))
	}

	if manifest {
		require.NoError(t, a.document(manifestName, Manifest{Head: head, Parts: a.parts.parts()}))
	}

	require.NoError(t, a.tar.Close())
	require.NoError(t, a.pack.Close())

	return out.Bytes()
}

func TestRead_refused(t *testing.T) {
	t.Parallel()

	own := Head{Format: format, Version: release.Version}
	file := func(name string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: 7}
	}

	for name, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"newer program": {forged(t, Head{Format: format, Version: "9912.0.0"}, true), "written by version 9912.0.0"},
		"newer format":  {forged(t, Head{Format: format + 1, Version: release.Version}, true), "format 2"},
		"no manifest":   {forged(t, own, false, file("files/workspace/a")), "ends before its manifest"},
		"upwards":       {forged(t, own, true, file("files/workspace/../../etc/passwd")), "outside of its target"},
		"absolute":      {forged(t, own, true, file("/etc/passwd")), "outside of its target"},
		"not a backup": {func() []byte {
			var out bytes.Buffer

			pack, err := zstd.NewWriter(&out)
			require.NoError(t, err)

			entries := tar.NewWriter(pack)
			require.NoError(t, entries.WriteHeader(&tar.Header{Name: "something"}))
			require.NoError(t, entries.Close())
			require.NoError(t, pack.Close())

			return out.Bytes()
		}(), "not a backup of Everloop"},
	} {
		_, err := read(bytes.NewReader(c.archive), skip)
		require.ErrorContains(t, err, c.want, name)
	}

	var out bytes.Buffer

	a, err := newArchive(&out, own)
	require.NoError(t, err)
	require.NoError(t, a.add(file("files/workspace/a"), strings.NewReader("content")))

	parts := a.parts.parts()
	parts[0].Digest = strings.Repeat("0", 64)
	require.NoError(t, a.finish(Manifest{Head: own, Parts: parts}))

	_, err = read(bytes.NewReader(out.Bytes()), skip)
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, "files/workspace")
}

// What is written through links of the backup itself stays in the target.
func TestTarget_linksLeadNowhere(t *testing.T) {
	t.Parallel()

	outside := t.TempDir()
	own := Head{Format: format, Version: release.Version}
	top := &tar.Header{Name: "files/workspace/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: os.Getuid(), Gid: os.Getgid()}

	for name, entries := range map[string][]*tar.Header{
		"a symbolic link": {
			{Name: "files/workspace/out", Typeflag: tar.TypeSymlink, Linkname: outside},
			{Name: "files/workspace/out/file", Typeflag: tar.TypeReg, Mode: 0o600, Size: 7},
		},
		"a link upwards": {
			{Name: "files/workspace/up", Typeflag: tar.TypeSymlink, Linkname: "../.."},
			{Name: "files/workspace/up/file", Typeflag: tar.TypeReg, Mode: 0o600, Size: 7},
		},
		"a hard link": {{Name: "files/workspace/hard", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"a device":    {{Name: "files/workspace/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			archive := forged(t, own, true, append([]*tar.Header{top}, entries...)...)
			dir := filepath.Join(t.TempDir(), "new")
			require.Error(t, restored(t, archive, "workspace", dir))

			left, err := os.ReadDir(outside)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// A repository that is repacked is read again, and what is held twice counts as it was last:
// a branch may have become a directory of branches in the meantime, or the other way round.
func TestTarget_entriesOfAnotherKindComeLater(t *testing.T) {
	t.Parallel()

	directory := func(name string) *tar.Header {
		return &tar.Header{
			Name: "files/workspace/" + name, Typeflag: tar.TypeDir, Mode: 0o700, Uid: os.Getuid(), Gid: os.Getgid(),
		}
	}
	file := func(name string) *tar.Header {
		return &tar.Header{
			Name: "files/workspace/" + name, Typeflag: tar.TypeReg, Mode: 0o640, Size: 7, Uid: os.Getuid(), Gid: os.Getgid(),
		}
	}
	link := &tar.Header{Name: "files/workspace/c", Typeflag: tar.TypeSymlink, Linkname: "a", Uid: os.Getuid(), Gid: os.Getgid()}

	archive := forged(t, Head{Format: format, Version: release.Version}, true,
		directory(""), file("a"), directory("b/"), directory("b/deep/"), file("b/deep/b"), link,
		directory("a/"), file("a/a"), file("b"), directory("c/"), file("c/c"))
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, restored(t, archive, "workspace", dir))

	for _, name := range []string{"a/a", "b", "c/c"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), info.Mode(), name)
	}
}

// A file that a command cuts off while it is read does not spoil the backup.
func TestArchive_add_fileBecomesShorter(t *testing.T) {
	t.Parallel()

	own := Head{Format: format, Version: release.Version}

	var out bytes.Buffer

	a, err := newArchive(&out, own)
	require.NoError(t, err)
	require.NoError(t, a.add(&tar.Header{Name: "files/workspace/a", Typeflag: tar.TypeReg, Size: 10}, strings.NewReader("abc")))
	require.NoError(t, a.finish(Manifest{Head: own, Parts: a.parts.parts()}))

	var got []byte

	_, err = read(bytes.NewReader(out.Bytes()), func(_ *tar.Header, body io.Reader) error {
		got, err = io.ReadAll(body)
		return err
	})
	require.NoError(t, err)
	require.Equal(t, "abc\x00\x00\x00\x00\x00\x00\x00", string(got))
}

// The keys of a deployment are read by services that run as another user than the one that
// restores them.
func TestFile_keep_ownerOfTheDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}

	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, 10001, 10002))

	file := File{Name: "key", Path: filepath.Join(dir, "key")}
	require.NoError(t, file.keep(strings.NewReader("secret")))

	var stat unix.Stat_t
	require.NoError(t, unix.Stat(file.Path, &stat))
	require.Equal(t, []uint32{10001, 10002, 0o600}, []uint32{stat.Uid, stat.Gid, stat.Mode & 0o777})
	require.Error(t, file.keep(strings.NewReader("other")), "it exists")
}

func TestOccupied(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	require.NoError(t, Occupied(dir))
	require.NoError(t, Occupied(filepath.Join(dir, "missing")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.ErrorContains(t, Occupied(dir), "is not empty")
}
