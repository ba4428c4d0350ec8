//go:build linux

package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func private(script string) Spec {
	return Spec{Argv: []string{"bash", "-c", script}, Private: true, Limits: Limits{Wall: 5 * time.Minute}}
}

func TestSandbox_Start_privateCommandHasAnEmptyHome(t *testing.T) {
	levels(t, func(t *testing.T, s *Sandbox) {
		x := newSession(t, s)
		require.NoError(t, os.WriteFile(x.dir+"/secret", []byte("S"), 0o644))

		for range 2 { // what the first leaves, the second does not find
			out, r := sh(
				t,
				s,
				private(`test "$HOME" = "$PWD" && ls -A; touch left && stat -c %U left; cat `+x.dir+`/secret; ls /workspace`),
			)
			require.NotContains(t, out, "left\n")
			require.NotContains(t, out, "S\n")
			require.False(t, r.Success(), "there is no workspace: %s", out)
		}

		if s.Level() == Namespaced {
			out, _ := sh(t, s, private(`id -un; pwd; getent passwd agent | cut -d: -f6; ls /`))
			require.True(t, strings.HasPrefix(out, "agent\n/server\n/server\n"), out)
			require.NotContains(t, out, "workspace")
		}
	})
}

// Each private command has a host user that no session and no other one has.
func TestSandbox_Start_privateCommandsShareNoUser(t *testing.T) {
	s := open(t, Config{})
	if !s.DedicatedUsers() {
		t.Skip("the service is not root, so that there is one user")
	}

	seen := map[int]bool{}

	var running []*Process

	for range 5 {
		p, err := s.Start(t.Context(), private("sleep 1000"))
		require.NoError(t, err)

		running = append(running, p)
		uid := userOf(t, p)
		require.Less(t, uid, DefaultUserBase)
		require.NotZero(t, uid)
		require.False(t, seen[uid])
		seen[uid] = true
	}

	for _, p := range running {
		p.Kill()
		_, err := p.Wait()
		require.NoError(t, err)
	}
}

// userOf returns the host user that process 1 of a command runs as.
func userOf(t *testing.T, p *Process) (uid int) {
	t.Helper()

	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	require.NoError(t, err)

	_, line, found := strings.Cut(string(status), "\nUid:")
	require.True(t, found)

	_, err = fmt.Sscan(line, &uid)
	require.NoError(t, err)

	return uid
}

func TestSandbox_Start_privateCommandWithAWorkspace(t *testing.T) {
	s := open(t, Config{})
	for _, change := range []func(*Spec){
		func(s *Spec) { s.Workspace = "/tmp" }, func(s *Spec) { s.UID = 100001 }, func(s *Spec) { s.Dir = "x" },
		func(s *Spec) { s.Limits.Workspace = 1 },
	} {
		spec := private("true")
		change(&spec)
		_, err := s.Start(t.Context(), spec)
		require.ErrorContains(t, err, "private command")
	}

	var out bytes.Buffer

	spec := private("head -c 400M /dev/zero >big; echo $?")
	spec.Stdout = &out
	_, err := s.Run(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, "1\n", out.String(), "its home holds as much as /tmp")
}

func TestUsers_take_endsAndRecovers(t *testing.T) {
	u := users{below: DefaultUserBase}
	seen := map[int]bool{}

	for range maxPrivate {
		uid, err := u.take()
		require.NoError(t, err)
		require.False(t, seen[uid])
		require.Less(t, uid, DefaultUserBase)
		seen[uid] = true
	}

	_, err := u.take()
	require.ErrorIs(t, err, errNoUsers)
	u.release(DefaultUserBase - 7)
	uid, err := u.take()
	require.NoError(t, err)
	require.Equal(t, DefaultUserBase-7, uid)
}
