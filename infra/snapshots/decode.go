//go:build linux

package snapshots

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"everloop/infra/snapshots/beneath"
)

// errFormat says that bytes whose hash is right are no manifest of this version.
var errFormat = errors.New("its format is not understood")

// scanner reads what encode.go writes. After the first fault it gives zeros, and
// bad says so.
type scanner struct {
	rest []byte
	bad  bool
}

func (s *scanner) fail() { s.bad, s.rest = true, nil }

func (s *scanner) bytes(n uint64) []byte {
	if n > uint64(len(s.rest)) {
		s.fail()
		return nil
	}

	out := s.rest[:n]
	s.rest = s.rest[n:]

	return out
}

func (s *scanner) byte() byte {
	if b := s.bytes(1); b != nil {
		return b[0]
	}

	return 0
}

func (s *scanner) uint(most uint64) uint64 {
	n, size := binary.Uvarint(s.rest)
	if size <= 0 || n > most {
		s.fail()
		return 0
	}

	s.rest = s.rest[size:]

	return n
}

func (s *scanner) int() int64 {
	n, size := binary.Varint(s.rest)
	if size <= 0 {
		s.fail()
		return 0
	}

	s.rest = s.rest[size:]

	return n
}

func (s *scanner) hash() (h hash) {
	copy(h[:], s.bytes(uint64(len(h))))
	return h
}

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

	s := scanner{rest: data[len(headMagic):end]}

	for range s.uint(uint64(len(data) / len(hash{}))) {
		p := part{sum: s.hash(), entries: int(s.uint(partMost))}
		if compact {
			p.body = s.bytes(s.uint(uint64(len(s.rest))))
		}

		parts = append(parts, p)
	}

	if compact && !s.bad {
		laid, err = decompress(s.rest)
		s.rest = nil
	}

	if s.bad || len(s.rest) > 0 || err != nil {
		return nil, nil, errFormat
	}

	return parts, laid, nil
}

// decodePart returns a part's entries, and calls place with where small files lie.
func decodePart(raw []byte, count int, place func(hash, location)) ([]entry, error) {
	s := scanner{rest: raw}

	var packs []hash
	for range s.uint(uint64(len(raw) / len(hash{}))) {
		packs = append(packs, s.hash())
	}

	entries := make([]entry, 0, count)
	last := ""

	for range count {
		var e entry

		first := s.byte()
		e.kind, e.trusted = kind(first&^(bitChunked|bitTrusted)), first&bitTrusted != 0
		shared := s.uint(uint64(len(last)))
		e.path = last[:shared] + string(s.bytes(s.uint(2*beneath.MaxPath)))

		e.mode = uint16(s.uint(0o777))
		switch e.kind {
		case kindDir, kindSpecial, kindUnread:
		case kindLink:
			e.target = string(s.bytes(s.uint(2 * beneath.MaxPath)))
			e.id.mtime = s.int()
		case kindFile:
			s.file(&e, first&bitChunked != 0, packs, place)
		default:
			s.fail()
		}

		if s.bad || e.path <= last || !proper(e.path) {
			return nil, errFormat
		}

		last = e.path
		entries = append(entries, e)
	}

	if s.bad || len(s.rest) > 0 {
		return nil, errFormat
	}

	return entries, nil
}

func (s *scanner) file(e *entry, chunked bool, packs []hash, place func(hash, location)) {
	e.id.mtime = s.int()
	e.id.ctime = e.id.mtime + s.int()
	e.id.inode = s.uint(math.MaxUint64)

	e.id.size = int64(s.uint(math.MaxInt64))
	if chunked {
		e.chunks = s.chunks(e.id.size)
		e.sum = sumOfChunks(e.id.size, e.chunks)

		return
	}

	if e.id.size == 0 {
		return
	}

	e.sum = s.hash()
	number := s.uint(math.MaxUint32)

	at := location{
		frame: uint32(s.uint(math.MaxUint32)), frameLength: uint32(s.uint(math.MaxUint32)),
		offset: uint32(s.uint(math.MaxUint32)), length: uint32(e.id.size),
	}
	if number >= uint64(len(packs)) || e.id.size > smallLimit {
		s.fail()
		return
	}

	at.pack = packs[number]
	place(e.sum, at)
}

// chunks reads the chunks of a file, which must be as many as its size needs.
func (s *scanner) chunks(size int64) []run {
	if size <= 0 {
		s.fail()
		return nil
	}

	n := s.uint(uint64(len(s.rest)))
	chunks := make([]run, 0, n)
	total := int64(0)

	for range n {
		r := run{zeros: int64(s.uint(math.MaxInt64))}
		if r.zeros == 0 {
			r.sum = s.hash()
		}

		if more := max(r.zeros, 1); more <= chunksOf(size)-total {
			total += more
		} else {
			s.fail()
		}

		chunks = append(chunks, r)
	}

	if total != chunksOf(size) {
		s.fail()
	}

	return chunks
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
