//go:build linux

package snapshots

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
	"everloop/infra/snapshots/spool"
)

// fetchSize is the approximate maximum size of a request to a pack, in bytes.
const fetchSize = 8 << 20

// source reads the contents of one snapshot and verifies each by its hash.
type source struct {
	store *Store
	id    string
	tree  *tree
}

// frame returns a frame of a pack. path is used in the error.
func (s *source) frame(ctx context.Context, at location, path string) ([]byte, error) {
	data, err := s.packed(ctx, at.Pack, int64(at.Frame), int64(at.FrameLength), path)
	if err != nil {
		return nil, err
	}

	raw, err := format.Decompress(data)
	if err != nil {
		return nil, damaged(s.id, path, "was changed in the store")
	}

	return raw, nil
}

func (s *source) packed(ctx context.Context, pack hash, offset, length int64, path string) ([]byte, error) {
	data, err := s.store.objects.GetRange(ctx, packKey(s.tree.home.id, pack), offset, length)
	if missing(err) {
		return nil, damaged(s.id, path, "is missing: pack %s does not exist", pack)
	}

	if err != nil {
		return nil, err
	}

	if int64(len(data)) != length {
		return nil, damaged(s.id, path, "is cut off in the store")
	}

	return data, nil
}

// cutOut returns a small file's content from its frame.
func (s *source) cutOut(frame []byte, at location, e *manifest.Entry) ([]byte, error) {
	end := int64(at.Offset) + int64(at.Length)
	if end > int64(len(frame)) || sha256.Sum256(frame[at.Offset:end]) != e.Sum {
		return nil, damaged(s.id, e.Path, "was changed in the store")
	}

	return frame[at.Offset:end], nil
}

// chunk returns a chunk of a large file, which is length bytes long.
func (s *source) chunk(ctx context.Context, sum hash, length int, path string) ([]byte, error) {
	data, err := s.store.objects.Get(ctx, chunkKey(s.tree.home.id, sum))
	if missing(err) {
		return nil, damaged(s.id, path, "is missing: chunk %s does not exist", sum)
	}

	if err != nil {
		return nil, err
	}

	raw, err := format.Decompress(data)
	if err != nil || len(raw) != length || sha256.Sum256(raw) != sum {
		return nil, damaged(s.id, path, "was changed in the store")
	}

	return raw, nil
}

// wanted is a small file to fetch.
type wanted struct {
	entry *manifest.Entry
	at    location
}

// fetched contains fetched and verified contents, in a spool.
type fetched struct {
	spool  *spool.File
	mu     sync.Mutex
	blobs  map[hash]spool.Extent
	chunks map[hash]spool.Extent
}

func (f *fetched) keep(in map[hash]spool.Extent, sum hash, data []byte) error {
	at, err := f.spool.Add(data)
	if err != nil {
		return err
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	in[sum] = at

	return nil
}

// fetch downloads the contents of files into a spool, except chunks that are available in the
// workspace.
func (s *source) fetch(ctx context.Context, files []*manifest.Entry, has local, into *spool.File) (*fetched, error) {
	f := &fetched{spool: into, blobs: map[hash]spool.Extent{}, chunks: map[hash]spool.Extent{}}
	group, getting := errgroup.WithContext(ctx)
	group.SetLimit(uploads)

	asked := map[hash]bool{}

	var small []wanted

	for _, e := range files {
		if e.Chunks == nil {
			if e.Identity.Size == 0 || asked[e.Sum] {
				continue
			}

			asked[e.Sum] = true

			content, here := s.tree.content(e.Sum)
			if !here {
				small = append(small, wanted{e, s.tree.home.location(e.Sum)})
			} else if err := f.keep(f.blobs, e.Sum, content); err != nil {
				return nil, abandon(group, err)
			}

			continue
		}

		for index, sum := range format.DataOf(e.Chunks) {
			if has.holds(e, index) || asked[sum] || getting.Err() != nil {
				continue
			}

			asked[sum] = true

			group.Go(func() error {
				data, err := s.chunk(getting, sum, format.ChunkLength(index, e.Identity.Size), e.Path)
				if err != nil {
					return err
				}

				return f.keep(f.chunks, sum, data)
			})
		}
	}

	for _, list := range stretches(small) {
		if getting.Err() != nil {
			break
		}

		group.Go(func() error { return s.fetchStretch(getting, list, f) })
	}

	if err := group.Wait(); err != nil {
		return nil, err
	}

	return f, ctx.Err()
}

// stretches sorts small files by location and groups them into ranges, each fetched by one
// request with little unneeded data.
func stretches(list []wanted) (out [][]wanted) {
	slices.SortFunc(list, func(a, b wanted) int {
		return cmp.Or(
			slices.Compare(a.at.Pack[:], b.at.Pack[:]),
			cmp.Compare(a.at.Frame, b.at.Frame),
			cmp.Compare(a.at.Offset, b.at.Offset),
		)
	})

	start := 0

	for i := 1; i <= len(list); i++ {
		if i < len(list) {
			first, last, next := list[start].at, list[i-1].at, list[i].at

			gap := int64(next.Frame) - int64(last.Frame) - int64(last.FrameLength)
			if next.Pack == last.Pack && gap < format.FrameSize/4 && next.Frame-first.Frame < fetchSize {
				continue
			}
		}

		out = append(out, list[start:i])
		start = i
	}

	if len(list) == 0 {
		return nil
	}

	return out
}

// fetchStretch fetches one range of a pack and adds the contents of its files to the spool.
func (s *source) fetchStretch(ctx context.Context, list []wanted, into *fetched) error {
	first, last := list[0].at, list[len(list)-1].at
	length := int64(last.Frame) - int64(first.Frame) + int64(last.FrameLength)

	data, err := s.packed(ctx, first.Pack, int64(first.Frame), length, list[0].entry.Path)
	if err != nil {
		return err
	}

	var frame []byte

	for i, w := range list {
		if i == 0 || w.at.Frame != list[i-1].at.Frame {
			at := int64(w.at.Frame) - int64(first.Frame)
			if frame, err = format.Decompress(data[at : at+int64(w.at.FrameLength)]); err != nil {
				return damaged(s.id, w.entry.Path, "was changed in the store")
			}
		}

		content, err := s.cutOut(frame, w.at, w.entry)
		if err != nil {
			return err
		}

		if err := into.keep(into.blobs, w.entry.Sum, content); err != nil {
			return err
		}
	}

	return nil
}
