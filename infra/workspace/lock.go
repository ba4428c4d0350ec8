//go:build linux

package workspace

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"everloop/internal/sharedfs"
)

// lockFile is in the store's root. No session id can be equal to it. It has no content: only byte
// ranges are locked.
const lockFile = ".everloop-locks"

// locks serialises conditional writes of all service processes: the file that satisfied a
// condition is still the same at the rename. Commands in the sandbox do not take these locks:
// their concurrent writes are detected afterwards (see swap).
type locks struct {
	path   string
	mu     sync.Mutex // of file
	file   *os.File
	inside [64]sync.Mutex
}

func newLocks(root string) *locks { return &locks{path: filepath.Join(root, lockFile)} }

// place is a name in an open directory. The directory is identified by device and inode instead
// of its path, so that links to it share the lock.
type place struct {
	dir  int
	name string
}

// hold locks names in open directories, and returns a function that unlocks them.
func (l *locks) hold(places ...place) (release func(), err error) {
	file, err := l.open()
	if err != nil {
		return nil, err
	}

	var slots []int64

	for _, p := range places {
		slot, err := l.slot(p)
		if err != nil {
			return nil, err
		}

		slots = append(slots, slot)
	}
	// Sorted and unique: a fixed order prevents deadlocks.
	slices.Sort(slots)
	slots = slices.Compact(slots)

	var held []int64

	release = func() {
		for _, n := range held {
			_ = l.byte(file, n, unix.F_UNLCK)
			l.inside[n].Unlock()
		}
	}

	for _, n := range slots {
		// The kernel's lock belongs to the open file, which this process shares: within the
		// process the mutex excludes.
		l.inside[n].Lock()
		if err := l.byte(file, n, unix.F_WRLCK); err != nil {
			l.inside[n].Unlock()
			release()

			return nil, err
		}

		held = append(held, n)
	}

	return release, nil
}

func (l *locks) slot(p place) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(p.dir, &st); err != nil {
		return 0, err
	}
	// The device is not part of the hash: a network file system has different numbers on
	// different machines.
	h := fnv.New32a()
	fmt.Fprintf(h, "%d/%s", st.Ino, p.name)

	return int64(h.Sum32()) % int64(len(l.inside)), nil
}

func (l *locks) byte(file *os.File, n int64, kind int16) error {
	how := unix.Flock_t{Type: kind, Start: n, Len: 1}
	for {
		err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLKW, &how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (l *locks) open() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.file != nil {
		return l.file, nil
	}

	fd, err := unix.Open(l.path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		if err = l.create(); err == nil {
			fd, err = unix.Open(l.path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
	}

	if err != nil {
		return nil, fmt.Errorf("workspace: locks: %w", err)
	}

	l.file = os.NewFile(uintptr(fd), lockFile)

	return l.file, nil
}

// create creates the file under a temporary name first. GlusterFS assigns a file's identity after
// its name: two machines that create the name concurrently could each lock a different file.
func (l *locks) create() error {
	temp, err := os.CreateTemp(filepath.Dir(l.path), tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		_ = temp.Close()
		_ = os.Remove(temp.Name()) // fails after a rename
	}()

	err = sharedfs.RenameNoReplace(int(temp.Fd()), unix.AT_FDCWD, temp.Name(), unix.AT_FDCWD, l.path)
	if errors.Is(err, unix.EEXIST) {
		return nil // another process was first
	}

	return err
}
