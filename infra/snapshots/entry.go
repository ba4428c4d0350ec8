//go:build linux

package snapshots

import (
	"crypto/sha256"
	"encoding/binary"
	"io/fs"
	"path"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/format"
)

// Type says what an entry of a snapshot is.
type Type string

// Types of entries.
const (
	File      Type = "file"
	Directory Type = "directory"
	Link      Type = "link"
)

// Info describes an entry of a snapshot.
type Info struct {
	Path    string // relative to the workspace; bytes as they are there, not always UTF-8
	Type    Type
	Mode    fs.FileMode // permission bits only; of a link 0
	Size    int64       // bytes, of a file; else 0
	ModTime time.Time
	Target  string // of a link, unresolved
	// Identity is equal for files of equal content, in all snapshots; empty for
	// what is no file.
	Identity string
}

// Short names for what the format is made of.
type (
	hash     = format.Hash
	location = format.Location
	run      = format.Run
)

const (
	smallLimit = format.SmallLimit
	chunkSize  = format.ChunkSize
)

// kind is what a manifest says of an entry.
type kind uint8

const (
	kindFile kind = iota + 1
	kindDir
	kindLink
	// kindSpecial is a socket, pipe or device: noted, so that a restore leaves it
	// alone, but not kept.
	kindSpecial
	// kindUnread is something that could not be read, or lies too deep: noted for
	// the same reason.
	kindUnread
)

// opaque says that only the name is known.
func (k kind) opaque() bool { return k == kindSpecial || k == kindUnread }

// counts says that an entry counts as a file for people.
func (k kind) counts() bool { return k == kindFile || k == kindLink }

func (k kind) public() Type {
	switch k {
	case kindDir:
		return Directory
	case kindLink:
		return Link
	default:
		return File
	}
}

// identity is what shows that an entry was not touched: as long as all are
// equal, nothing was written to it, but for the grain of the clock. The change
// time cannot be set by a command.
type identity struct {
	ctime, mtime int64 // nanoseconds since 1970
	size         int64
	inode        uint64
}

func identityOf(st *unix.Stat_t) identity {
	return identity{ctime: st.Ctim.Nano(), mtime: st.Mtim.Nano(), size: st.Size, inode: st.Ino}
}

// entry is one path of a tree. The root is not an entry.
type entry struct {
	path   string
	target string // of a link
	id     identity
	sum    hash  // of a file with content: SHA-256 of it, or of its size and chunks
	chunks []run // of a file larger than smallLimit
	kind   kind
	mode   uint16 // permission bits
	// trusted says that an equal identity proves equal content: the file had been
	// left alone for a while when it was read.
	trusted bool
}

func (e *entry) size() int64 {
	if e.kind != kindFile {
		return 0
	}

	return e.id.size
}

// same says that two entries of one path hold the same. Times do not count.
func (e *entry) same(o *entry) bool {
	return e.kind == o.kind && e.mode == o.mode && e.size() == o.size() && e.sum == o.sum && e.target == o.target
}

func (e *entry) info() Info {
	info := Info{
		Path: e.path, Type: e.kind.public(), Mode: fs.FileMode(e.mode), Size: e.size(),
		ModTime: time.Unix(0, e.id.mtime), Target: e.target,
	}
	if e.kind == kindFile {
		info.Identity = e.sum.String()
	}

	return info
}

// entryBytes is about what an entry takes of memory.
const entryBytes = 300

// tree is the state of a workspace at one time. It is not changed once made.
type tree struct {
	home    *session // whose objects hold it, and which knows where they lie
	sum     hash     // of what it holds; zero while that is not known
	entries []entry  // by path; a directory stands before what is in it
	index   map[string]int32
	// contents are in its manifest. They are set before stored.
	contents contents
	// stored says that all contents that it names are in the store.
	stored atomic.Bool
}

func newTree(home *session, entries []entry) *tree {
	t := &tree{home: home, entries: entries, index: make(map[string]int32, len(entries))}
	for i := range entries {
		t.index[entries[i].path] = int32(i)
	}

	return t
}

// at gives a path's entry, nil when there is none. A nil tree has none.
func (t *tree) at(p string) *entry {
	if t == nil {
		return nil
	}

	i, found := t.index[p]
	if !found {
		return nil
	}

	return &t.entries[i]
}

// weight is what the tree takes of memory, in entries.
func (t *tree) weight() int {
	n := len(t.entries)
	if !t.stored.Load() {
		return n
	}

	for _, content := range t.contents {
		n += 1 + len(content)/entryBytes
	}

	return n
}

// identify gives the hash of everything that the tree holds: equal trees have
// the same, wherever and whenever they are found.
func (t *tree) identify() hash {
	h := sha256.New()

	buf := append(make([]byte, 0, 1<<16), "everloop snapshot 1\n"...)

	for i := range t.entries {
		e := &t.entries[i]

		if len(buf) > 1<<15 {
			_, _ = h.Write(buf)
			buf = buf[:0]
		}

		buf = append(buf, byte(e.kind))
		buf = binary.AppendUvarint(buf, uint64(e.mode))
		buf = binary.AppendUvarint(buf, uint64(e.size()))
		buf = binary.AppendUvarint(buf, uint64(len(e.path)))
		buf = append(buf, e.path...)
		buf = append(buf, e.sum[:]...)
		buf = binary.AppendUvarint(buf, uint64(len(e.target)))
		buf = append(buf, e.target...)
	}

	_, _ = h.Write(buf)

	return hash(h.Sum(nil))
}

// parentOf gives the directory that holds a path; the root is ".".
func parentOf(p string) string { return path.Dir(p) }
