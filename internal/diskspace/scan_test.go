//go:build linux

package diskspace

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// deep makes directories in one another and a file in the last.
func deep(t *testing.T, dir string, depth int, content []byte) {
	t.Helper()

	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(t, err)

	for range depth {
		require.NoError(t, unix.Mkdirat(fd, "a", 0o700))
		next, err := unix.Openat(fd, "a", unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = next
	}

	file, err := unix.Openat(fd, "file", unix.O_WRONLY|unix.O_CREAT, 0o600)
	require.NoError(t, err)
	_, err = unix.Write(file, content)
	require.NoError(t, err)
	require.NoError(t, unix.Close(file))
	require.NoError(t, unix.Close(fd))
}

func TestMeasure_deepDirectoriesCount(t *testing.T) {
	t.Parallel()

	for _, depth := range []int{1, 600, 5000} { // 5000: longer than a path can be
		dir := t.TempDir()
		deep(t, dir, depth, make([]byte, 1<<20))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "beside"), nil, 0o600))
		used, err := Measure(t.Context(), dir, Usage{})
		require.NoError(t, err)
		require.EqualValues(t, depth+2, used.Inodes)
		require.GreaterOrEqual(t, used.Bytes, int64(1<<20))
	}
}

func TestMeasure_stopsAboveTheLimit(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	for i := range 5000 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600))
	}

	used, err := Measure(t.Context(), dir, Usage{Inodes: 100})
	require.NoError(t, err)
	require.Greater(t, used.Inodes, int64(100))
	require.Less(t, used.Inodes, int64(5000))
}

func TestScan_goesOnWhereItsTimeEnded(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	for i := range 20 {
		deep(t, filepath.Join(dir), 0, []byte("x"))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, strconv.Itoa(i), "b"), 0o700))
	}

	whole, err := Measure(t.Context(), dir, Usage{})
	require.NoError(t, err)
	s, err := NewScan(dir)
	require.NoError(t, err)

	defer s.Close()

	done, err := s.Step(t.Context(), Usage{}, time.Now().Add(-time.Second))
	require.NoError(t, err)
	require.False(t, done)
	require.Zero(t, s.Used())
	done, err = s.Step(t.Context(), Usage{}, time.Time{})
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, whole, s.Used())
}

// A command moves the directory that is open: what is next to it still counts.
func TestScan_directoryIsMovedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "elsewhere"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "x/y/z"), 0o700))
	s, err := NewScan(dir)
	require.NoError(t, err)

	defer s.Close()

	for len(s.levels) < 4 { // at z
		top := &s.levels[len(s.levels)-1]
		if !top.read {
			s.read(top)
			continue
		}

		s.down(top)

		if s.levels[len(s.levels)-1].name == "elsewhere" {
			s.levels[len(s.levels)-1].read = true
			s.up()
		}
	}

	require.NoError(t, os.Rename(filepath.Join(dir, "x/y"), filepath.Join(dir, "elsewhere/y")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x/late"), nil, 0o600))
	done, err := s.Step(t.Context(), Usage{}, time.Time{})
	require.NoError(t, err)
	require.True(t, done)
	require.GreaterOrEqual(t, s.Used().Inodes, int64(4))
}

func TestReserve_touched(t *testing.T) {
	t.Parallel()

	space := Space{Bytes: 100 << 30, FreeBytes: 6 << 30, Inodes: 1000, FreeInodes: 60}
	r := Reserve{Bytes: 1 << 30, Percent: 5}
	require.Equal(t, Usage{Bytes: 100 << 30 / 100 * 5, Inodes: 50}, r.Of(space))
	require.False(t, r.Touched(space, Usage{}))
	require.True(t, r.Touched(space, Usage{Bytes: 2 << 30}))
	require.True(t, r.Touched(space, Usage{Inodes: 11}))
	require.False(t, Reserve{}.Touched(space, Usage{}))
	require.EqualValues(t, maxInodes, r.Of(Space{Inodes: 1 << 40}).Inodes)
	space.Inodes, space.FreeInodes = 0, 0
	require.False(t, r.Touched(space, Usage{Inodes: 1 << 40}), "a file system that makes inodes as it needs them")
	require.NoError(t, Reserve{}.Check(t.TempDir()))
	require.Error(t, Reserve{Bytes: 1 << 60}.Check(t.TempDir()))
}

func TestReserve_Of(t *testing.T) {
	t.Parallel()

	const gib = 1 << 30

	reserve := Reserve{Bytes: gib, Percent: 5}
	for size, want := range map[int64]int64{ // GiB of the disk, and of its reserve
		1000: 10, 100: 5, 10: 1,
	} {
		require.InDelta(t, want*gib, reserve.Of(Space{Bytes: size * gib}).Bytes, gib/100, "%d GiB", size)
	}

	require.EqualValues(t, gib/2, reserve.Of(Space{Bytes: gib}).Bytes, "a small disk")
	require.EqualValues(t, 100_000, reserve.Of(Space{Bytes: gib, Inodes: 100_000_000}).Inodes)
}
