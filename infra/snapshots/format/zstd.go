package format

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// maxDecoded is the maximum decoded size of a frame, in bytes, so that a damaged frame cannot
// exhaust memory.
const maxDecoded = 64 << 20

// Encoder is safe for concurrent use.
var Encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		panic(err) // invalid options
	}

	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxDecoded))
	if err != nil {
		panic(err) // invalid options
	}

	return d
})

// Compress returns data as a zstd frame.
func Compress(data []byte) []byte { return Encoder().EncodeAll(data, nil) }

// Decompress returns the data of a zstd frame.
func Decompress(data []byte) ([]byte, error) { return decoder().DecodeAll(data, nil) }
