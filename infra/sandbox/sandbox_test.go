//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
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
		x.uid = ProbeUID + 1000*os.Getpid()%50000*10 + int(nextUID.Add(1))
		require.NoError(t, os.Chown(x.dir, x.uid, x.uid))
	}
	return x
}

func (x session) spec(script string) Spec {
	return Spec{Argv: []string{"bash", "-c", script}, Workspace: x.dir, UID: x.uid, Limits: Limits{Wall: 20 * time.Second}}
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

func TestRun(t *testing.T) {
	s := open(t, Config{})
	t.Log(s.Describe())
	x := newSession(t, s)
	out, r := sh(t, s, x.spec(`id; pwd; ls -la / /dev /etc /workspace; cat /proc/mounts; env; ps aux; cat /proc/self/status | grep -i 'cap\|seccomp\|NoNew'; cat /proc/self/cgroup; cat /proc/self/limits; ip a; cat /proc/self/oom_score_adj; hostname`))
	t.Log(out, r)
	require.True(t, r.Success())
	_ = context.Background
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
