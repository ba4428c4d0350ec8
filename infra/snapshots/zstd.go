//go:build linux

package snapshots

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// maxDecoded bounds what one frame may become, in bytes, so that a damaged one
// cannot take all memory.
const maxDecoded = 64 << 20

var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		panic(err) // the options are wrong
	}

	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxDecoded))
	if err != nil {
		panic(err) // the options are wrong
	}

	return d
})

func compress(data []byte) []byte { return encoder().EncodeAll(data, nil) }

func decompress(data []byte) ([]byte, error) { return decoder().DecodeAll(data, nil) }
