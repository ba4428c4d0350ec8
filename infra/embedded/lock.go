package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dirLock is an exclusive flock of a data directory. The kernel releases it when the process
// ends, so a leftover file has no effect.
type dirLock struct{ file *os.File }

const lockName = "lock"

// ErrUsed reports that another process uses the data directory.
var ErrUsed = errors.New("in use")

// lockDir locks dir or returns an error with the process that has locked it.
func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, lockName)

	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock of the data directory: %w", err)
	}

	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close()

		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
		}

		holder, _ := io.ReadAll(io.LimitReader(file, 32))

		return nil, fmt.Errorf("data directory %s is %w by process %s: stop it, or set DATA_DIR to another directory",
			dir, ErrUsed, strings.TrimSpace(string(holder)))
	}

	pid := strconv.Itoa(os.Getpid()) + "\n"

	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(pid), 0)
	}

	if err != nil {
		file.Close()
		return nil, fmt.Errorf("write lock of the data directory: %w", err)
	}

	return &dirLock{file: file}, nil
}

// release unlocks the directory. The file stays: removing it would let two later processes lock
// two different files of the same name.
func (l *dirLock) release() error { return l.file.Close() }
