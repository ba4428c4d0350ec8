package format

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

const (
	// SmallLimit is the maximum size of a file in packs, in bytes.
	SmallLimit = 4 << 20
	// ChunkSize is the size of the chunks of larger files, in bytes.
	ChunkSize = 8 << 20
)

// Run is a run of zero chunks, or one chunk of data.
type Run struct {
	Sum   Hash
	Zeros int64 // > 0: a run of that many chunks of zeros
}

// AppendZeros appends a run of count chunks of zeros; a count below 1 appends nothing.
func AppendZeros(runs []Run, count int64) []Run {
	if count <= 0 {
		return runs
	}

	if last := len(runs) - 1; last >= 0 && runs[last].Zeros > 0 {
		runs[last].Zeros += count
		return runs
	}

	return append(runs, Run{Zeros: count})
}

// ChunksOf returns the number of chunks of a file with a size.
func ChunksOf(size int64) int64 { return (size-1)/ChunkSize + 1 }

// ChunkLength returns the length of a chunk of a file, in bytes.
func ChunkLength(index, size int64) int { return int(min(ChunkSize, size-index*ChunkSize)) }

// DataOf iterates over the chunks with data and their index in the file.
func DataOf(chunks []Run) func(yield func(int64, Hash) bool) {
	return func(yield func(int64, Hash) bool) {
		index := int64(0)
		for _, c := range chunks {
			if c.Zeros == 0 && !yield(index, c.Sum) {
				return
			}

			index += max(c.Zeros, 1)
		}
	}
}

// SumOfChunks returns the hash that identifies the content of a chunked file.
func SumOfChunks(size int64, chunks []Run) Hash {
	h := sha256.New()

	var number [8]byte

	write := func(n int64) {
		binary.BigEndian.PutUint64(number[:], uint64(n))
		_, _ = h.Write(number[:])
	}
	_, _ = h.Write([]byte("chunks of a file\n"))

	write(size)

	for _, c := range chunks {
		write(c.Zeros)
		_, _ = h.Write(c.Sum[:])
	}

	return Hash(h.Sum(nil))
}

// ZeroBlock is the block size of comparisons with zeros, in bytes.
const ZeroBlock = 64 << 10

var zeroBlock [ZeroBlock]byte

// IsZero reports whether data contains only zeros.
func IsZero(data []byte) bool {
	for len(data) > 0 {
		n := min(len(data), len(zeroBlock))
		if !bytes.Equal(data[:n], zeroBlock[:n]) {
			return false
		}

		data = data[n:]
	}

	return true
}
