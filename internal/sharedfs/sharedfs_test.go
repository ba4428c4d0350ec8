//go:build linux

package sharedfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// kinds are the file systems that names are moved on.
var kinds = map[string]Simulation{
	"native":                     {},
	"no flags of renameat2":      {NoRenameFlags: true},
	"no flags and no hard links": {NoRenameFlags: true, NoHardLinks: true},
}

func onEach(t *testing.T, test func(t *testing.T, dir string, fd int)) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			defer Simulate(kind)()

			dir := t.TempDir()
			fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)

			require.NoError(t, err)
			defer func() { require.NoError(t, unix.Close(fd)) }()

			test(t, dir, fd)
		})
	}
}

func names(t *testing.T, dir string) (out []string) {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)

	for _, e := range list {
		out = append(out, e.Name())
	}

	return out
}

func TestRenameNoReplace_file(t *testing.T) {
	onEach(t, func(t *testing.T, dir string, fd int) {
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		require.NoError(t, os.WriteFile(from, []byte("new"), 0o600))
		file, err := os.Open(from)

		require.NoError(t, err)
		defer func() { require.NoError(t, file.Close()) }()

		before, err := file.Stat()
		require.NoError(t, err)

		require.NoError(t, os.WriteFile(to, []byte("old"), 0o600))
		require.ErrorIs(t, RenameNoReplace(int(file.Fd()), fd, "from", fd, "to"), unix.EEXIST)

		content, err := os.ReadFile(to)
		require.NoError(t, err)
		require.Equal(t, "old", string(content))
		require.Equal(t, []string{"from", "to"}, names(t, dir))

		require.NoError(t, os.Remove(to))
		require.NoError(t, RenameNoReplace(int(file.Fd()), fd, "from", fd, "to"))
		require.Equal(t, []string{"to"}, names(t, dir))

		after, err := file.Stat() // the descriptor still stands for the file
		require.NoError(t, err)
		require.True(t, os.SameFile(before, after))
		require.ErrorIs(t, RenameNoReplace(-1, fd, "from", fd, "other"), unix.ENOENT)
		require.Equal(t, []string{"to"}, names(t, dir))
	})
}

func TestRenameNoReplace_link(t *testing.T) {
	onEach(t, func(t *testing.T, dir string, fd int) {
		require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "from")))
		require.NoError(t, RenameNoReplace(-1, fd, "from", fd, "to"))

		target, err := os.Readlink(filepath.Join(dir, "to"))
		require.NoError(t, err)
		require.Equal(t, "nowhere", target)
		require.Equal(t, []string{"to"}, names(t, dir))
	})
}

func TestRenameNoReplace_directory(t *testing.T) {
	onEach(t, func(t *testing.T, dir string, fd int) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "from/sub"), 0o700))

		for _, taken := range []string{"empty", "full", "file"} {
			switch at := filepath.Join(dir, taken); taken {
			case "file":
				require.NoError(t, os.WriteFile(at, nil, 0o600))
			case "full":
				require.NoError(t, os.MkdirAll(filepath.Join(at, "sub"), 0o700))
			default:
				require.NoError(t, os.Mkdir(at, 0o700))
			}

			require.ErrorIs(t, RenameNoReplace(-1, fd, "from", fd, taken), unix.EEXIST, taken)
		}

		sub, err := unix.Open(filepath.Join(dir, "from/sub"), unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		require.ErrorIs(t, RenameNoReplace(-1, fd, "from", sub, "into"), unix.EINVAL) // itself
		require.NoError(t, unix.Close(sub))
		require.NoError(t, RenameNoReplace(-1, fd, "from", fd, "to"))
		require.DirExists(t, filepath.Join(dir, "to/sub"))
		require.Equal(t, []string{"empty", "file", "full", "to"}, names(t, dir))
	})
}

func TestStat_fresh(t *testing.T) {
	var passed []int

	defer Simulate(Simulation{Looked: func(_ string, flags int) { passed = append(passed, flags) }})()

	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o640))

	var cached, fresh unix.Stat_t
	require.NoError(t, Stat(unix.AT_FDCWD, path, &cached, false))
	require.NoError(t, Stat(unix.AT_FDCWD, path, &fresh, true))
	fresh.Blksize = cached.Blksize // statx may know a better one
	require.Equal(t, cached, fresh)
	require.Zero(t, passed[0]&unix.AT_STATX_FORCE_SYNC)
	require.NotZero(t, passed[1]&unix.AT_STATX_FORCE_SYNC)
	require.ErrorIs(t, Stat(unix.AT_FDCWD, path+"x", &fresh, true), unix.ENOENT)
}

// A name whose file another machine replaces is looked up again, a bounded number of times.
func TestStaleNames(t *testing.T) {
	for _, times := range []int{1, 3} {
		dir := t.TempDir()
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, err)

		defer func() { _ = unix.Close(fd) }()

		require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("content"), 0o640))

		left := 0
		restore := Simulate(Simulation{Stale: func(string) bool { left--; return left >= 0 }})
		again := func(do error) {
			t.Helper()
			require.NoError(t, do)
			require.Negative(t, left, "it was not stale")
			left = times
		}

		var st unix.Stat_t

		left = times

		again(Stat(fd, "a", &st, true))
		again(Stat(fd, "a", &st, false))
		again(Link(fd, "a", fd, "b"))
		again(Exchange(fd, "a", fd, "b"))
		again(RenameNoReplace(-1, fd, "b", fd, "c"))
		again(Rename(fd, "c", fd, "a"))
		restore()
	}

	looks := 0

	defer Simulate(Simulation{Stale: func(string) bool { looks++; return true }})()

	var st unix.Stat_t
	require.ErrorIs(t, Stat(unix.AT_FDCWD, "a", &st, true), unix.ESTALE)
	require.Equal(t, staleTries, looks)
}

func TestCachesAttributes(t *testing.T) {
	for _, kind := range []int64{unix.NFS_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC, unix.SMB2_SUPER_MAGIC} {
		require.True(t, cachesAttributes(kind), "%x", kind)
	}

	for _, kind := range []int64{
		unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.CEPH_SUPER_MAGIC,
	} {
		require.False(t, cachesAttributes(kind), "%x", kind)
	}
}
