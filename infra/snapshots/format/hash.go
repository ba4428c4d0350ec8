// Package format is how snapshots are written: hashes, packs of small contents, chunks
// of large ones, and the primitives of manifests. It must not know workspaces, objects
// or what a manifest says.
package format

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash is a SHA-256.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Location is where a small content lies: at offset in a frame, which is a part
// of a pack.
type Location struct {
	Pack        Hash
	Frame       uint32 // offset in the pack
	FrameLength uint32 // as stored
	Offset      uint32 // in the frame as it was before compression
	Length      uint32
}
