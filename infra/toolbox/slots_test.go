//go:build linux

package toolbox

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/mcp"
	"everloop/infra/sandbox"
)

// A session, and a user over all sessions, run so many commands at once; the next one
// waits, and the model gets an error when it waited in vain (security review, M3).
func TestSlots_take(t *testing.T) {
	t.Parallel()

	s := &Slots{PerSession: 2, PerUser: 3, Wait: 20 * time.Millisecond}
	of := func(session domain.SessionID, user string) tools.SessionView {
		return tools.SessionView{ID: session, OwnerID: user}
	}
	take := func(v tools.SessionView) func() {
		t.Helper()
		release, err := s.take(t.Context(), v)
		require.NoError(t, err)

		return release
	}
	refused := func(v tools.SessionView, holder string) {
		t.Helper()
		_, err := s.take(t.Context(), v)
		require.True(t, domain.HasCode(err, CodeTooManyCommands), err)
		require.ErrorContains(t, err, "of this "+holder)
	}
	first := take(of("a", "ann"))
	take(of("a", "ann"))
	refused(of("a", "ann"), "session")
	third := take(of("b", "ann"))
	refused(of("b", "ann"), "user")
	take(of("c", "bob"))

	first()
	first() // once is once
	take(of("c", "ann"))
	refused(of("d", "ann"), "user")
	third()
	take(of("d", "ann"))
}

func TestSlots_take_waits(t *testing.T) {
	t.Parallel()

	s := &Slots{PerSession: 1, Wait: time.Minute}
	view := tools.SessionView{ID: "a"}
	release, err := s.take(t.Context(), view)
	require.NoError(t, err)

	took := make(chan error, 1)

	go func() {
		_, err := s.take(t.Context(), view)
		took <- err
	}()

	select {
	case err := <-took:
		t.Fatal("it did not wait", err)
	case <-time.After(20 * time.Millisecond):
	}

	release()
	require.NoError(t, <-took)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err = s.take(ctx, view)
	require.True(t, domain.HasCode(err, CodeTooManyCommands), "a wait ends with the call: %v", err)
}

// Commands and tool servers take the same slots and give them back.
func TestShell_slots(t *testing.T) {
	t.Parallel()
	box, err := sandbox.New(t.Context(), sandbox.Config{})
	require.NoError(t, err)
	t.Cleanup(box.Close)

	parent, err := os.MkdirTemp("", "toolbox-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	require.NoError(t, os.Chmod(parent, 0o711))
	view := tools.SessionView{ID: "s", Root: filepath.Join(parent, "workspace"), SandboxUID: os.Getuid()}
	require.NoError(t, os.Mkdir(view.Root, 0o700))

	if box.DedicatedUsers() {
		view.SandboxUID = sandbox.DefaultUserBase + 20_000 + os.Getpid()%1000
		require.NoError(t, os.Chown(view.Root, view.SandboxUID, view.SandboxUID))
	}

	shell := Shell{Sandbox: box, Slots: &Slots{PerSession: 1, Wait: 10 * time.Millisecond}}

	run := func(argv ...string) error {
		_, err := shell.Run(t.Context(), tools.Command{Session: view, Argv: argv})
		return err
	}
	for i := range 3 {
		require.NoError(t, run("true"), "run "+strconv.Itoa(i))
		require.NoError(t, run("no-such-program"))
	}

	server, err := shell.Launch(t.Context(), mcp.Program{Session: &view, Argv: []string{"sleep", "1000"}})
	require.NoError(t, err)
	require.True(t, domain.HasCode(run("true"), CodeTooManyCommands))
	server.Kill()
	require.Eventually(t, func() bool { return run("true") == nil }, time.Minute, time.Millisecond)
}
