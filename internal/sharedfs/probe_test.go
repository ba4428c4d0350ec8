//go:build linux

package sharedfs

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	probeUID = 100000
	nfs      = "36 35 0:42 / /data rw,relatime shared:1 - nfs4 server:/export rw,vers=4.2,"
	fuse     = "36 35 0:42 / /data rw,relatime - fuse.juicefs JuiceFS:one rw,user_id=0,group_id=0,default_permissions"
)

// found probes a directory and gives the findings by what they are about.
func found(t *testing.T, as Simulation) map[string]Finding {
	t.Helper()

	defer Simulate(as)()

	dir := t.TempDir()

	uid := 0
	if os.Geteuid() == 0 {
		uid = probeUID
	}

	list, err := Probe(t.Context(), dir, uid)
	require.NoError(t, err)
	require.Empty(t, names(t, dir), "the probe leaves nothing behind")

	out := map[string]Finding{}

	for _, f := range list {
		require.NotEmpty(t, f.Detail)

		if f.Level != OK {
			require.NotEmpty(t, f.Hint, "%s: %s", f.About, f.Detail)
		}

		out[f.About] = f
	}

	return out
}

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		as     Simulation
		about  string
		level  Level
		detail string
		hint   string
		root   bool // only root is asked
	}{
		"local names":  {Simulation{}, "names", OK, "in one step", "", false},
		"local locks":  {Simulation{}, "locks", OK, "work", "", false},
		"local owners": {Simulation{}, "owners", OK, "other users", "", true},
		"local clock":  {Simulation{}, "clock", OK, "agree", "", false},
		"no flags":     {Simulation{NoRenameFlags: true}, "names", Info, "by hard links", "in one step", false},
		"no flags and links": {Simulation{
			NoRenameFlags: true,
			NoHardLinks:   true,
		}, "names", Warn, "without hard links", "hard links", false},
		"no locks":             {Simulation{NoLocks: true}, "locks", Fail, "do not work", "permit file locks", false},
		"no locks on NFS":      {Simulation{NoLocks: true, Mount: nfs}, "locks", Fail, "do not work", "local_lock", false},
		"locks of one machine": {Simulation{Mount: nfs + "local_lock=all"}, "locks", Warn, "this machine alone", "local_lock", false},
		"nolock":               {Simulation{Mount: nfs + "nolock"}, "locks", Warn, "this machine alone", "nolock", false},
		"locks of the server":  {Simulation{Mount: nfs + "local_lock=none"}, "locks", OK, "work", "", false},
		"owners on NFS":        {Simulation{KeepsOwners: true, Mount: nfs}, "owners", Fail, "cannot be given", "no_root_squash", true},
		"owners":               {Simulation{KeepsOwners: true}, "owners", Fail, "cannot be given", "root", true},
		"FUSE of one user":     {Simulation{Mount: fuse}, "owners", Fail, "not for other users", "allow_other", true},
		"FUSE of all users":    {Simulation{Mount: fuse + ",allow_other"}, "owners", OK, "other users", "", true},
		"clock ahead":          {Simulation{ClockAhead: time.Hour}, "clock", Warn, "differ by 1h0m0s", "NTP", false},
		"clock behind":         {Simulation{ClockAhead: -time.Hour}, "clock", Warn, "differ by 1h0m0s", "NTP", false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root gives files away")
			}

			f := found(t, c.as)[c.about]
			require.Equal(t, c.level, f.Level, f.Detail)
			require.Contains(t, f.Detail, c.detail)
			require.Contains(t, f.Hint, c.hint)
		})
	}
}

func TestProbe_attributeCaches(t *testing.T) {
	for mount, want := range map[string]struct {
		level        Level
		detail, hint string
	}{
		nfs + "local_lock=none": {Warn, "nfs4, attributes are cached for up to 60 s", "actimeo=1,lookupcache=positive"},
		nfs + "acregmin=1,acregmax=1,acdirmin=1,acdirmax=1,lookupcache=pos": {OK, "up to 1 s", ""},
		nfs + "acregmin=1,acregmax=1,acdirmin=1,acdirmax=1":                 {Warn, "that a name is free", "lookupcache=positive"},
		nfs + "acregmin=1,acregmax=1,lookupcache=pos":                       {Warn, "up to 60 s", "actimeo=1"}, // of directories
		nfs + "noac":                           {OK, "not cached", ""},
		nfs + "acregmax=x":                     {Info, "clients cache attributes", "actimeo=1"},
		fuse:                                   {Info, "fuse.juicefs", "--attr-cache=1"},
		"1 1 0:1 / / rw - fuse.glusterfs v rw": {Info, "fuse.glusterfs", "attribute-timeout=1"},
		"1 1 0:1 / / rw - fuse s rw":           {Info, "fuse", "attr_timeout=1"},
		"1 1 0:1 / / rw - cifs //s/share rw,vers=3": {Info, "cifs", "actimeo=1"},
		"1 1 0:1 / / rw - 9p s rw":                  {Info, "9p", "cache=none"},
		"1 1 0:1 / / rw - afs s rw":                 {Info, "afs", "one second"},
		"1 1 0:1 / / rw":                            {Info, "clients cache", "one second"}, // damaged
	} {
		t.Run(mount, func(t *testing.T) {
			f := found(t, Simulation{CachesAttributes: true, Mount: mount})["fs"]
			require.Equal(t, want.level, f.Level, f.Detail)
			require.Contains(t, f.Detail, want.detail)
			require.Contains(t, f.Hint, want.hint)

			if want.hint == "" {
				require.Empty(t, f.Hint)
			}
		})
	}

	require.NotContains(t, found(t, Simulation{})["fs"].Detail, "cache")
}

func TestProbe_directory(t *testing.T) {
	dir := t.TempDir()
	_, err := Probe(t.Context(), filepath.Join(dir, "none"), 0)
	require.ErrorIs(t, err, os.ErrNotExist)

	// What a process that died has left goes, what another is trying stays.
	old, running := filepath.Join(dir, probePrefix+"old"), filepath.Join(dir, probePrefix+"running")
	for _, probe := range []string{old, running} {
		require.NoError(t, os.Mkdir(probe, 0o700))
	}

	before := time.Now().Add(-2 * abandoned)
	require.NoError(t, os.Chtimes(old, before, before))
	_, err = Probe(t.Context(), dir, 0)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Base(running)}, names(t, dir))
}

// A server that does not answer holds the first probe, and the next ones end in time.
func TestProbe_serverThatDoesNotAnswer(t *testing.T) {
	release := make(chan struct{})

	restore := Simulate(Simulation{Looked: func(string, int) { <-release }})
	defer restore()

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()

	_, err := Probe(ctx, t.TempDir(), 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "does not answer")
	_, err = Probe(ctx, t.TempDir(), 0)
	require.ErrorContains(t, err, "earlier look")
	close(release)

	_, err = Probe(t.Context(), t.TempDir(), 0)
	require.NoError(t, err)
}

func TestSummary(t *testing.T) {
	worst, detail, hint := Summary([]Finding{
		{About: "fs", Detail: "ext4"},
		{About: "locks", Level: Fail, Detail: "none", Hint: "permit them"},
		{About: "names", Level: Info, Detail: "in steps", Hint: "use ext4"},
	})
	require.Equal(t, Fail, worst)
	require.Equal(t, "ext4; none; in steps", detail)
	require.Equal(t, "locks: permit them; names: use ext4", hint)
}
