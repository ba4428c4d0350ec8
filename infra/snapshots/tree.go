//go:build linux

package snapshots

import (
	"crypto/sha256"
	"encoding/binary"
	"path"
	"sync/atomic"

	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
)

// Short names for the types of package format.
type (
	hash     = format.Hash
	location = format.Location
	run      = format.Run
)

const (
	smallLimit = format.SmallLimit
	chunkSize  = format.ChunkSize
)

// entryBytes is the approximate memory of an entry, in bytes.
const entryBytes = 300

// tree is the state of a workspace at one time. It is immutable.
type tree struct {
	home    *session         // owner of the objects and of the cache of their locations
	sum     hash             // hash of the tree; zero: not yet computed
	entries []manifest.Entry // by path; a directory precedes its children
	index   map[string]int32
	// contents are the contents in the tree's manifest. They are set before stored.
	contents contents
	// stored reports that all contents of the tree are in the store.
	stored atomic.Bool
}

func newTree(home *session, entries []manifest.Entry) *tree {
	t := &tree{home: home, entries: entries, index: make(map[string]int32, len(entries))}
	for i := range entries {
		t.index[entries[i].Path] = int32(i)
	}

	return t
}

// at returns a path's entry, or nil. A nil tree has none.
func (t *tree) at(p string) *manifest.Entry {
	if t == nil {
		return nil
	}

	i, found := t.index[p]
	if !found {
		return nil
	}

	return &t.entries[i]
}

// weight returns the memory of the tree, in entries.
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

// identify returns the hash of the whole tree: equal trees have equal hashes in all sessions.
func (t *tree) identify() hash {
	h := sha256.New()

	buf := append(make([]byte, 0, 1<<16), "everloop snapshot 1\n"...)

	for i := range t.entries {
		e := &t.entries[i]

		if len(buf) > 1<<15 {
			_, _ = h.Write(buf)
			buf = buf[:0]
		}

		buf = append(buf, byte(e.Kind))
		buf = binary.AppendUvarint(buf, uint64(e.Mode))
		buf = binary.AppendUvarint(buf, uint64(e.Size()))
		buf = binary.AppendUvarint(buf, uint64(len(e.Path)))
		buf = append(buf, e.Path...)
		buf = append(buf, e.Sum[:]...)
		buf = binary.AppendUvarint(buf, uint64(len(e.Target)))
		buf = append(buf, e.Target...)
	}

	_, _ = h.Write(buf)

	return hash(h.Sum(nil))
}

// parentOf returns the parent directory of a path; the root is ".".
func parentOf(p string) string { return path.Dir(p) }
