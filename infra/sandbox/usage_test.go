//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"everloop/internal/diskspace"
)

// smallDisk mounts its own file system for workspaces, so that filling it
// does no harm.
func smallDisk(t *testing.T, options string) string {
	t.Helper()

	dir, err := os.MkdirTemp("", "sandbox-disk-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	if err := unix.Mount("everloop-test", dir, "tmpfs", 0, "mode=0711,"+options); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}

	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })

	return dir
}

// on returns a session whose workspace is on a disk.
func (s *Sandbox) on(t *testing.T, disk string) session {
	t.Helper()
	x := newSession(t, s)
	dir, err := os.MkdirTemp(disk, "workspace-")
	require.NoError(t, err)

	x.dir = dir
	if s.DedicatedUsers() {
		require.NoError(t, os.Chown(dir, x.uid, x.uid))
	}

	return x
}

func TestSandbox_inodesAreLimited(t *testing.T) {
	t.Parallel()
	s := open(t, Config{})
	x := newSession(t, s)
	spec := x.spec(`mkdir e; cd e; i=0; while :; do i=$((i+1)); : >$i; done`)
	spec.Limits.Inodes = 500
	_, r := sh(t, s, spec)
	require.Equal(t, WorkspaceFull, r.Cause)
	// What is too full can be emptied.
	spec = x.spec(`sleep 0.4; rm -r e; sleep 0.4`)
	spec.Limits.Inodes = 500
	_, r = sh(t, s, spec)
	require.True(t, r.Success(), "%v", r)
}

func TestSandbox_filesInDeepDirectoriesCount(t *testing.T) {
	t.Parallel()
	s := open(t, Config{})
	x := newSession(t, s)
	spec := x.spec(`for i in $(seq 600); do mkdir a && cd a; done; i=0; while :; do head -c 1M /dev/zero >$i; i=$((i+1)); done`)
	spec.Limits.Workspace = 16 << 20
	_, r := sh(t, s, spec)
	require.Equal(t, WorkspaceFull, r.Cause)
}

func TestSandbox_deletedFilesThatAreOpenCount(t *testing.T) {
	t.Parallel()
	s := open(t, Config{})
	x := newSession(t, s)
	spec := x.spec(`exec 5>f; rm f; for i in $(seq 300); do head -c 1M /dev/zero >&5; sleep 0.01; done; while :; do sleep 1; done`)
	spec.Limits.Workspace = 64 << 20
	_, r := sh(t, s, spec)
	require.Equal(t, WorkspaceFull, r.Cause)
}

// The disk runs short: who fills it is ended, who does little is not.
func TestSandbox_onlyWhoFillsTheDiskIsEnded(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ options, fill string }{
		// Slowly once the disk is about to run short: a busy machine, too, looks before it is full.
		"bytes": {"size=400m", `i=0; while :; do head -c 1M /dev/zero >$i; i=$((i+1)); [ $i -gt 265 ] && sleep 0.2; done`},
		"inodes": {
			"size=400m,nr_inodes=50000",
			`i=0; while :; do : >$i; i=$((i+1)); [ $i -gt 34500 ] && [ $((i % 50)) = 0 ] && sleep 0.1; done`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{Reserve: diskspace.Reserve{Bytes: 128 << 20, Percent: 30}})
			disk := smallDisk(t, c.options)
			ann, bob := s.on(t, disk), s.on(t, disk)

			ctx, stop := context.WithCancel(t.Context())
			defer stop()

			var ticks lockedBuffer

			innocent := bob.spec(`while :; do echo tick | tee -a log; sleep 0.01; done`)
			innocent.Limits.Workspace = 1 << 30
			innocent.Stdout = &ticks
			bobs, err := s.Start(ctx, innocent)
			require.NoError(t, err)

			spec := ann.spec(c.fill)
			spec.Limits.Workspace = 1 << 30
			_, r := sh(t, s, spec)
			require.Equal(t, DiskFull, r.Cause)

			space, err := diskspace.Of(disk)
			require.NoError(t, err)
			require.True(t, s.short(space), "what was written stays")
			require.Positive(t, space.FreeBytes)
			require.Positive(t, space.FreeInodes)

			// Bob's continues, and can be measured several times.
			now := ticks.lines()

			require.Eventually(t, func() bool { return ticks.lines() > now+100 }, time.Minute, 10*time.Millisecond)

			select {
			case <-bobs.Done():
				result, err := bobs.Wait()
				t.Fatal("the other session's command was ended", result, err)
			default:
			}

			// Space can be made while the disk is short.
			out, r := sh(t, s, ann.spec(`rm -f [0-9]*; ls | wc -l; sleep 0.5`))
			require.True(t, r.Success(), "%v", r)
			require.Equal(t, "0", out)
		})
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.b.Write(p)
}

func (l *lockedBuffer) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return strings.Count(l.b.String(), "\n")
}

func TestUsageBook_mostIsWhoAddedMostWhileTheDiskWasShort(t *testing.T) {
	t.Parallel()

	var u usageBook

	command := func(device uint64) *Process {
		return &Process{in: &instance{dir: dirID{dev: device}}}
	}

	old, filler, small, elsewhere := command(1), command(1), command(1), command(2)
	for _, p := range []*Process{old, filler, small, elsewhere} {
		u.begin(p)
	}

	size := func(mib int64) diskspace.Usage { return diskspace.Usage{Bytes: mib << 20} }
	u.looked(old, size(5000), false)
	u.looked(filler, size(0), false)
	u.looked(small, size(0), false)
	u.looked(elsewhere, size(0), false)
	u.looked(old, size(5000), true)
	u.looked(filler, size(30), true)
	u.looked(small, size(1), true)
	u.looked(elsewhere, size(100), true)
	require.Same(t, filler, u.most(1))
	require.Nil(t, u.most(1), "what it held is released first")
	u.ended = time.Time{}
	require.Nil(t, u.most(1), "the others added next to nothing")
	require.Same(t, elsewhere, u.most(2))
}

func TestDeletedFiles_ofOtherDevicesDoNotCount(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)

	defer func() { _ = f.Close() }()

	_, err = f.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, os.Remove(f.Name()))

	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	require.GreaterOrEqual(t, deletedFiles(os.Getpid(), uint64(st.Dev)).Bytes, int64(1<<20))
	require.Less(t, deletedFiles(os.Getpid(), uint64(st.Dev)+1).Bytes, int64(1<<20))
}
