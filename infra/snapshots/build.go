//go:build linux

package snapshots

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"everloop/domain"
	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
)

// BuildEntry is one entry of a snapshot from a Builder.
type BuildEntry struct {
	Path    string
	Type    Type
	Mode    fs.FileMode // of a file
	Size    int64       // of a file, in bytes
	Content string      // of a file: the argument of Open; equal contents have equal names
	Target  string      // of a link
}

// Builder creates snapshots of a session from contents outside a workspace. Each content is read
// and stored once, regardless of the number of entries with it. It is not safe for concurrent
// use.
type Builder struct {
	store    *Store
	ses      *session
	open     func(content string) (io.ReadCloser, error)
	contents map[string]manifest.Entry // size, sum and chunks by name
	packed   format.Packer
	at       int64 // modification time of all entries, in Unix nanoseconds
}

// NewBuilder returns a new Builder for a session. open returns a reader of a content, which is
// read to its end.
func (s *Store) NewBuilder(sessionID domain.SessionID, open func(content string) (io.ReadCloser, error)) (*Builder, error) {
	if err := checkSession(sessionID); err != nil {
		return nil, err
	}

	return &Builder{store: s, ses: s.session(sessionID), open: open, contents: map[string]manifest.Entry{}, at: time.Now().UnixNano()}, nil
}

// Build creates a snapshot of entries and returns its id. It adds missing parent directories and
// skips the paths that a capture skips.
func (b *Builder) Build(ctx context.Context, list []BuildEntry) (id string, err error) {
	unlock, err := b.ses.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()

	entries, err := b.entries(ctx, list)
	if err != nil {
		return "", err
	}

	if ready := b.packed.Finish(); ready != nil {
		if err := b.store.putPack(ctx, b.ses, ready); err != nil {
			return "", fmt.Errorf("store the files of a snapshot: %w", err)
		}
	}

	t := newTree(b.ses, entries)

	t.sum = t.identify()
	if head := b.store.compact(b.ses, t, nil); head != nil {
		err = b.store.putCompact(ctx, b.ses, t, head, nil)
	} else {
		err = b.store.putManifest(ctx, b.ses, t)
	}

	if err != nil {
		return "", fmt.Errorf("store the manifest of a snapshot: %w", err)
	}

	return makeID(b.ses.id, t.sum), nil
}

// entries reads the contents and returns the entries of the tree by path.
func (b *Builder) entries(ctx context.Context, list []BuildEntry) ([]manifest.Entry, error) {
	out := make([]manifest.Entry, 0, len(list))
	dirs := map[string]bool{".": true}
	directory := func(path string) {
		for ; !dirs[path]; path = parentOf(path) {
			dirs[path] = true
			out = append(out, manifest.Entry{Path: path, Kind: manifest.Directory, Mode: 0o755, Identity: manifest.Identity{MTime: b.at}})
		}
	}

	for _, in := range list {
		if leftOut(in.Path) {
			continue
		}

		if len(out) >= b.store.most {
			return nil, domain.Newf(domain.TooLarge, CodeTooMany, "a snapshot has more than %d files and directories", b.store.most)
		}

		directory(parentOf(in.Path))

		switch in.Type {
		case Directory:
			directory(in.Path)
		case Link:
			out = append(
				out,
				manifest.Entry{Path: in.Path, Kind: manifest.Link, Target: in.Target, Identity: manifest.Identity{MTime: b.at}},
			)
		default:
			e, err := b.content(ctx, in)
			if err != nil {
				return nil, err
			}

			e.Path, e.Kind, e.Mode, e.Identity.MTime = in.Path, manifest.File, uint16(in.Mode.Perm()), b.at
			out = append(out, e)
		}
	}

	slices.SortFunc(out, func(a, b manifest.Entry) int { return strings.Compare(a.Path, b.Path) })

	return out, nil
}

// leftOut reports whether a capture would skip the path.
func leftOut(path string) bool {
	if path == manifest.ServiceDir || strings.HasPrefix(path, manifest.ServiceDir+"/") {
		return true
	}

	for name := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(name, writingPrefix) {
			return true
		}
	}

	return false
}

// content reads and stores the content of a file, once per name.
func (b *Builder) content(ctx context.Context, in BuildEntry) (manifest.Entry, error) {
	if known, found := b.contents[in.Content]; found {
		return known, nil
	}

	e := manifest.Entry{Identity: manifest.Identity{Size: in.Size}}
	if in.Size == 0 {
		return e, nil
	}

	content, err := b.open(in.Content)
	if err != nil {
		return e, err
	}
	defer content.Close()

	if in.Size <= smallLimit {
		err = b.small(ctx, &e, content)
	} else {
		err = b.large(ctx, &e, content)
	}

	if err == nil {
		b.contents[in.Content] = e
	}

	return e, err
}

func (b *Builder) small(ctx context.Context, e *manifest.Entry, content io.Reader) error {
	pool := buffersFor(e.Identity.Size)

	pooled := pool.Get().(*[]byte)
	defer pool.Put(pooled)

	data := (*pooled)[:e.Identity.Size]
	if _, err := io.ReadFull(content, data); err != nil {
		return err
	}

	e.Sum = sha256.Sum256(data)
	if b.ses.blobKnown(e.Sum) {
		return nil
	}

	ready := b.packed.Add(e.Sum, data)
	if ready == nil {
		return nil
	}

	return b.store.putPack(ctx, b.ses, ready)
}

// large stores a content in chunks, several concurrently.
func (b *Builder) large(ctx context.Context, e *manifest.Entry, content io.Reader) error {
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(uploads)

	for index := range format.ChunksOf(e.Identity.Size) {
		pooled := buffers.Get().(*[]byte)

		data := (*pooled)[:format.ChunkLength(index, e.Identity.Size)]
		if _, err := io.ReadFull(content, data); err != nil {
			return abandon(group, err)
		}

		if format.IsZero(data) {
			buffers.Put(pooled)

			e.Chunks = format.AppendZeros(e.Chunks, 1)

			continue
		}

		sum := hash(sha256.Sum256(data))

		e.Chunks = append(e.Chunks, run{Sum: sum})
		if b.ses.chunkKnown(sum) {
			buffers.Put(pooled)
			continue
		}

		if sending.Err() != nil {
			break
		}

		group.Go(func() error {
			defer buffers.Put(pooled)
			return b.store.putChunkData(sending, b.ses, sum, data)
		})
	}

	e.Sum = format.SumOfChunks(e.Identity.Size, e.Chunks)

	return errors.Join(group.Wait(), ctx.Err())
}
