//go:build linux

package workspace

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestWorkspace_AwaitWrites_waitsForAdmittedWrites(t *testing.T) {
	root := t.TempDir()

	writer, err := New(root).Open(t.Context(), "s", 0)
	require.NoError(t, err)

	mover, err := New(root).Open(t.Context(), "s", 0) // as another process
	require.NoError(t, err)

	first, err := writer.LockWrites(t.Context())
	require.NoError(t, err)

	second, err := writer.LockWrites(t.Context())
	require.NoError(t, err, "writers do not wait for each other")

	synctest.Test(t, func(t *testing.T) {
		waited := make(chan error, 1)
		go func() { waited <- mover.AwaitWrites(t.Context()) }()

		<-time.After(time.Second)
		first()
		<-time.After(time.Second)
		require.Empty(t, waited, "the second write is in progress")

		second()
		require.NoError(t, <-waited)
	})
}

func TestWorkspace_AwaitWrites_endsWithItsContext(t *testing.T) {
	w := open(t)

	release, err := w.LockWrites(t.Context())
	require.NoError(t, err)
	t.Cleanup(release)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.AwaitWrites(ctx), context.Canceled)
}

func TestWorkspace_LockWrites_refused(t *testing.T) {
	w := open(t)
	busy := domain.Newf(domain.Conflict, domain.CodeSessionBusy, "busy")

	w.store.AdmitWrites(func(context.Context, domain.SessionID) error { return busy })

	_, err := w.LockWrites(t.Context())
	require.ErrorIs(t, err, busy)
	require.NoError(t, w.AwaitWrites(t.Context()), "a refused write holds no lock")
}
