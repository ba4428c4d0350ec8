//go:build linux

package history_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/infra/workspace/sessionfiles"
	"everloop/service/history"
)

// orders records the order in which a move uses the files.
type orders struct {
	history.Files
	mu    sync.Mutex
	calls []string
}

func (o *orders) add(call string) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.calls = append(o.calls, call)
}

func (o *orders) AwaitWrites(ctx context.Context, sessionID domain.SessionID, uid int) error {
	o.add("await")
	return o.Files.AwaitWrites(ctx, sessionID, uid)
}

func (o *orders) Begin(ctx context.Context, in history.CaptureIn) (history.Pending, error) {
	o.add("capture")
	return o.Files.Begin(ctx, in)
}

func (o *orders) Restore(ctx context.Context, in history.RestoreIn) (domainhistory.RestoredFiles, error) {
	o.add("restore")
	return o.Files.Restore(ctx, in)
}

// While a move has the session, its files accept no write: the move could replace it after
// the acknowledgement.
func TestMove_writesOfClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))
	w.chat("second", w.writes("a.txt", "2"))

	rest := sessionfiles.Files{Store: w.workspaces().Store}
	changes := map[string]func() error{
		"write": func() error {
			_, _, err := rest.Write(t.Context(), w.session, "b.txt", []byte("x"), domain.FileCondition{})
			return err
		},
		"delete": func() error {
			_, err := rest.Delete(t.Context(), w.session, "a.txt", "")
			return err
		},
		"rename": func() error {
			_, _, err := rest.Rename(t.Context(), w.session, "a.txt", "c.txt")
			return err
		},
		"copy": func() error {
			_, err := rest.Copy(t.Context(), w.session, "a.txt", "d.txt", false)
			return err
		},
		"share": func() error {
			_, _, err := rest.Share(t.Context(), w.session, "a.txt", "", "")
			return err
		},
		"upload": func() error { return upload(t, rest, w.session, "e.txt") },
	}

	claimed, err := w.service.ClaimHistory(t.Context(), w.owner.ID, domainhistory.Request{
		Kind: domain.OperationRewind, SessionID: w.session.ID, CheckpointID: w.before(one.TurnID).ID,
	})
	require.NoError(t, err)

	for name, change := range changes {
		err := change()
		require.True(t, domain.HasCode(err, domain.CodeSessionBusy), "%s: %v", name, err)
	}

	require.Equal(t, map[string]string{"a.txt": "2"}, w.files(), "a refused change leaves nothing")

	state, err := w.service.Move(t.Context(), claimed.Operation.ID)
	require.NoError(t, err)
	require.Equal(t, domainhistory.StateDone, state)
	require.Empty(t, w.files())

	require.NoError(t, changes["write"]())
	require.Equal(t, map[string]string{"b.txt": "x"}, w.files())
}

// A write that was admitted before the claim is in the checkpoint of what the session left.
func TestMove_waitsForAdmittedWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.chat("first", w.writes("a.txt", "1"))

	o := &orders{}
	w.wrap = func(f history.Files) history.Files {
		o.Files = f
		return o
	}
	service := w.process(w.store)

	claimed, err := w.service.ClaimHistory(t.Context(), w.owner.ID, domainhistory.Request{
		Kind: domain.OperationRewind, SessionID: w.session.ID, CheckpointID: w.before(one.TurnID).ID,
	})
	require.NoError(t, err)

	_, err = service.Move(t.Context(), claimed.Operation.ID)
	require.NoError(t, err)

	o.mu.Lock()
	defer o.mu.Unlock()

	require.Equal(t, []string{"await", "capture", "restore"}, slices.Compact(o.calls))
}

func upload(t *testing.T, rest sessionfiles.Files, session domain.Session, name string) error {
	t.Helper()

	outcomes, err := rest.Upload(t.Context(), session, "", 1<<20, func(add func(io.Reader) error) ([]string, error) {
		return []string{name}, add(strings.NewReader("x"))
	})
	for _, o := range outcomes {
		require.NoError(t, o.Err)
	}

	return err
}
