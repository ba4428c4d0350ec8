package format

import (
	"encoding/binary"
	"math"
)

// Scanner reads the parts of a manifest. After the first format error it returns zeros and sets
// Bad.
type Scanner struct {
	Rest []byte // unread input
	Bad  bool
}

// Fail marks the input as an invalid manifest.
func (s *Scanner) Fail() { s.Bad, s.Rest = true, nil }

// Bytes reads n bytes, which alias the input.
func (s *Scanner) Bytes(n uint64) []byte {
	if n > uint64(len(s.Rest)) {
		s.Fail()
		return nil
	}

	out := s.Rest[:n]
	s.Rest = s.Rest[n:]

	return out
}

// Byte reads one byte.
func (s *Scanner) Byte() byte {
	if b := s.Bytes(1); b != nil {
		return b[0]
	}

	return 0
}

// Uint reads a number no greater than most.
func (s *Scanner) Uint(most uint64) uint64 {
	n, size := binary.Uvarint(s.Rest)
	if size <= 0 || n > most {
		s.Fail()
		return 0
	}

	s.Rest = s.Rest[size:]

	return n
}

// Int reads a number.
func (s *Scanner) Int() int64 {
	n, size := binary.Varint(s.Rest)
	if size <= 0 {
		s.Fail()
		return 0
	}

	s.Rest = s.Rest[size:]

	return n
}

// Hash reads a hash.
func (s *Scanner) Hash() (h Hash) {
	copy(h[:], s.Bytes(uint64(len(h))))
	return h
}

// Runs reads the chunks of a file and checks their number against its size.
func (s *Scanner) Runs(size int64) []Run {
	if size <= 0 {
		s.Fail()
		return nil
	}

	n := s.Uint(uint64(len(s.Rest)))
	chunks := make([]Run, 0, n)
	total := int64(0)

	for range n {
		r := Run{Zeros: int64(s.Uint(math.MaxInt64))}
		if r.Zeros == 0 {
			r.Sum = s.Hash()
		}

		if more := max(r.Zeros, 1); more <= ChunksOf(size)-total {
			total += more
		} else {
			s.Fail()
		}

		chunks = append(chunks, r)
	}

	if total != ChunksOf(size) {
		s.Fail()
	}

	return chunks
}

// AppendString appends a string in the format of Uint and Bytes.
func AppendString[S ~string | ~[]byte](to []byte, s S) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

// AppendRuns appends the chunks of a file in the format of Runs.
func AppendRuns(to []byte, chunks []Run) []byte {
	to = binary.AppendUvarint(to, uint64(len(chunks)))
	for _, c := range chunks {
		to = binary.AppendUvarint(to, uint64(c.Zeros))
		if c.Zeros == 0 {
			to = append(to, c.Sum[:]...)
		}
	}

	return to
}
