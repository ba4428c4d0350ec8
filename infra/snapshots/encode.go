//go:build linux

package snapshots

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"

	"everloop/infra/snapshots/format"
)

// A manifest is a head and parts. A part is a run of entries, cut where the
// paths say so, not after a fixed number: so a change touches one part, and
// those of the rest stay what they are in the store.
const (
	headMagic    = "everloop snapshot 1\n"
	compactMagic = "everloop snapshot 2\n" // of a head that holds parts and contents
	partLeast    = 512                     // entries
	partMost     = 8192                    // entries
	partMean     = 2048                    // entries, beyond partLeast
)

// Bits of an entry's first byte, above its kind.
const (
	bitChunked = 0x40
	bitTrusted = 0x80
)

// part is a run of entries as it is kept.
type part struct {
	sum     hash // SHA-256 of raw
	entries int
	raw     []byte
	body    []byte // raw, compressed, when the head holds it; empty: it is an object of its own
}

// cut divides the entries into parts, as ranges.
func cut(entries []entry) (ends []int) {
	start := 0
	for i := range entries {
		n := i - start + 1
		if n < partLeast {
			continue
		}

		h := fnv.New32a()

		_, _ = h.Write([]byte(entries[i].path))
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

// encodePart writes entries; place gives where the content of a small file lies.
func encodePart(entries []entry, place func(hash) location) part {
	var packs []byte

	numbers := map[hash]int{}
	body := make([]byte, 0, 96*len(entries))
	last := ""

	for i := range entries {
		e := &entries[i]

		first := byte(e.kind)
		if e.chunks != nil {
			first |= bitChunked
		}

		if e.trusted {
			first |= bitTrusted
		}

		body = append(body, first)
		shared := sharedPrefix(last, e.path)
		last = e.path
		body = binary.AppendUvarint(body, uint64(shared))
		body = format.AppendString(body, e.path[shared:])

		body = binary.AppendUvarint(body, uint64(e.mode))
		switch e.kind {
		case kindLink:
			body = format.AppendString(body, e.target)
			body = binary.AppendVarint(body, e.id.mtime)
		case kindFile:
			body = binary.AppendVarint(body, e.id.mtime)
			body = binary.AppendVarint(body, e.id.ctime-e.id.mtime)
			body = binary.AppendUvarint(body, e.id.inode)

			body = binary.AppendUvarint(body, uint64(e.id.size))
			if e.chunks != nil {
				body = format.AppendRuns(body, e.chunks)
			} else if e.id.size > 0 {
				at := place(e.sum) // of a zero pack: in the head

				number, known := numbers[at.Pack]
				if !known {
					number = len(numbers)
					numbers[at.Pack] = number
					packs = append(packs, at.Pack[:]...)
				}

				body = append(body, e.sum[:]...)
				for _, n := range [...]uint32{uint32(number), at.Frame, at.FrameLength, at.Offset} {
					body = binary.AppendUvarint(body, uint64(n))
				}
			}
		case kindDir, kindSpecial, kindUnread: // the path and the mode say it all
		}
	}

	raw := binary.AppendUvarint(nil, uint64(len(numbers)))
	raw = append(append(raw, packs...), body...)

	return part{sum: sha256.Sum256(raw), entries: len(entries), raw: raw}
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

// encodeHead writes the head of a manifest whose parts are objects. It ends with its own hash.
func encodeHead(parts []part) []byte {
	out := binary.AppendUvarint([]byte(headMagic), uint64(len(parts)))
	for _, p := range parts {
		out = append(out, p.sum[:]...)
		out = binary.AppendUvarint(out, uint64(p.entries))
	}

	return appendSum(out)
}

// encodeCompact writes the head of a manifest with bodies of parts, and with contents
// to which the parts refer.
func encodeCompact(parts []part, laid []byte) []byte {
	out := binary.AppendUvarint([]byte(compactMagic), uint64(len(parts)))
	for _, p := range parts {
		out = append(out, p.sum[:]...)
		out = binary.AppendUvarint(out, uint64(p.entries))
		out = format.AppendString(out, p.body)
	}

	return appendSum(append(out, format.Compress(laid)...))
}

func appendSum(to []byte) []byte {
	sum := sha256.Sum256(to)
	return append(to, sum[:]...)
}
