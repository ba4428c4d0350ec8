//go:build linux

package manifest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/infra/snapshots/format"
)

func someEntries() []Entry {
	chunks := []format.Run{{Zeros: 3}, {Sum: format.Hash{9}}, {Zeros: 1}}
	size := int64(4*format.ChunkSize + 5)

	return []Entry{
		{Path: "a", Kind: Directory, Mode: 0o755},
		{
			Path:     "a/b",
			Kind:     File,
			Mode:     0o644,
			Sum:      format.Hash{1},
			Trusted:  true,
			Identity: Identity{CTime: -5, MTime: 7, Size: 3, Inode: 1 << 63},
		},
		{Path: "a/c", Kind: File, Mode: 0o600, Identity: Identity{CTime: 5, MTime: 5}},
		{Path: "a/d\xff", Kind: File, Mode: 0o600, Sum: format.SumOfChunks(size, chunks), Chunks: chunks, Identity: Identity{Size: size}},
		{Path: "l", Kind: Link, Target: "../x\n", Identity: Identity{MTime: 8}},
		{Path: "s", Kind: Special},
		{Path: "u", Kind: Unread},
	}
}

func TestManifest_roundTrip(t *testing.T) {
	t.Parallel()

	at := format.Location{Pack: format.Hash{7}, Frame: 1, FrameLength: 2, Offset: 3, Length: 3}
	p := EncodePart(someEntries(), func(format.Hash) format.Location { return at })
	got, err := DecodePart(p.Raw, p.Entries, func(sum format.Hash, found format.Location) {
		require.Equal(t, format.Hash{1}, sum)
		require.Equal(t, at, found)
	})
	require.NoError(t, err)
	require.Equal(t, someEntries(), got)

	parts, laid, err := DecodeHead(EncodeHead([]Part{p}))
	require.NoError(t, err)
	require.Equal(t, []Part{{Sum: p.Sum, Entries: p.Entries}}, parts)
	require.Empty(t, laid)

	held := Part{Sum: format.Hash{3}, Entries: 1, Body: format.Compress(p.Raw)}
	parts, laid, err = DecodeHead(EncodeCompact([]Part{{Sum: p.Sum, Entries: p.Entries}, held}, []byte("contents")))
	require.NoError(t, err)
	require.Equal(t, Part{Sum: p.Sum, Entries: p.Entries, Body: []byte{}}, parts[0], "an object of its own")
	require.Equal(t, held, parts[1])
	require.Equal(t, "contents", string(laid))
}

func TestParts_cutByPath(t *testing.T) {
	t.Parallel()

	var list []Entry
	for i := range 30_000 {
		list = append(list, Entry{Path: strings.Repeat("x", 1+i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i/1000), Kind: Directory})
	}

	ends := Cut(list)
	require.Equal(t, len(list), ends[len(ends)-1])
	later := Cut(list[3:])
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
	p := EncodePart(someEntries(), func(format.Hash) format.Location { return format.Location{Length: 3} })
	f.Add(p.Raw, p.Entries)
	f.Add(EncodeHead([]Part{p}), 1)
	f.Add(EncodeCompact([]Part{{Sum: p.Sum, Entries: 1, Body: format.Compress(p.Raw)}}, []byte("contents")), 1)
	f.Fuzz(func(t *testing.T, data []byte, count int) {
		_, _, _ = DecodeHead(data)

		list, err := DecodePart(data, min(max(count, 0), partMost), func(format.Hash, format.Location) {})
		if err != nil {
			return
		}

		for i := range list {
			require.True(t, proper(list[i].Path))
		}
	})
}
