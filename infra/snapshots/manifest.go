//go:build linux

package snapshots

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"everloop/domain"
	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
)

// putManifest stores the missing parts, and then the head. An existing head of the same tree is
// replaced: both are equivalent, and the new one contains the current file identities.
func (s *Store) putManifest(ctx context.Context, ses *session, t *tree) error {
	var lost error

	place := func(sum hash) location {
		at := ses.location(sum)
		if at.Length == 0 {
			lost = fmt.Errorf("content %s was not stored", sum)
		}

		return at
	}

	var parts []manifest.Part

	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(uploads)

	start := 0
	for _, end := range manifest.Cut(t.entries) {
		p := manifest.EncodePart(t.entries[start:end], place)
		start = end

		parts = append(parts, manifest.Part{Sum: p.Sum, Entries: p.Entries})
		if lost == nil && sending.Err() == nil && !ses.partKnown(p.Sum) {
			group.Go(func() error { return s.putPart(sending, ses, p) })
		}
	}

	if err := group.Wait(); err != nil {
		return err
	}

	if lost != nil {
		return lost
	}

	return s.put(ctx, ses, manifestKey(ses.id, t.sum), manifest.EncodeHead(parts))
}

func (s *Store) putPart(ctx context.Context, ses *session, p manifest.Part) error {
	if err := s.put(ctx, ses, partKey(ses.id, p.Sum), format.Compress(p.Raw)); err != nil {
		return err
	}

	ses.mu.Lock()
	defer ses.mu.Unlock()

	ses.parts[p.Sum] = struct{}{}

	return nil
}

func (s *session) partKnown(sum hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	_, known := s.parts[sum]

	return known
}

// load returns a snapshot's tree, from the cache or from the store.
func (s *Store) load(ctx context.Context, id string) (*tree, error) {
	name, sum, err := parseID(id)
	if err != nil {
		return nil, err
	}

	ses := s.session(name)
	if t := ses.remembered(sum); t != nil {
		return t, nil
	}

	head, err := s.objects.Get(ctx, manifestKey(name, sum))
	if missing(err) {
		return nil, domain.Newf(domain.NotFound, CodeNotFound, "snapshot %s does not exist", id)
	}

	if err != nil {
		return nil, err
	}

	parts, laid, err := manifest.DecodeHead(head)
	if err != nil {
		return nil, damaged(id, "", "%v", err)
	}

	lists := make([]listed, len(parts))
	group, getting := errgroup.WithContext(ctx)
	group.SetLimit(2 * uploads)

	for i, p := range parts {
		group.Go(func() error {
			list, err := s.getPart(getting, ses, id, p)
			lists[i] = list

			return err
		})
	}

	if err := group.Wait(); err != nil {
		return nil, err
	}

	t, err := join(ses, lists, laid)
	if err != nil {
		return nil, damaged(id, "", "%v", err)
	}

	if t.sum = t.identify(); t.sum != sum {
		return nil, damaged(id, "", "its manifest holds something else")
	}

	t.stored.Store(true)
	ses.know(t, parts)
	ses.remember(t)

	return t, nil
}

// listed is the content of a part: entries, and the locations of small contents in packs and in
// the head.
type listed struct {
	entries []manifest.Entry
	packed  map[hash]location
	held    map[hash]location
}

// join returns the tree of a manifest's parts. laid is the contents section of the head.
func join(ses *session, lists []listed, laid []byte) (*tree, error) {
	total := 0
	for _, list := range lists {
		total += len(list.entries)
	}

	entries := make([]manifest.Entry, 0, total)
	for _, list := range lists {
		if n := len(entries); n > 0 && len(list.entries) > 0 && list.entries[0].Path <= entries[n-1].Path {
			return nil, errors.New("its parts are out of order")
		}

		entries = append(entries, list.entries...)
	}

	t := newTree(ses, entries)
	for _, list := range lists {
		if err := t.keepContents(laid, list.held); err != nil {
			return nil, err
		}

		ses.learn(list.packed)
	}

	return t, nil
}

// getPart returns a part from the head that contains it, or from the store.
func (s *Store) getPart(ctx context.Context, ses *session, id string, p manifest.Part) (listed, error) {
	data := p.Body
	if len(data) == 0 {
		var err error

		data, err = s.objects.Get(ctx, partKey(ses.id, p.Sum))
		if missing(err) {
			return listed{}, damaged(id, "", "a part of its manifest is missing")
		}

		if err != nil {
			return listed{}, err
		}
	}

	raw, err := format.Decompress(data)
	if err != nil || sha256.Sum256(raw) != p.Sum {
		return listed{}, damaged(id, "", "a part of its manifest was changed")
	}

	list := listed{packed: map[hash]location{}, held: map[hash]location{}}

	list.entries, err = manifest.DecodePart(raw, p.Entries, func(sum hash, at location) {
		if at.Pack == (hash{}) {
			list.held[sum] = at
		} else {
			list.packed[sum] = at
		}
	})
	if err != nil {
		return listed{}, damaged(id, "", "%v", err)
	}

	return list, nil
}

// learn caches the locations of small contents.
func (s *session) learn(packed map[hash]location) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for sum, at := range packed {
		if _, known := s.blobs[sum]; !known {
			s.blobs[sum] = at
		}
	}
}

// know caches which objects a manifest proves to be in the store.
func (s *session) know(t *tree, parts []manifest.Part) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, p := range parts {
		if len(p.Body) == 0 {
			s.parts[p.Sum] = struct{}{}
		}
	}

	for i := range t.entries {
		for _, c := range t.entries[i].Chunks {
			if c.Zeros == 0 {
				s.chunks[c.Sum] = struct{}{}
			}
		}
	}
}
