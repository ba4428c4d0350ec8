//go:build linux

package sharedfs

import (
	"golang.org/x/sys/unix"
)

// CachesAttributes reports whether the file system of an open descriptor caches size and times of
// files for some seconds, so that changes of other machines appear late. CephFS, Lustre, OCFS2
// and GFS2 have coherent caches.
func CachesAttributes(fd int) bool {
	if simulated().CachesAttributes {
		return true
	}

	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return false
	}

	return cachesAttributes(int64(fs.Type))
}

func cachesAttributes(kind int64) bool {
	switch uint32(kind) {
	case unix.NFS_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC, unix.SMB_SUPER_MAGIC,
		unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return true
	}

	return false
}

// Stat returns the attributes of a name in an open directory, without following a link; an empty
// name is the descriptor's own file. fresh revalidates the client's cache. To revalidate the name
// itself, call Stat with fresh for its directory first. A stale file handle is looked up again, a
// limited number of times.
func Stat(dir int, name string, st *unix.Stat_t, fresh bool) error {
	return lookedUpAgain(dir, name, func() error { return stat(dir, name, st, fresh) })
}

// stat is one attempt of Stat.
func stat(dir int, name string, st *unix.Stat_t, fresh bool) error {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}

	if fresh {
		flags |= unix.AT_STATX_FORCE_SYNC
	}

	if look := simulated().Looked; look != nil {
		look(name, flags)
	}

	switch {
	case name != "" && staleName(name):
		return unix.ESTALE
	case !fresh && name == "":
		return unix.Fstat(dir, st)
	case !fresh:
		return unix.Fstatat(dir, name, st, flags)
	}

	var x unix.Statx_t
	if err := unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS, &x); err != nil {
		return err
	}

	*st = unix.Stat_t{
		Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Rdev: unix.Mkdev(x.Rdev_major, x.Rdev_minor), Ino: x.Ino,
		Mode: uint32(x.Mode), Uid: x.Uid, Gid: x.Gid, Size: int64(x.Size), Blocks: int64(x.Blocks),
		Atim: timespec(x.Atime), Mtim: timespec(x.Mtime), Ctim: timespec(x.Ctime),
	}
	// Their types differ between architectures.
	set(&st.Nlink, x.Nlink)
	set(&st.Blksize, x.Blksize)

	return nil
}

// DropPages makes the next read of an open file read from the server: a FUSE client can cache
// pages of a file that another machine has changed, regardless of its attributes.
func DropPages(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) }

func set[T ~uint64 | ~uint32 | ~int64 | ~int32](field *T, n uint32) { *field = T(n) }

func timespec(t unix.StatxTimestamp) unix.Timespec {
	return unix.NsecToTimespec(t.Sec*1e9 + int64(t.Nsec))
}

// Flush writes the data of a descriptor back to the file system, as close would, and returns its
// errors: NFS and FUSE write back late, and report a full disk or an exceeded quota only here. On
// a local file system it does nothing.
func Flush(fd int) error {
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}

	return unix.Close(again)
}
