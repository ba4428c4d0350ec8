//go:build linux

package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nextUID gives each test workspace its own user, as sessions have.
var nextUID atomic.Int64

func open(t testing.TB, config Config) *Sandbox {
	t.Helper()
	s, err := New(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(s.Close)

	return s
}

// session is a workspace with its user.
type session struct {
	dir string
	uid int
}

func newSession(t testing.TB, s *Sandbox) session {
	t.Helper()

	parent, err := os.MkdirTemp("", "sandbox-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	require.NoError(t, os.Chmod(parent, 0o711))
	x := session{dir: filepath.Join(parent, "workspace"), uid: os.Getuid()}
	require.NoError(t, os.Mkdir(x.dir, 0o700))

	if s.DedicatedUsers() {
		x.uid = DefaultUserBase + 1000*os.Getpid()%50000*10 + int(nextUID.Add(1))
		require.NoError(t, os.Chown(x.dir, x.uid, x.uid))
	}

	return x
}

func (x session) spec(script string) Spec {
	return Spec{Argv: []string{"bash", "-c", script}, Workspace: x.dir, UID: x.uid, Limits: Limits{Wall: 5 * time.Minute}}
}

// sh runs a script and gives its output, both streams.
func sh(t testing.TB, s *Sandbox, spec Spec) (string, Result) {
	t.Helper()

	var out bytes.Buffer

	spec.Stdout, spec.Stderr = &out, &out
	r, err := s.Run(t.Context(), spec)
	require.NoError(t, err)

	return strings.TrimRight(out.String(), "\n"), r
}

func TestWhatACommandSees(t *testing.T) {
	s := open(t, Config{})
	t.Log(s.Describe())

	x := newSession(t, s)
	for script, want := range map[string]string{
		"id -un; id -u; pwd; hostname": "agent\n1000\n/workspace\nsandbox",
		"ls /":                         "bin\ndev\netc\nlib\nlib64\nproc\nsbin\ntmp\nusr\nworkspace",
		"ls -A /tmp /dev/shm":          "/dev/shm:\n\n/tmp:",
		"set -- /proc/[0-9]*; echo $#": "2", // process 1 and bash
		"cut -d: -f1 /etc/passwd":      "root\nagent\nnobody",
		"echo x >/dev/null && head -c1 /dev/urandom | wc -c": "1",
		"touch f && stat -c %U f":                            "agent",
	} {
		out, r := sh(t, s, x.spec(script))
		require.True(t, r.Success(), script)

		if script == "ls /" {
			out = strings.ReplaceAll(strings.ReplaceAll(out, "lib32\n", ""), "libx32\n", "")
		}

		require.Equal(t, want, out, script)
	}
}

func BenchmarkLoop(b *testing.B) {
	s := open(b, Config{})

	x := newSession(b, s)
	for b.Loop() {
		r, err := s.Run(b.Context(), x.spec("true"))
		if err != nil || !r.Success() {
			b.Fatal(r, err)
		}
	}
}

// BenchmarkSessions has 100 sessions run commands at the same time.
func BenchmarkSessions(b *testing.B) {
	s := open(b, Config{})

	var sessions []session
	for range 100 {
		sessions = append(sessions, newSession(b, s))
	}

	b.ResetTimer()

	var (
		wg   sync.WaitGroup
		next atomic.Int64
	)

	for _, x := range sessions {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if r, err := s.Run(b.Context(), x.spec("true")); err != nil || !r.Success() {
					b.Error(r, err)
					return
				}
			}
		})
	}

	wg.Wait()
}

// BenchmarkPlain is what the same command costs without a sandbox.
func BenchmarkPlain(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("bash", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
