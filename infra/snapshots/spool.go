//go:build linux

package snapshots

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/internal/diskspace"
)

// spool keeps contents between reading and storing them. It is one file without
// a name, so that nothing is left of it when the process ends, however it does.
// It is made when it is first needed.
type spool struct {
	dir     string
	reserve diskspace.Reserve

	mu   sync.Mutex
	file *os.File
	end  int64
}

// extent is a place in a spool.
type extent struct {
	offset int64
	length int
}

// add keeps data.
func (s *spool) add(data []byte) (extent, error) {
	s.mu.Lock()
	if s.file == nil {
		file, err := openNameless(s.dir)
		if err != nil {
			s.mu.Unlock()
			return extent{}, fmt.Errorf("snapshots: make the spool file: %w", err)
		}

		s.file = file
	}

	if err := s.room(int64(len(data))); err != nil {
		s.mu.Unlock()
		return extent{}, err
	}

	file, at := s.file, extent{offset: s.end, length: len(data)}
	s.end += int64(len(data))
	s.mu.Unlock()

	if _, err := file.WriteAt(data, at.offset); err != nil {
		if full(err) {
			return extent{}, domain.Newf(
				domain.TooLarge,
				CodeNoSpace,
				"no space is left on the disk where files wait to be stored or restored",
			)
		}

		return extent{}, fmt.Errorf("snapshots: write the spool file: %w", err)
	}

	return at, nil
}

// room refuses what would be written to the part of the disk that is reserved.
func (s *spool) room(n int64) error {
	if s.reserve == (diskspace.Reserve{}) {
		return nil
	}

	space, err := diskspace.Of(s.dir)
	if err != nil {
		return err
	}

	if s.reserve.Touched(space, diskspace.Usage{Bytes: n}) {
		return domain.Newf(
			domain.Unavailable,
			CodeDiskFull,
			"the disk on which files wait to be stored or restored is full but for what is reserved",
		)
	}

	return nil
}

// read gives what was kept, in buf where that is large enough.
func (s *spool) read(at extent, buf []byte) ([]byte, error) {
	s.mu.Lock()
	file := s.file
	s.mu.Unlock()

	if file == nil {
		return nil, errors.New("snapshots: the spool was closed")
	}

	if cap(buf) < at.length {
		buf = make([]byte, at.length)
	}

	buf = buf[:at.length]
	if _, err := file.ReadAt(buf, at.offset); err != nil {
		return nil, fmt.Errorf("snapshots: read the spool file: %w", err)
	}

	return buf, nil
}

// close frees the file.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// openNameless opens a new file that has no name.
func openNameless(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), "spool"), nil
	}
	// Not every file system can do that.
	file, err := os.CreateTemp(dir, "everloop-spool-*")
	if err != nil {
		return nil, err
	}

	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, err
	}

	return file, nil
}
