//go:build linux

package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/internal/diskspace"
	"everloop/internal/sharedfs"
)

const (
	maxCopyDepth = 256      // levels, each with two open descriptors
	copyChunk    = 64 << 20 // bytes between two checks of the context
)

func modeOf(st *unix.Stat_t) fs.FileMode { return fs.FileMode(st.Mode & 0o777) }

// content copies the regular file of an O_PATH descriptor. It uses copy_file_range, so file
// systems that support it share the data.
func (c *copier) content(source, dir int, name string) (*os.File, error) {
	in, err := os.Open("/proc/self/fd/" + strconv.Itoa(source))
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()

	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}

	out := os.NewFile(uintptr(fd), name)

	err = c.pour(out, in)
	if err == nil {
		err = c.w.own(fd, "")
	}

	if err == nil {
		err = sharedfs.Flush(fd)
	}

	if err != nil {
		_ = out.Close()
		_ = unix.Unlinkat(dir, name, 0)

		return nil, err
	}

	return out, nil
}

func (c *copier) pour(out, in *os.File) error {
	for {
		if err := c.ctx.Err(); err != nil {
			return err
		}

		n, err := io.CopyN(out, in, min(copyChunk, c.quota.left()+1))
		if err := c.quota.Take(diskspace.Usage{Bytes: n}); err != nil {
			return err
		}

		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}
	}
}

// tree copies a directory to a new name. It addresses every entry by an open directory and a name
// without following links, so it never leaves either tree.
func (c *copier) tree(source int, name string, dir int, as string, depth int) error {
	if depth > maxCopyDepth {
		return domain.Newf(domain.Invalid, CodeBadPath, "%s has directories deeper than %d", c.from, maxCopyDepth)
	}

	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

	fd, err := unix.Openat(source, name, flags, 0)
	if err != nil {
		return err
	}

	in := os.NewFile(uintptr(fd), name)
	defer func() { _ = in.Close() }()

	if err := unix.Mkdirat(dir, as, 0o700); err != nil {
		return err
	}

	out, err := unix.Openat(dir, as, flags, 0)
	if err != nil {
		return err
	}

	defer func() { _ = unix.Close(out) }()

	if err := c.w.own(out, ""); err != nil {
		return err
	}

	if err := c.entries(in, out, depth); err != nil {
		return err
	}

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}

	if depth == 0 { // its owner needs write permission to rename it
		c.mode = uint32(modeOf(&st))
		return nil
	}

	return unix.Fchmod(out, uint32(modeOf(&st)))
}

// entries copies the children of a directory.
func (c *copier) entries(in *os.File, out, depth int) error {
	for {
		names, err := in.Readdirnames(readBatch)
		for _, name := range names {
			if strings.HasPrefix(name, tempPrefix) {
				continue
			}

			if err := c.entry(
				int(in.Fd()),
				out,
				name,
				depth,
			); err != nil &&
				!errors.Is(err, unix.ENOENT) { // ENOENT: deleted in the meantime
				return err
			}
		}

		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}
	}
}

// entry copies one child of a directory: a directory, a link or a regular file; it skips other
// types.
func (c *copier) entry(in, out int, name string, depth int) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}

	fd, err := unix.Openat(in, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}

	defer func() { _ = unix.Close(fd) }()

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}

	if err := c.quota.Take(oneEntry); err != nil {
		return err
	}

	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.tree(in, name, out, name, depth+1)
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)

		n, err := unix.Readlinkat(fd, "", buf)
		if err != nil {
			return err
		}

		if err := unix.Symlinkat(string(buf[:n]), out, name); err != nil {
			return err
		}

		return c.w.own(out, name)
	case unix.S_IFREG:
		f, err := c.content(fd, out, name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()

		return unix.Fchmod(int(f.Fd()), uint32(modeOf(&st)))
	}

	return nil // a pipe, socket or device
}
