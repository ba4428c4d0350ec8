//go:build linux

package manifest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math"
	"strings"

	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/format"
)

// ErrFormat reports that bytes with the expected hash are not a manifest of this version.
var ErrFormat = errors.New("its format is not understood")

// DecodeHead returns the parts of a manifest, without their entries, and its contents section.
func DecodeHead(data []byte) (parts []Part, laid []byte, err error) {
	end := len(data) - len(format.Hash{})

	compact := bytes.HasPrefix(data, []byte(compactMagic))
	if end < len(headMagic) || !compact && !bytes.HasPrefix(data, []byte(headMagic)) {
		return nil, nil, ErrFormat
	}

	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return nil, nil, errors.New("its manifest was changed")
	}

	s := format.Scanner{Rest: data[len(headMagic):end]}

	for range s.Uint(uint64(len(data) / len(format.Hash{}))) {
		p := Part{Sum: s.Hash(), Entries: int(s.Uint(partMost))}
		if compact {
			p.Body = s.Bytes(s.Uint(uint64(len(s.Rest))))
		}

		parts = append(parts, p)
	}

	if compact && !s.Bad {
		laid, err = format.Decompress(s.Rest)
		s.Rest = nil
	}

	if s.Bad || len(s.Rest) > 0 || err != nil {
		return nil, nil, ErrFormat
	}

	return parts, laid, nil
}

// DecodePart returns a part's entries, and calls place with the locations of small files.
func DecodePart(raw []byte, count int, place func(format.Hash, format.Location)) ([]Entry, error) {
	s := format.Scanner{Rest: raw}

	var packs []format.Hash
	for range s.Uint(uint64(len(raw) / len(format.Hash{}))) {
		packs = append(packs, s.Hash())
	}

	entries := make([]Entry, 0, count)
	last := ""

	for range count {
		var e Entry

		first := s.Byte()
		e.Kind, e.Trusted = Kind(first&^(bitChunked|bitTrusted)), first&bitTrusted != 0
		shared := s.Uint(uint64(len(last)))
		e.Path = last[:shared] + string(s.Bytes(s.Uint(2*beneath.MaxPath)))

		e.Mode = uint16(s.Uint(0o777))
		switch e.Kind {
		case Directory, Special, Unread:
		case Link:
			e.Target = string(s.Bytes(s.Uint(2 * beneath.MaxPath)))
			e.Identity.MTime = s.Int()
		case File:
			scanFile(&s, &e, first&bitChunked != 0, packs, place)
		default:
			s.Fail()
		}

		if s.Bad || e.Path <= last || !proper(e.Path) {
			return nil, ErrFormat
		}

		last = e.Path
		entries = append(entries, e)
	}

	if s.Bad || len(s.Rest) > 0 {
		return nil, ErrFormat
	}

	return entries, nil
}

// scanFile reads the fields of a file entry; place receives the location of a small file's
// content.
func scanFile(s *format.Scanner, e *Entry, chunked bool, packs []format.Hash, place func(format.Hash, format.Location)) {
	e.Identity.MTime = s.Int()
	e.Identity.CTime = e.Identity.MTime + s.Int()
	e.Identity.Inode = s.Uint(math.MaxUint64)

	e.Identity.Size = int64(s.Uint(math.MaxInt64))
	if chunked {
		e.Chunks = s.Runs(e.Identity.Size)
		e.Sum = format.SumOfChunks(e.Identity.Size, e.Chunks)

		return
	}

	if e.Identity.Size == 0 {
		return
	}

	e.Sum = s.Hash()
	number := s.Uint(math.MaxUint32)

	at := format.Location{
		Frame: uint32(s.Uint(math.MaxUint32)), FrameLength: uint32(s.Uint(math.MaxUint32)),
		Offset: uint32(s.Uint(math.MaxUint32)), Length: uint32(e.Identity.Size),
	}
	if number >= uint64(len(packs)) || e.Identity.Size > format.SmallLimit {
		s.Fail()
		return
	}

	at.Pack = packs[number]
	place(e.Sum, at)
}

// proper reports whether a walk can have returned the path.
func proper(p string) bool {
	if strings.IndexByte(p, 0) >= 0 {
		return false
	}

	for name := range strings.SplitSeq(p, "/") {
		if name == "" || name == "." || name == ".." || len(name) > 255 {
			return false
		}
	}

	return p != ServiceDir && !strings.HasPrefix(p, ServiceDir+"/")
}
