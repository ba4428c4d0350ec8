//go:build linux

// Package manifest is the form in which a snapshot lists its files: entries in parts,
// and a head that names the parts. It knows bytes; it must not know where objects are
// stored, nor how files are read and written.
package manifest

import (
	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/format"
)

// ServiceDir belongs to the service: saved outputs and logs of background tasks. It is
// neither kept nor restored nor deleted, so no manifest may name it.
const ServiceDir = ".everloop"

// Kind is what a manifest says of an entry.
type Kind uint8

// Kinds of entries.
const (
	File Kind = iota + 1
	Directory
	Link
	// Special is a socket, pipe or device: noted, so that a restore leaves it
	// alone, but not kept.
	Special
	// Unread is something that could not be read, or lies too deep: noted for
	// the same reason.
	Unread
)

// Opaque reports that only the name is known.
func (k Kind) Opaque() bool { return k == Special || k == Unread }

// Counts reports that an entry counts as a file for people.
func (k Kind) Counts() bool { return k == File || k == Link }

// Identity is what shows that an entry was not touched: as long as all are
// equal, nothing was written to it, but for the grain of the clock. The change
// time cannot be set by a command.
type Identity struct {
	CTime, MTime int64 // nanoseconds since 1970
	Size         int64 // bytes
	Inode        uint64
}

// IdentityOf takes the identity from what stat returned.
func IdentityOf(st *unix.Stat_t) Identity {
	return Identity{CTime: st.Ctim.Nano(), MTime: st.Mtim.Nano(), Size: st.Size, Inode: st.Ino}
}

// Entry is one path of a workspace. The root is not an entry.
type Entry struct {
	Path     string // relative to the workspace; bytes as they are there, not always UTF-8
	Target   string // of a link, unresolved
	Identity Identity
	Sum      format.Hash  // of a file with content: SHA-256 of it, or of its size and chunks
	Chunks   []format.Run // of a file larger than format.SmallLimit
	Kind     Kind
	Mode     uint16 // permission bits
	// Trusted reports that an equal identity proves equal content: the file had been
	// left alone for a while when it was read.
	Trusted bool
}

// Size returns the size of a file in bytes, 0 for other kinds.
func (e *Entry) Size() int64 {
	if e.Kind != File {
		return 0
	}

	return e.Identity.Size
}

// Same reports that two entries of one path hold the same. Times do not count.
func (e *Entry) Same(o *Entry) bool {
	return e.Kind == o.Kind && e.Mode == o.Mode && e.Size() == o.Size() && e.Sum == o.Sum && e.Target == o.Target
}
