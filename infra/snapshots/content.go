//go:build linux

package snapshots

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
	"everloop/internal/sharedfs"
)

// readTries is the maximum number of reads of a changing file.
const readTries = 3

// sink receives contents: it spools them for storing, or discards them when only hashes are
// needed.
type sink interface {
	small(sum hash, data []byte) error
	chunk(sum hash, data []byte) error
}

// discard is the sink for hashing only.
type discard struct{}

func (discard) small(hash, []byte) error { return nil }
func (discard) chunk(hash, []byte) error { return nil }

// reader hashes the files of a workspace.
type reader struct {
	ctx  context.Context
	sink sink
	// quiet is a Unix time in nanoseconds. The identity of a file with a later change is not
	// trusted.
	quiet int64
	fresh bool // as in walker

	mu       sync.Mutex
	unstable bool // a file changed each time it was read
}

// pageSize is the size of the buffers for small files.
const pageSize = 64 << 10

// buffers are for chunks, raw or compressed; pages for small files.
var (
	buffers = sync.Pool{New: func() any { b := make([]byte, chunkSize+chunkSize/64); return &b }}
	pages   = sync.Pool{New: func() any { b := make([]byte, pageSize); return &b }}
)

// buffersFor returns the pool with buffers for a small file of that size.
func buffersFor(size int64) *sync.Pool {
	if size <= pageSize {
		return &pages
	}

	return &buffers
}

// read sets a file's hash, chunks and identity. A file that changes while it is read is read
// again; the last attempt is accepted as it is.
func (r *reader) read(dir int, name string, f *found) error {
	for try := 1; ; try++ {
		file, before, err := beneath.OpenFile(dir, name, r.fresh)
		if err != nil {
			return err
		}

		after, err := r.once(file, &before, f)
		_ = file.Close()

		if err != nil {
			return err
		}

		f.Mode = uint16(after.Mode & 0o777)
		if manifest.IdentityOf(&before) == manifest.IdentityOf(&after) && f.Identity.Size == after.Size {
			f.Identity = manifest.IdentityOf(&after)
			f.Trusted = f.Identity.CTime < r.quiet

			return nil
		}

		if try == readTries {
			f.Identity.MTime, f.Trusted = after.Mtim.Nano(), false

			r.mu.Lock()
			r.unstable = true
			r.mu.Unlock()

			return nil
		}
	}
}

// once reads the current content. The size is the number of bytes read: a file can grow and
// shrink in the meantime.
func (r *reader) once(file *os.File, st *unix.Stat_t, f *found) (after unix.Stat_t, err error) {
	f.Sum, f.Chunks, f.Identity = hash{}, nil, manifest.IdentityOf(st)
	if st.Size <= smallLimit {
		err = r.small(file, f)
	} else {
		err = r.large(file, st.Size, f)
	}

	if err == nil {
		err = sharedfs.Stat(int(file.Fd()), "", &after, r.fresh)
	}

	return after, err
}

func (r *reader) small(file *os.File, f *found) error {
	if f.Identity.Size == 0 {
		return nil
	}

	pool := buffersFor(f.Identity.Size)

	pooled := pool.Get().(*[]byte)
	defer pool.Put(pooled)

	n, err := io.ReadFull(file, (*pooled)[:f.Identity.Size])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}

	f.Identity.Size = int64(n)
	if n == 0 {
		return nil
	}

	f.Sum = sha256.Sum256((*pooled)[:n])

	return r.sink.small(f.Sum, (*pooled)[:n])
}

// large reads a file in chunks, several concurrently, and skips its holes.
func (r *reader) large(file *os.File, size int64, f *found) error {
	plan, err := dataChunks(int(file.Fd()), size)
	if err != nil {
		return err
	}

	sums := make([]hash, len(plan)) // zero: only zeros
	group, ctx := errgroup.WithContext(r.ctx)
	group.SetLimit(2)

	for i, index := range plan {
		if ctx.Err() != nil {
			break
		}

		group.Go(func() error {
			sum, err := r.chunk(file, index, size)
			sums[i] = sum

			return err
		})
	}

	if err := errors.Join(group.Wait(), r.ctx.Err()); err != nil {
		return err
	}

	var runs []run

	next := int64(0)
	for i, index := range plan {
		runs = format.AppendZeros(runs, index-next)

		if next = index + 1; sums[i] == (hash{}) {
			runs = format.AppendZeros(runs, 1)
		} else {
			runs = append(runs, run{Sum: sums[i]})
		}
	}

	runs = format.AppendZeros(runs, format.ChunksOf(size)-next)
	f.Identity.Size, f.Chunks, f.Sum = size, runs, format.SumOfChunks(size, runs)

	return nil
}

// dataChunks returns the indexes of chunks with data.
func dataChunks(fd int, size int64) ([]int64, error) {
	var list []int64

	for at := int64(0); at < size; {
		data, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // a hole up to the end
			break
		}

		if err != nil {
			data = at // the file system does not support SEEK_DATA
		}

		index := data / chunkSize
		if index >= format.ChunksOf(size) { // it grew
			break
		}

		list = append(list, index)
		at = (index + 1) * chunkSize
	}

	return list, nil
}

// chunk reads one chunk. When the file was truncated in the meantime, the missing end counts as
// zeros; the check after reading detects the change.
func (r *reader) chunk(file *os.File, index, size int64) (hash, error) {
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)

	data := (*pooled)[:format.ChunkLength(index, size)]

	n, err := file.ReadAt(data, index*chunkSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return hash{}, err
	}

	clear(data[n:])

	if format.IsZero(data) {
		return hash{}, nil
	}

	sum := hash(sha256.Sum256(data))

	return sum, r.sink.chunk(sum, data)
}
