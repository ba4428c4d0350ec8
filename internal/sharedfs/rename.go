//go:build linux

// Package sharedfs implements operations in which file systems that several machines share (NFS,
// CephFS, GlusterFS, JuiceFS, 9p, FUSE) differ from local ones: renaming without replacing,
// writing back, and caching attributes. It must not depend on the use of the files.
package sharedfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ErrUnsupported reports that the file system does not support an atomic operation.
var ErrUnsupported = errors.New("the file system cannot do this in one step")

// RenameNoReplace renames from to to, and returns EEXIST when to exists. fd is an open descriptor
// of a regular file, or -1; afterwards it can refer to the same file with O_PATH.
//
// On a file system that rejects the flags of renameat2 it uses several steps. For entries that
// are not directories they are equally safe: a hard link is created only if the name is free. A
// crash in between leaves both names of one file. See renameDirectory and renameByClaim for
// weaker guarantees.
func RenameNoReplace(fd, fromDir int, from string, toDir int, to string) error {
	err := RenameInOneStep(fromDir, from, toDir, to)
	if !errors.Is(err, ErrUnsupported) {
		return err
	}

	var st unix.Stat_t
	if err := Stat(fromDir, from, &st, false); err != nil {
		return err
	}

	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return renameDirectory(fromDir, from, toDir, to)
	}

	err = linkat(fromDir, from, toDir, to)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EMLINK), refused(err): // no hard links
		return renameByClaim(fromDir, from, toDir, to)
	case err != nil:
		return err
	}

	hold(fd, toDir, to)
	// If a command has created another file at the old name in the meantime, that file stays.
	if same(fromDir, from, &st) {
		err = unix.Unlinkat(fromDir, from, 0)
	}

	if errors.Is(err, unix.ENOENT) {
		return nil
	}

	return err
}

// RenameInOneStep renames from to to atomically, and returns EEXIST when to exists, or
// ErrUnsupported.
func RenameInOneStep(fromDir int, from string, toDir int, to string) error {
	err := renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE)
	if refused(err) {
		return ErrUnsupported
	}

	return err
}

// Rename renames from to to, and replaces an existing entry.
func Rename(fromDir int, from string, toDir int, to string) error {
	return renameat2(fromDir, from, toDir, to, 0)
}

// Exchange exchanges two names atomically, or returns ErrUnsupported.
func Exchange(dirA int, a string, dirB int, b string) error {
	err := renameat2(dirA, a, dirB, b, unix.RENAME_EXCHANGE)
	if refused(err) {
		return ErrUnsupported
	}

	return err
}

// renameDirectory renames a directory to a free name. The kernel preserves a file, or a non-empty
// directory, that is created concurrently at the name; an empty directory is replaced. A caller
// that must exclude this needs a lock.
func renameDirectory(fromDir int, from string, toDir int, to string) error {
	var st unix.Stat_t

	err := Stat(toDir, to, &st, false)
	if err == nil {
		return unix.EEXIST
	}

	if !errors.Is(err, unix.ENOENT) {
		return err
	}

	err = Rename(fromDir, from, toDir, to)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) {
		return unix.EEXIST
	}

	return err
}

// renameByClaim renames without hard links: it creates an empty file at the name if it is free,
// and then replaces it. A command's write to the empty file in between is lost; a crash leaves
// the empty file.
func renameByClaim(fromDir int, from string, toDir int, to string) error {
	claim, err := unix.Openat(toDir, to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}

	var st unix.Stat_t

	err = unix.Fstat(claim, &st)
	_ = unix.Close(claim)

	if err == nil {
		err = Rename(fromDir, from, toDir, to)
	}

	if err != nil && same(toDir, to, &st) {
		_ = unix.Unlinkat(toDir, to, 0)
	}

	return err
}

// hold reopens fd by the new name of its file. An NFS client does not delete a name by which a
// file is open, but renames it until the file is closed, which would change the file's change
// time, and so its ETag, after it was returned.
func hold(fd, dir int, name string) {
	var st unix.Stat_t
	if fd < 0 || unix.Fstat(fd, &st) != nil {
		return
	}

	renamed, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return // a command has already moved or deleted it
	}

	defer func() { _ = unix.Close(renamed) }()

	if same(renamed, "", &st) {
		_ = unix.Dup3(renamed, fd, unix.O_CLOEXEC)
	}
}

// same reports whether a name still is the given file.
func same(dir int, name string, st *unix.Stat_t) bool {
	var now unix.Stat_t

	err := Stat(dir, name, &now, false)

	return err == nil && now.Ino == st.Ino && now.Dev == st.Dev
}

// refused reports that the file system, or the kernel, does not support an operation. For a
// directory that is moved into itself EINVAL has another meaning: the following plain rename
// returns it again.
func refused(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

func renameat2(fromDir int, from string, toDir int, to string, flags uint) error {
	if simulated().NoRenameFlags && flags != 0 {
		return unix.EINVAL
	}

	return lookedUpAgain(toDir, to, func() error {
		if staleName(from, to) {
			return unix.ESTALE
		}

		return unix.Renameat2(fromDir, from, toDir, to, flags)
	})
}

func linkat(fromDir int, from string, toDir int, to string) error {
	if simulated().NoHardLinks {
		return unix.EPERM
	}

	return lookedUpAgain(fromDir, from, func() error {
		if staleName(from) {
			return unix.ESTALE
		}

		return unix.Linkat(fromDir, from, toDir, to, 0)
	})
}

// Link creates a hard link, or returns ErrUnsupported.
func Link(fromDir int, from string, toDir int, to string) error {
	err := linkat(fromDir, from, toDir, to)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMLINK) || refused(err) {
		return ErrUnsupported
	}

	return err
}
