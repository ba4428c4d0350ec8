//go:build linux

package snapshots

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"everloop/domain"
	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
)

// View reads one snapshot. It is safe for concurrent use. Files that are opened in the order of
// Walk share requests.
type View struct {
	source source

	mu     sync.Mutex
	frames []keptFrame // the most recently used last
}

type keptFrame struct {
	pack  hash
	frame uint32
	raw   []byte
}

// keptFrames is the number of cached frames of a View, each of up to 4 MiB.
const keptFrames = 4

// View opens a snapshot for reading.
func (s *Store) View(ctx context.Context, snapshotID string) (*View, error) {
	t, err := s.load(ctx, snapshotID)
	if err != nil {
		return nil, err
	}

	return &View{source: source{store: s, id: snapshotID, tree: t}}, nil
}

// Walk visits all entries of a snapshot by path, a directory before its children, until visit
// returns an error.
func (s *Store) Walk(ctx context.Context, snapshotID string, visit func(Info) error) error {
	v, err := s.View(ctx, snapshotID)
	if err != nil {
		return err
	}

	return v.Walk(visit)
}

// Open opens a file of a snapshot. See View.Open.
func (s *Store) Open(ctx context.Context, snapshotID, path string) (io.ReadSeekCloser, Info, error) {
	v, err := s.View(ctx, snapshotID)
	if err != nil {
		return nil, Info{}, err
	}

	return v.Open(ctx, path)
}

// Walk visits all entries by path, a directory before its children, until visit returns an error.
func (v *View) Walk(visit func(Info) error) error {
	entries := v.source.tree.entries
	for i := range entries {
		if entries[i].Kind.Opaque() {
			continue
		}

		if err := visit(infoOf(&entries[i])); err != nil {
			return err
		}
	}

	return nil
}

// Stat returns the entry of a path, in the form of Walk.
func (v *View) Stat(path string) (Info, error) {
	e := v.source.tree.at(path)
	if e == nil || e.Kind.Opaque() {
		return Info{}, domain.Newf(domain.NotFound, domain.CodeFileNotFound, "%s is not in the snapshot", shown(path))
	}

	return infoOf(e), nil
}

// Open opens a file by its path, in the form of Walk. All data is verified: a changed content
// ends the reading with an error. ctx must stay valid while the file is read.
func (v *View) Open(ctx context.Context, path string) (io.ReadSeekCloser, Info, error) {
	info, err := v.Stat(path)
	if err != nil {
		return nil, Info{}, err
	}

	e := v.source.tree.at(path)
	switch {
	case e.Kind != manifest.File:
		return nil, info, domain.Newf(domain.Invalid, CodeNotRegular, "%s is not a regular file", shown(path))
	case e.Chunks != nil:
		return &chunkReader{ctx: ctx, source: &v.source, entry: e}, info, nil
	case e.Identity.Size == 0:
		return smallContent{bytes.NewReader(nil)}, info, nil
	}

	if content, here := v.source.tree.content(e.Sum); here {
		return smallContent{bytes.NewReader(content)}, info, nil
	}

	at := v.source.tree.home.location(e.Sum)

	frame, err := v.frame(ctx, at, path)
	if err != nil {
		return nil, info, err
	}

	content, err := v.source.cutOut(frame, at, e)
	if err != nil {
		return nil, info, err
	}

	return smallContent{bytes.NewReader(content)}, info, nil
}

// smallContent is a small file, which is in memory.
type smallContent struct{ *bytes.Reader }

// Close implements io.Closer.
func (smallContent) Close() error { return nil }

// frame returns a decompressed frame of a pack. The View caches the last keptFrames.
func (v *View) frame(ctx context.Context, at location, path string) ([]byte, error) {
	v.mu.Lock()
	for i, f := range v.frames {
		if f.pack == at.Pack && f.frame == at.Frame {
			v.frames = append(slices.Delete(v.frames, i, i+1), f)
			v.mu.Unlock()

			return f.raw, nil
		}
	}
	v.mu.Unlock()

	raw, err := v.source.frame(ctx, at, path)
	if err != nil {
		return nil, err
	}

	v.mu.Lock()
	defer v.mu.Unlock()

	if len(v.frames) == keptFrames {
		v.frames = slices.Delete(v.frames, 0, 1)
	}

	v.frames = append(v.frames, keptFrame{at.Pack, at.Frame, raw})

	return raw, nil
}

// chunkReader reads a large file chunk by chunk.
type chunkReader struct {
	ctx    context.Context
	source *source
	entry  *manifest.Entry

	at    int64  // offset in the file, bytes
	next  int    // index of the run after zeros and data
	zeros int64  // remaining bytes of zeros before data
	data  []byte // remaining bytes of a chunk
	skip  int64  // bytes to skip at the start of the next chunk
}

// Read implements io.Reader.
func (r *chunkReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}

	if err := r.ctx.Err(); err != nil {
		return 0, err
	}

	if len(r.data) == 0 && r.zeros == 0 {
		if r.next == len(r.entry.Chunks) {
			return 0, io.EOF
		}

		c := r.entry.Chunks[r.next]
		if c.Zeros > 0 {
			r.zeros = r.lengthOf(c, r.at)
		} else {
			data, err := r.source.chunk(r.ctx, c.Sum, format.ChunkLength(r.at/chunkSize, r.entry.Identity.Size), r.entry.Path)
			if err != nil {
				return 0, err
			}

			r.data, r.skip = data[r.skip:], 0
		}

		r.next++
	}

	var n int
	if r.zeros > 0 {
		n = int(min(int64(len(p)), r.zeros))
		clear(p[:n])
		r.zeros -= int64(n)
	} else {
		n = copy(p, r.data)
		r.data = r.data[n:]
	}

	r.at += int64(n)

	return n, nil
}

// lengthOf returns the length in bytes of a run that starts at an offset.
func (r *chunkReader) lengthOf(c run, at int64) int64 {
	left := r.entry.Identity.Size - at
	if chunks := max(c.Zeros, 1); chunks <= left/chunkSize {
		return chunks * chunkSize
	}

	return left
}

// Seek implements io.Seeker. Skipped data is not fetched.
func (r *chunkReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.entry.Identity.Size
	}

	if offset < 0 {
		return r.at, errors.New("snapshots: seek before the beginning of a file")
	}

	r.data, r.zeros, r.skip = nil, 0, 0
	begin := int64(0)

	for r.next = 0; r.next < len(r.entry.Chunks); r.next++ {
		c := r.entry.Chunks[r.next]

		length := r.lengthOf(c, begin)
		if offset >= begin+length {
			begin += length
			continue
		}

		if c.Zeros > 0 {
			r.zeros = begin + length - offset
			r.next++
		} else {
			r.skip = offset - begin
		}

		break
	}

	r.at = offset

	return offset, nil
}

// Close implements io.Closer.
func (r *chunkReader) Close() error {
	r.next, r.data, r.zeros = len(r.entry.Chunks), nil, 0
	return nil
}
