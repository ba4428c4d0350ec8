package backup

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// target is a directory tree during a restore. os.Root rejects names and links that leave it.
type target struct {
	root *os.Root
	// dirs are directories whose modes and times are set at the end, when their content is
	// complete.
	dirs []*tar.Header
}

// openTarget creates the directory, which must be empty.
func openTarget(dir string) (*target, error) {
	if err := Occupied(dir); err != nil {
		return nil, err
	}

	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}

	return &target{root: root}, nil
}

// take writes one entry. name is relative to the tree, without the prefix of its part.
func (t *target) take(header *tar.Header, name, prefix string, body io.Reader) error {
	name = strings.TrimSuffix(name, "/")
	if name == "" {
		name = "."
	}

	local := *header
	local.Name = name

	var err error

	switch header.Typeflag {
	case tar.TypeDir:
		t.dirs = append(t.dirs, &local)

		if name != "." {
			err = errors.Join(t.removeFile(name), t.root.MkdirAll(name, 0o700))
		}
	case tar.TypeReg:
		err = t.file(&local, body)
	case tar.TypeSymlink:
		err = t.symlink(&local)
	case tar.TypeLink:
		first, within := strings.CutPrefix(header.Linkname, prefix)
		if !within {
			return fmt.Errorf("the backup has a link out of its target: %q to %q", header.Name, header.Linkname)
		}

		err = errors.Join(t.remove(name), t.root.Link(first, name))
	default:
		return fmt.Errorf("the backup has an entry of an unknown kind: %q", header.Name)
	}

	if err != nil {
		return fmt.Errorf("restore %q: %w", header.Name, err)
	}

	return nil
}

// remove deletes an earlier entry of the same name, possibly a directory, such as a branch before
// one with a slash in its name: the last entry counts.
func (t *target) remove(name string) error { return t.root.RemoveAll(name) }

// removeFile deletes an earlier entry that is not a directory.
func (t *target) removeFile(name string) error {
	info, err := t.root.Lstat(name)
	if err != nil || info.IsDir() {
		return nil //nolint:nilerr // there is nothing, or MkdirAll says what is wrong
	}

	return t.root.Remove(name)
}

func (t *target) file(header *tar.Header, body io.Reader) error {
	if err := t.remove(header.Name); err != nil {
		return err
	}

	file, err := t.root.OpenFile(header.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, body)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}

	return t.attributes(header)
}

func (t *target) symlink(header *tar.Header) error {
	if err := errors.Join(t.remove(header.Name), t.root.Symlink(header.Linkname, header.Name)); err != nil {
		return err
	}

	return t.owner(header)
}

// owner sets the owner of an entry, if the process is root.
func (t *target) owner(header *tar.Header) error {
	if os.Geteuid() != 0 {
		return nil
	}

	return t.root.Lchown(header.Name, header.Uid, header.Gid)
}

func (t *target) attributes(header *tar.Header) error {
	err := t.owner(header) // before the mode: chown clears set-user-id bits
	if err == nil {
		err = t.root.Chmod(header.Name, header.FileInfo().Mode())
	}

	if err == nil {
		err = t.root.Chtimes(header.Name, header.ModTime, header.ModTime)
	}

	return err
}

// close sets the attributes of the directories, the deepest first.
func (t *target) close() error {
	defer t.root.Close()

	for _, header := range slices.Backward(t.dirs) {
		if !t.isThere(header.Name) {
			continue // it or a parent was replaced by another entry
		}

		if err := t.attributes(header); err != nil {
			return fmt.Errorf("restore %q: %w", header.Name, err)
		}
	}

	return nil
}

// isThere reports whether a created directory still exists as a directory.
func (t *target) isThere(dir string) bool {
	info, err := t.root.Lstat(dir)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR)
	}

	return info.IsDir()
}

// keep writes a single file, which must not exist. Root sets its owner to the owner of its
// directory: other services can run as that user and read it.
func (f File) keep(body io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o711); err != nil {
		return err
	}

	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, body)
	if err == nil && os.Geteuid() == 0 {
		err = ownedAs(file, filepath.Dir(f.Path))
	}

	return errors.Join(err, file.Sync(), file.Close())
}

// ownedAs sets the owner of a file to the owner of a directory.
func ownedAs(file *os.File, dir string) error {
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}

	return file.Chown(int(stat.Uid), int(stat.Gid))
}

// free returns an error if the file exists.
func (f File) free() error {
	if _, err := os.Lstat(f.Path); err == nil {
		return fmt.Errorf("%s exists: a restore needs an empty place", f.Path)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}

	return nil
}
