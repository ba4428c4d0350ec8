package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"everloop/domain"
)

// spool is a directory of one export, for what waits on its way. Its
// lock is held as long as its process lives, so that what a killed one left is
// known as such.
type spool struct {
	dir  string
	lock *os.File
}

const (
	spoolPattern = "transfer-*"
	// spoolGrace is how old a directory without a lock must be before it is taken
	// for a dead one's: it is made first and locked then.
	spoolGrace = time.Minute
)

func (d *Service) spool() (*spool, error) {
	if err := domain.DiskFull(d.cfg.Room); err != nil {
		return nil, err
	}

	if err := os.MkdirAll(d.cfg.Spool, 0o700); err != nil {
		return nil, err
	}

	_ = d.ClearSpool() // a process without periodic jobs clears up here; what stays now goes next time

	dir, err := os.MkdirTemp(d.cfg.Spool, spoolPattern)
	if err != nil {
		return nil, err
	}

	lock, err := os.Open(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}

	s := &spool{dir, lock}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, s.close())
	}

	return s, nil
}

// close removes the directory with all that is in it.
func (s *spool) close() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

func (s *spool) file(name string) string { return filepath.Join(s.dir, name) }

// ClearSpool removes what exports of processes that were killed have left on the disk
// of this machine.
func (d *Service) ClearSpool() error {
	found, err := filepath.Glob(filepath.Join(d.cfg.Spool, spoolPattern))
	for _, dir := range found {
		err = errors.Join(err, clearSpool(dir))
	}

	return err
}

func clearSpool(dir string) error {
	lock, err := os.Open(dir)
	if err != nil {
		return ignoreGone(err)
	}
	defer lock.Close()

	info, err := lock.Stat()
	if err != nil || time.Since(info.ModTime()) < spoolGrace {
		return err
	}

	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil //nolint:nilerr // it is in use
	}

	return ignoreGone(os.RemoveAll(dir))
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}
