//go:build linux

package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"

	"everloop/infra/snapshots/format"
)

// A manifest consists of a head and parts. A part is a run of entries, cut by a function of the
// paths instead of a fixed count: a change affects one part, and the others stay equal to the
// stored ones.
const (
	headMagic    = "everloop snapshot 1\n"
	compactMagic = "everloop snapshot 2\n" // of a head with parts and contents
	partLeast    = 512                     // entries
	partMost     = 8192                    // entries
	partMean     = 2048                    // entries, above partLeast
)

// Bits of an entry's first byte, above its kind.
const (
	bitChunked = 0x40
	bitTrusted = 0x80
)

// Part is an encoded run of entries.
type Part struct {
	Sum     format.Hash // SHA-256 of Raw
	Entries int
	Raw     []byte
	Body    []byte // Raw, compressed, when it is part of the head; empty: a separate object
}

// Cut divides the entries into parts, as ranges.
func Cut(entries []Entry) (ends []int) {
	start := 0
	for i := range entries {
		n := i - start + 1
		if n < partLeast {
			continue
		}

		h := fnv.New32a()

		_, _ = h.Write([]byte(entries[i].Path))
		if n == partMost || h.Sum32()%partMean == 0 {
			ends = append(ends, i+1)
			start = i + 1
		}
	}

	if start < len(entries) {
		ends = append(ends, len(entries))
	}

	return ends
}

// EncodePart encodes entries; place returns the location of a small file's content.
func EncodePart(entries []Entry, place func(format.Hash) format.Location) Part {
	var packs []byte

	numbers := map[format.Hash]int{}
	body := make([]byte, 0, 96*len(entries))
	last := ""

	for i := range entries {
		e := &entries[i]

		first := byte(e.Kind)
		if e.Chunks != nil {
			first |= bitChunked
		}

		if e.Trusted {
			first |= bitTrusted
		}

		body = append(body, first)
		shared := sharedPrefix(last, e.Path)
		last = e.Path
		body = binary.AppendUvarint(body, uint64(shared))
		body = format.AppendString(body, e.Path[shared:])

		body = binary.AppendUvarint(body, uint64(e.Mode))
		switch e.Kind {
		case Link:
			body = format.AppendString(body, e.Target)
			body = binary.AppendVarint(body, e.Identity.MTime)
		case File:
			body = binary.AppendVarint(body, e.Identity.MTime)
			body = binary.AppendVarint(body, e.Identity.CTime-e.Identity.MTime)
			body = binary.AppendUvarint(body, e.Identity.Inode)

			body = binary.AppendUvarint(body, uint64(e.Identity.Size))
			if e.Chunks != nil {
				body = format.AppendRuns(body, e.Chunks)
			} else if e.Identity.Size > 0 {
				at := place(e.Sum) // of a zero pack: in the head

				number, known := numbers[at.Pack]
				if !known {
					number = len(numbers)
					numbers[at.Pack] = number
					packs = append(packs, at.Pack[:]...)
				}

				body = append(body, e.Sum[:]...)
				for _, n := range [...]uint32{uint32(number), at.Frame, at.FrameLength, at.Offset} {
					body = binary.AppendUvarint(body, uint64(n))
				}
			}
		case Directory, Special, Unread: // path and mode suffice
		}
	}

	raw := binary.AppendUvarint(nil, uint64(len(numbers)))
	raw = append(append(raw, packs...), body...)

	return Part{Sum: sha256.Sum256(raw), Entries: len(entries), Raw: raw}
}

func sharedPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}

	return n
}

// EncodeHead encodes the head of a manifest whose parts are objects. It ends with its own hash.
func EncodeHead(parts []Part) []byte {
	out := binary.AppendUvarint([]byte(headMagic), uint64(len(parts)))
	for _, p := range parts {
		out = append(out, p.Sum[:]...)
		out = binary.AppendUvarint(out, uint64(p.Entries))
	}

	return appendSum(out)
}

// EncodeCompact encodes the head of a manifest including bodies of parts and their contents.
func EncodeCompact(parts []Part, laid []byte) []byte {
	out := binary.AppendUvarint([]byte(compactMagic), uint64(len(parts)))
	for _, p := range parts {
		out = append(out, p.Sum[:]...)
		out = binary.AppendUvarint(out, uint64(p.Entries))
		out = format.AppendString(out, p.Body)
	}

	return appendSum(append(out, format.Compress(laid)...))
}

func appendSum(to []byte) []byte {
	sum := sha256.Sum256(to)
	return append(to, sum[:]...)
}
