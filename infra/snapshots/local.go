//go:build linux

package snapshots

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"strings"

	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
)

// local contains the chunks of large files that are available in the workspace, so that only the
// others are fetched: by path, the chunks at the same index in both.
type local map[string]map[int64]hash

// find adds the chunks that a large file of the snapshot shares with the current file at its
// path.
func (l local) find(f *found, e *manifest.Entry) {
	if f.Kind != manifest.File || f.Chunks == nil || e.Chunks == nil {
		return
	}

	has := map[int64]hash{}
	for index, sum := range format.DataOf(f.Chunks) {
		has[index] = sum
	}

	shared := map[int64]hash{}

	for index, sum := range format.DataOf(e.Chunks) {
		if has[index] == sum {
			shared[index] = sum
		}
	}

	if len(shared) > 0 {
		l[e.Path] = shared
	}
}

func (l local) holds(e *manifest.Entry, index int64) bool {
	_, holds := l[e.Path][index]
	return holds
}

// openLocal opens the file to copy a large file's chunks from; nil: none.
func (r *restorer) openLocal(dir int, e *manifest.Entry) (*os.File, error) {
	if len(r.local[e.Path]) == 0 {
		return nil, nil
	}

	f, _, err := beneath.OpenFile(dir, e.Path[strings.LastIndexByte(e.Path, '/')+1:], false) // data verifies the chunks that it reads

	return f, err
}

// data returns one chunk of a large file, in buf.
func (r *restorer) data(old *os.File, e *manifest.Entry, index int64, sum hash, buf []byte) ([]byte, error) {
	if !r.local.holds(e, index) {
		return r.contents.spool.Read(r.contents.chunks[sum], buf)
	}

	buf = buf[:format.ChunkLength(index, e.Identity.Size)]

	n, err := old.ReadAt(buf, index*chunkSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	if n < len(buf) || sha256.Sum256(buf) != sum {
		return nil, beneath.ErrAltered
	}

	return buf, nil
}
