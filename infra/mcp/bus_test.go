package mcp

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/internal/testkit"
)

func TestWhatOtherProcessesAskFor(t *testing.T) {
	t.Parallel()
	conn, err := nats.Connect(testkit.Events(t))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	remote := Remote{Conn: conn}
	require.Equal(t, domain.Unavailable, domain.AsError(remote.Look(t.Context(), session.ID)).Kind, "there is no worker")

	w := newWorld(t)
	w.stdio("every", serving(everything()))
	require.NoError(t, w.manager.Listen(t.Context(), conn))
	for name, forget := range map[string]func() error{
		"session": func() error { return remote.SessionDeleted(t.Context(), session.ID) },
		"server":  func() error { return remote.ServerChanged(t.Context(), "id-every") },
		"user":    func() error { return remote.UserDeleted(t.Context(), "ann") },
	} {
		require.NoError(t, remote.Look(t.Context(), session.ID), name)
		require.Equal(t, domain.MCPConnected, w.records.state("every").Status, name)
		_, alive := w.launcher.running()
		require.Equal(t, 1, alive, name)
		require.NoError(t, forget(), name)
		require.Eventually(t, func() bool { _, alive := w.launcher.running(); return alive == 0 }, soon, tick, name)
	}
	require.NoError(t, conn.Publish(forgetSubject, []byte("{nonsense")))
	require.NoError(t, remote.Look(t.Context(), session.ID), "nonsense changes nothing")
	w.manager.Close()
	require.Eventually(t, func() bool { return remote.Look(t.Context(), session.ID) != nil }, soon, tick)
}
