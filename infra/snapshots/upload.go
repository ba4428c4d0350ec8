//go:build linux

package snapshots

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
	"everloop/infra/snapshots/spool"
)

// uploads is the maximum number of concurrent uploads. Each takes up to 16 MiB of memory.
const uploads = 4

// Finish stores the contents of Begin, the manifest last. It can be retried after an error:
// acknowledged objects are not sent again. Without changes it writes nothing, and the id is the
// previous snapshot's.
func (p *Pending) Finish(ctx context.Context) (Snapshot, error) {
	if p.tree == nil || p.tree.stored.Load() {
		p.Discard()
		return p.snapshot, nil
	}

	unlock, err := p.ses.lock(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer unlock()

	before := p.ses.written.Load()
	err = p.finish(ctx)
	p.snapshot.Stored += p.ses.written.Load() - before // includes failed attempts

	if err != nil {
		return Snapshot{}, err
	}

	p.Discard()

	return p.snapshot, nil
}

// finish stores the contents and the manifest: as one object when compact succeeds, otherwise as
// packs, parts and a head.
func (p *Pending) finish(ctx context.Context) error {
	list, fits, err := p.unpacked()

	var head []byte
	if fits {
		head = p.store.compact(p.ses, p.tree, list)
	}

	if err == nil {
		err = p.store.putContents(ctx, p, head == nil)
	}

	if err != nil {
		return fmt.Errorf("store the files of a snapshot: %w", err)
	}

	if head != nil {
		err = p.store.putCompact(ctx, p.ses, p.tree, head, list)
	} else {
		err = p.store.putManifest(ctx, p.ses, p.tree)
	}

	if err != nil {
		return fmt.Errorf("store the manifest of a snapshot: %w", err)
	}

	p.tree.stored.Store(true)
	p.ses.remember(p.tree)

	return nil
}

// put stores an object of a session and counts it.
func (s *Store) put(ctx context.Context, ses *session, key string, data []byte) error {
	err := s.objects.Put(ctx, key, data)
	if err == nil {
		ses.written.Add(int64(len(data)))
	}

	return err
}

// putContents stores the contents that are not in the store: chunks of large files, and with
// packed also the small files.
func (s *Store) putContents(ctx context.Context, p *Pending, packed bool) error {
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(uploads)

	var full format.Packer

	sent := map[hash]bool{}

	for i := range p.tree.entries {
		e := &p.tree.entries[i]
		if e.Kind != manifest.File || sending.Err() != nil {
			continue
		}

		for _, c := range e.Chunks {
			at, here := p.chunks[c.Sum]
			if c.Zeros > 0 || !here || sent[c.Sum] || p.ses.chunkKnown(c.Sum) {
				continue
			}

			sent[c.Sum] = true

			group.Go(func() error { return s.putChunk(sending, p, c.Sum, at) })
		}

		if !packed || e.Chunks != nil || e.Identity.Size == 0 || sent[e.Sum] || p.ses.blobKnown(e.Sum) {
			continue
		}

		sent[e.Sum] = true

		content, err := p.content(e.Sum)
		if err != nil {
			return abandon(group, err)
		}

		if ready := full.Add(e.Sum, content); ready != nil {
			group.Go(func() error { return s.putPack(sending, p.ses, ready) })
		}
	}

	if ready := full.Finish(); ready != nil {
		group.Go(func() error { return s.putPack(sending, p.ses, ready) })
	}

	if err := group.Wait(); err != nil {
		return err
	}

	return ctx.Err()
}

// abandon waits for the group and returns the error that cancelled it.
func abandon(group *errgroup.Group, err error) error {
	group.Go(func() error { return err })
	return group.Wait()
}

func (s *Store) putChunk(ctx context.Context, p *Pending, sum hash, at spool.Extent) error {
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)

	data, err := p.spool.Read(at, *pooled)
	if err != nil {
		return err
	}

	return s.putChunkData(ctx, p.ses, sum, data)
}

func (s *Store) putChunkData(ctx context.Context, ses *session, sum hash, data []byte) error {
	out := buffers.Get().(*[]byte)
	defer buffers.Put(out)

	if err := s.put(ctx, ses, chunkKey(ses.id, sum), format.Encoder().EncodeAll(data, (*out)[:0])); err != nil {
		return err
	}

	ses.mu.Lock()
	defer ses.mu.Unlock()

	ses.chunks[sum] = struct{}{}

	return nil
}

func (s *Store) putPack(ctx context.Context, ses *session, ready *format.Pack) error {
	if err := s.put(ctx, ses, packKey(ses.id, ready.Name), ready.Data); err != nil {
		return err
	}

	ses.mu.Lock()
	defer ses.mu.Unlock()

	for sum, at := range ready.Holds {
		ses.blobs[sum] = at
	}

	return nil
}
