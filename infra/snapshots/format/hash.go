// Package format implements the encoding of snapshots: hashes, packs of small contents, chunks of
// large contents, and the primitives of manifests. It must not depend on workspaces, objects or
// the content of manifests.
package format

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash is a SHA-256.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Location is the location of a small content: an offset in a frame of a pack.
type Location struct {
	Pack        Hash
	Frame       uint32 // offset in the pack
	FrameLength uint32 // as stored
	Offset      uint32 // in the decompressed frame
	Length      uint32
}
