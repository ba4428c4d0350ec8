package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/internal/diskspace"
)

const (
	leastSpace  = 512 << 20 // bytes required for a start
	enoughSpace = 5 << 30   // bytes below which the disk is soon full
)

// existing returns the directory itself, or the nearest one above it that exists.
func existing(dir string) (string, bool) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); err == nil || at == filepath.Dir(at) {
			return at, at == dir
		}
	}
}

func dataDir(_ context.Context, s Settings) []Check {
	const name = "data directory"

	dir, exists := existing(s.DataDir)

	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return one(name, Fail, err.Error(), "set DATA_DIR to another directory")
	case !info.IsDir():
		return one(name, Fail, dir+" is not a directory", "set DATA_DIR to another one")
	case unix.Access(dir, unix.W_OK|unix.X_OK) != nil:
		return one(
			name, Fail, fmt.Sprintf("%s cannot be written by user id %d", dir, os.Geteuid()), "give it to that user, or set DATA_DIR",
		)
	}

	detail := s.DataDir
	if !exists {
		detail += " (will be made)"
	} else if pid := holder(s.DataDir); pid != "" {
		detail += " (in use by process " + pid + ")"
	}

	var fs unix.Statfs_t

	space, err := diskspace.Of(dir)
	if err == nil {
		err = unix.Statfs(dir, &fs)
	}

	if err != nil {
		return one(name, Warn, detail+": its free space is unknown", err.Error())
	}

	detail += fmt.Sprintf(", %.1f GiB free", float64(space.FreeBytes)/(1<<30))
	if space.Inodes > 0 {
		detail += fmt.Sprintf(", %d inodes free", space.FreeInodes)
	}

	reserved := s.Reserve.Of(space)
	switch {
	case fs.Flags&unix.ST_RDONLY != 0:
		return one(name, Fail, detail, "the file system is mounted read-only: set DATA_DIR to another place")
	case space.FreeBytes < leastSpace:
		return one(name, Fail, detail, "make room, or set DATA_DIR to another disk")
	case s.Reserve.Touched(space, diskspace.Usage{}):
		return one(name, Fail, detail, fmt.Sprintf("sessions write nothing: %.1f GiB and %d inodes are reserved for the engines "+
			"; make room, or set DATA_DIR to another disk",
			float64(reserved.Bytes)/(1<<30), reserved.Inodes))
	case space.FreeBytes < max(enoughSpace, 2*reserved.Bytes), space.Inodes > 0 && space.FreeInodes < 2*reserved.Inodes:
		return one(name, Warn, detail, "workspaces and events will soon fill it: make room, or set DATA_DIR to another disk")
	}

	return one(name, OK, detail, "")
}

// holder returns the process that has locked the data directory; empty: none.
func holder(dir string) string {
	file, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return ""
	}
	defer file.Close()

	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return "" // closing the file releases the lock
	}

	pid, _ := io.ReadAll(io.LimitReader(file, 32))
	if text := strings.TrimSpace(string(pid)); text != "" {
		return text
	}

	return "unknown"
}

// ExtendedAttributes checks the extended attributes that the embedded object store uses:
// without them it stores its metadata in files.
func ExtendedAttributes(parent string) []Check {
	const name = "file system"

	dir, _ := existing(parent)

	probe, err := os.CreateTemp(dir, ".everloop-doctor-*")
	if err != nil {
		return nil // the data directory's own check reports it
	}
	defer os.Remove(probe.Name())
	defer probe.Close()

	err = unix.Fsetxattr(int(probe.Fd()), "user.everloop.doctor", []byte("1"), 0)
	if err != nil {
		return one(name, Warn, "no extended attributes ("+err.Error()+")",
			"object metadata goes to files, which halves the rate of small writes: put DATA_DIR on ext4, xfs or btrfs, or set S3_ENDPOINT")
	}

	return one(name, OK, "extended attributes work", "")
}
