//go:build linux

package snapshots

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/infra/snapshots/format"
)

func someEntries() []entry {
	chunks := []run{{Zeros: 3}, {Sum: hash{9}}, {Zeros: 1}}
	size := int64(4*chunkSize + 5)

	return []entry{
		{path: "a", kind: kindDir, mode: 0o755},
		{path: "a/b", kind: kindFile, mode: 0o644, sum: hash{1}, trusted: true, id: identity{ctime: -5, mtime: 7, size: 3, inode: 1 << 63}},
		{path: "a/c", kind: kindFile, mode: 0o600, id: identity{ctime: 5, mtime: 5}},
		{path: "a/d\xff", kind: kindFile, mode: 0o600, sum: format.SumOfChunks(size, chunks), chunks: chunks, id: identity{size: size}},
		{path: "l", kind: kindLink, target: "../x\n", id: identity{mtime: 8}},
		{path: "s", kind: kindSpecial},
		{path: "u", kind: kindUnread},
	}
}

func TestManifest_roundTrip(t *testing.T) {
	t.Parallel()

	at := location{Pack: hash{7}, Frame: 1, FrameLength: 2, Offset: 3, Length: 3}
	p := encodePart(someEntries(), func(hash) location { return at })
	got, err := decodePart(p.raw, p.entries, func(sum hash, found location) {
		require.Equal(t, hash{1}, sum)
		require.Equal(t, at, found)
	})
	require.NoError(t, err)
	require.Equal(t, someEntries(), got)

	parts, laid, err := decodeHead(encodeHead([]part{p}))
	require.NoError(t, err)
	require.Equal(t, []part{{sum: p.sum, entries: p.entries}}, parts)
	require.Empty(t, laid)

	held := part{sum: hash{3}, entries: 1, body: format.Compress(p.raw)}
	parts, laid, err = decodeHead(encodeCompact([]part{{sum: p.sum, entries: p.entries}, held}, []byte("contents")))
	require.NoError(t, err)
	require.Equal(t, part{sum: p.sum, entries: p.entries, body: []byte{}}, parts[0], "an object of its own")
	require.Equal(t, held, parts[1])
	require.Equal(t, "contents", string(laid))
}

func TestParts_cutByPath(t *testing.T) {
	t.Parallel()

	var list []entry
	for i := range 30_000 {
		list = append(list, entry{path: strings.Repeat("x", 1+i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/1000), kind: kindDir})
	}

	ends := cut(list)
	require.Equal(t, len(list), ends[len(ends)-1])
	later := cut(list[3:])
	shared := 0

	for _, end := range ends {
		for _, other := range later {
			if end == other+3 {
				shared++
			}
		}
	}

	require.Greater(t, shared, len(ends)/2, "a change at the start does not move all cuts")
}

// FuzzManifest feeds the decoders what no writer wrote: they must refuse or
// understand it, and never panic or take all memory.
func FuzzManifest(f *testing.F) {
	p := encodePart(someEntries(), func(hash) location { return location{Length: 3} })
	f.Add(p.raw, p.entries)
	f.Add(encodeHead([]part{p}), 1)
	f.Add(encodeCompact([]part{{sum: p.sum, entries: 1, body: format.Compress(p.raw)}}, []byte("contents")), 1)
	f.Fuzz(func(t *testing.T, data []byte, count int) {
		_, _, _ = decodeHead(data)

		list, err := decodePart(data, min(max(count, 0), partMost), func(hash, location) {})
		if err != nil {
			return
		}

		for i := range list {
			require.True(t, proper(list[i].path))
		}
	})
}
