package mcp

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
	"everloop/internal/testkit"
)

func TestWhatOtherProcessesAskFor(t *testing.T) {
	t.Parallel()
	conn, err := nats.Connect(testkit.Events(t), nats.Timeout(soon))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	remote := Remote{Conn: conn}
	require.Equal(t, domain.Unavailable, domain.AsError(remote.Look(t.Context(), session.ID)).Kind, "there is no worker")

	w := newEnv(t)
	w.stdio("every", serving(everything()))
	require.NoError(t, w.manager.Listen(t.Context(), conn))

	for name, forget := range map[string]func() error{
		"session": func() error { return remote.SessionDeleted(t.Context(), session.ID) },
		"server":  func() error { return remote.ServerChanged(t.Context(), "id-every") },
		"user":    func() error { return remote.UserDeleted(t.Context(), "ann") },
	} {
		require.Eventually(t, func() bool { // a look waits no longer than a person would
			_, alive := w.launcher.running()
			return remote.Look(t.Context(), session.ID) == nil && alive == 1 && w.store.state("every").Status == toolserver.Connected
		}, soon, tick, name)
		require.Eventually(t, func() bool { return forget() == nil }, soon, tick, name) // each waits for two seconds at most
		require.Eventually(t, func() bool { _, alive := w.launcher.running(); return alive == 0 }, soon, tick, name)
	}

	require.NoError(t, conn.Publish(forgetSubject, []byte("{nonsense")))
	require.Eventually(t, func() bool { return remote.Look(t.Context(), session.ID) == nil }, soon, tick, "nonsense changes nothing")
	w.manager.Close()
	require.Eventually(t, func() bool { return remote.Look(t.Context(), session.ID) != nil }, soon, tick)
}
