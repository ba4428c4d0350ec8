//go:build linux

package snapshots

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math"
	"strings"

	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/format"
)

// errFormat says that bytes whose hash is right are no manifest of this version.
var errFormat = errors.New("its format is not understood")

// decodeHead gives the parts of a manifest, without their entries, and the contents
// that it holds.
func decodeHead(data []byte) (parts []part, laid []byte, err error) {
	end := len(data) - len(hash{})

	compact := bytes.HasPrefix(data, []byte(compactMagic))
	if end < len(headMagic) || !compact && !bytes.HasPrefix(data, []byte(headMagic)) {
		return nil, nil, errFormat
	}

	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return nil, nil, errors.New("its manifest was changed")
	}

	s := format.Scanner{Rest: data[len(headMagic):end]}

	for range s.Uint(uint64(len(data) / len(hash{}))) {
		p := part{sum: s.Hash(), entries: int(s.Uint(partMost))}
		if compact {
			p.body = s.Bytes(s.Uint(uint64(len(s.Rest))))
		}

		parts = append(parts, p)
	}

	if compact && !s.Bad {
		laid, err = format.Decompress(s.Rest)
		s.Rest = nil
	}

	if s.Bad || len(s.Rest) > 0 || err != nil {
		return nil, nil, errFormat
	}

	return parts, laid, nil
}

// decodePart returns a part's entries, and calls place with where small files lie.
func decodePart(raw []byte, count int, place func(hash, location)) ([]entry, error) {
	s := format.Scanner{Rest: raw}

	var packs []hash
	for range s.Uint(uint64(len(raw) / len(hash{}))) {
		packs = append(packs, s.Hash())
	}

	entries := make([]entry, 0, count)
	last := ""

	for range count {
		var e entry

		first := s.Byte()
		e.kind, e.trusted = kind(first&^(bitChunked|bitTrusted)), first&bitTrusted != 0
		shared := s.Uint(uint64(len(last)))
		e.path = last[:shared] + string(s.Bytes(s.Uint(2*beneath.MaxPath)))

		e.mode = uint16(s.Uint(0o777))
		switch e.kind {
		case kindDir, kindSpecial, kindUnread:
		case kindLink:
			e.target = string(s.Bytes(s.Uint(2 * beneath.MaxPath)))
			e.id.mtime = s.Int()
		case kindFile:
			scanFile(&s, &e, first&bitChunked != 0, packs, place)
		default:
			s.Fail()
		}

		if s.Bad || e.path <= last || !proper(e.path) {
			return nil, errFormat
		}

		last = e.path
		entries = append(entries, e)
	}

	if s.Bad || len(s.Rest) > 0 {
		return nil, errFormat
	}

	return entries, nil
}

func scanFile(s *format.Scanner, e *entry, chunked bool, packs []hash, place func(hash, location)) {
	e.id.mtime = s.Int()
	e.id.ctime = e.id.mtime + s.Int()
	e.id.inode = s.Uint(math.MaxUint64)

	e.id.size = int64(s.Uint(math.MaxInt64))
	if chunked {
		e.chunks = s.Runs(e.id.size)
		e.sum = format.SumOfChunks(e.id.size, e.chunks)

		return
	}

	if e.id.size == 0 {
		return
	}

	e.sum = s.Hash()
	number := s.Uint(math.MaxUint32)

	at := location{
		Frame: uint32(s.Uint(math.MaxUint32)), FrameLength: uint32(s.Uint(math.MaxUint32)),
		Offset: uint32(s.Uint(math.MaxUint32)), Length: uint32(e.id.size),
	}
	if number >= uint64(len(packs)) || e.id.size > smallLimit {
		s.Fail()
		return
	}

	at.Pack = packs[number]
	place(e.sum, at)
}

// proper says that a path is one that a walk can have found.
func proper(p string) bool {
	if strings.IndexByte(p, 0) >= 0 {
		return false
	}

	for name := range strings.SplitSeq(p, "/") {
		if name == "" || name == "." || name == ".." || len(name) > 255 {
			return false
		}
	}

	return p != serviceDir && !strings.HasPrefix(p, serviceDir+"/")
}
