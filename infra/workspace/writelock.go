//go:build linux

package workspace

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"everloop/domain"
)

// AdmitWrites sets the check of LockWrites: admit returns an error while an operation that
// replaces files, such as a rewind, has claimed the session. It is called before the
// store is used.
func (s *Store) AdmitWrites(admit func(ctx context.Context, sessionID domain.SessionID) error) {
	s.admit = admit
}

// LockWrites admits a write that is acknowledged to a client. AwaitWrites of the same
// session waits until release is called. It fails when an operation has claimed the
// session: the operation could overwrite or delete the file after the acknowledgement.
func (w *Workspace) LockWrites(ctx context.Context) (release func(), err error) {
	file, err := w.lockWrites(ctx, unix.F_RDLCK)
	if err != nil {
		return nil, err
	}

	if w.store.admit != nil {
		err = w.store.admit(ctx, domain.SessionID(filepath.Base(w.host)))
	}

	if err != nil {
		_ = file.Close()
		return nil, err
	}

	return func() { _ = file.Close() }, nil
}

// AwaitWrites waits until no admitted write is in progress. The caller has claimed the
// session before, so that no new one is admitted afterwards.
func (w *Workspace) AwaitWrites(ctx context.Context) error {
	file, err := w.lockWrites(ctx, unix.F_WRLCK)
	if err != nil {
		return err
	}

	return file.Close()
}

// lockWrites locks the session's byte of the lock file, in its own descriptor: the
// kernel releases the lock when the descriptor is closed, also when the process is killed.
func (w *Workspace) lockWrites(ctx context.Context, kind int16) (*os.File, error) {
	if _, err := w.store.locks.open(); err != nil { // creates the file
		return nil, err
	}

	fd, err := unix.Open(w.store.locks.path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("workspace: locks: %w", err)
	}

	file := os.NewFile(uintptr(fd), lockFile)
	how := unix.Flock_t{Type: kind, Start: w.writeByte(), Len: 1}

	for pause := time.Millisecond; ; pause = min(2*pause, maxLockPause) {
		err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &how)
		if err == nil {
			return file, nil
		}

		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("workspace: lock writes: %w", err)
		}

		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// maxLockPause bounds the wait between two attempts to get a lock.
const maxLockPause = 200 * time.Millisecond

// writeByte returns the session's byte in the lock file, after the bytes of locks.hold. A
// collision of two sessions only makes them wait for each other.
func (w *Workspace) writeByte() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(filepath.Base(w.host)))

	return int64(len(w.store.locks.inside)) + int64(h.Sum64()&(math.MaxInt64>>2))
}
