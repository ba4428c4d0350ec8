//go:build linux

// Package manifest encodes and decodes the file list of a snapshot: entries in parts, and a head
// that names the parts. It handles bytes only; it must not depend on the object store, nor on
// reading and writing files.
package manifest

import (
	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/format"
)

// ServiceDir belongs to the service: saved outputs and logs of background tasks. It is never
// stored, restored or deleted, so no manifest may name it.
const ServiceDir = ".everloop"

// Kind is the type of an entry in a manifest.
type Kind uint8

// Kinds of entries.
const (
	File Kind = iota + 1
	Directory
	Link
	// Special is a socket, pipe or device: listed without content, so that a restore does not
	// touch it.
	Special
	// Unread is an unreadable or too deeply nested entry: listed for the same reason.
	Unread
)

// Opaque reports whether only the name is recorded.
func (k Kind) Opaque() bool { return k == Special || k == Unread }

// Counts reports whether an entry is counted as a file.
func (k Kind) Counts() bool { return k == File || k == Link }

// Identity shows whether a file was changed: while all fields are equal, nothing was written to
// it, within the resolution of the clock. Commands cannot set the change time.
type Identity struct {
	CTime, MTime int64 // Unix time in nanoseconds
	Size         int64 // bytes
	Inode        uint64
}

// IdentityOf returns the identity of a stat result.
func IdentityOf(st *unix.Stat_t) Identity {
	return Identity{CTime: st.Ctim.Nano(), MTime: st.Mtim.Nano(), Size: st.Size, Inode: st.Ino}
}

// Entry is one path of a workspace. The root is not an entry.
type Entry struct {
	Path     string // relative to the workspace; not always UTF-8
	Target   string // of a link, unresolved
	Identity Identity
	Sum      format.Hash  // of a non-empty file: SHA-256 of its content, or of its size and chunks
	Chunks   []format.Run // of a file larger than format.SmallLimit
	Kind     Kind
	Mode     uint16 // permission bits
	// Trusted reports that an equal identity proves equal content: the file had not changed for
	// some time when it was read.
	Trusted bool
}

// Size returns the size of a file in bytes, 0 for other kinds.
func (e *Entry) Size() int64 {
	if e.Kind != File {
		return 0
	}

	return e.Identity.Size
}

// Same reports whether two entries of one path are equal, ignoring times.
func (e *Entry) Same(o *Entry) bool {
	return e.Kind == o.Kind && e.Mode == o.Mode && e.Size() == o.Size() && e.Sum == o.Sum && e.Target == o.Target
}
