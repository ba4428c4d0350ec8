//go:build linux

package snapshots

import (
	"context"
	"crypto/sha256"
	"fmt"

	"golang.org/x/sync/errgroup"

	"everloop/domain"
)

// putManifest stores the parts that the store does not have yet, and then the
// head. A head that is there already, from the same state at another time, is
// replaced: both mean the same, and the new one knows the files as they are now.
func (s *Store) putManifest(ctx context.Context, ses *session, t *tree) error {
	var lost error

	place := func(sum hash) location {
		at := ses.location(sum)
		if at.length == 0 {
			lost = fmt.Errorf("content %s was not stored", sum)
		}

		return at
	}

	var parts []part

	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(uploads)

	start := 0
	for _, end := range cut(t.entries) {
		p := encodePart(t.entries[start:end], place)
		start = end

		parts = append(parts, part{sum: p.sum, entries: p.entries})
		if lost == nil && sending.Err() == nil && !ses.partKnown(p.sum) {
			group.Go(func() error { return s.putPart(sending, ses, p) })
		}
	}

	if err := group.Wait(); err != nil {
		return err
	}

	if lost != nil {
		return lost
	}

	return s.put(ctx, ses, manifestKey(ses.id, t.sum), encodeHead(parts))
}

func (s *Store) putPart(ctx context.Context, ses *session, p part) error {
	if err := s.put(ctx, ses, partKey(ses.id, p.sum), compress(p.raw)); err != nil {
		return err
	}

	ses.mu.Lock()
	defer ses.mu.Unlock()

	ses.parts[p.sum] = struct{}{}

	return nil
}

func (s *session) partKnown(sum hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	_, known := s.parts[sum]

	return known
}

// load gives a snapshot's tree, from memory or from the store.
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

	parts, err := decodeHead(head)
	if err != nil {
		return nil, damaged(id, "", "%v", err)
	}

	lists := make([][]entry, len(parts))
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

	total := 0
	for _, list := range lists {
		total += len(list)
	}

	entries := make([]entry, 0, total)
	for _, list := range lists {
		if n := len(entries); n > 0 && len(list) > 0 && list[0].path <= entries[n-1].path {
			return nil, damaged(id, "", "its parts are out of order")
		}

		entries = append(entries, list...)
	}

	t := newTree(ses, entries)
	if t.sum = t.identify(); t.sum != sum {
		return nil, damaged(id, "", "its manifest holds something else")
	}

	t.stored.Store(true)
	ses.know(t, parts)
	ses.remember(t)

	return t, nil
}

func (s *Store) getPart(ctx context.Context, ses *session, id string, p part) ([]entry, error) {
	data, err := s.objects.Get(ctx, partKey(ses.id, p.sum))
	if missing(err) {
		return nil, damaged(id, "", "a part of its manifest is missing")
	}

	if err != nil {
		return nil, err
	}

	raw, err := decompress(data)
	if err != nil || sha256.Sum256(raw) != p.sum {
		return nil, damaged(id, "", "a part of its manifest was changed")
	}

	places := map[hash]location{}

	list, err := decodePart(raw, p.entries, func(sum hash, at location) { places[sum] = at })
	if err != nil {
		return nil, damaged(id, "", "%v", err)
	}

	ses.mu.Lock()
	defer ses.mu.Unlock()

	for sum, at := range places {
		if _, known := ses.blobs[sum]; !known {
			ses.blobs[sum] = at
		}
	}

	return list, nil
}

// know takes over what a manifest shows to be in the store.
func (s *session) know(t *tree, parts []part) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, p := range parts {
		s.parts[p.sum] = struct{}{}
	}

	for i := range t.entries {
		for _, c := range t.entries[i].chunks {
			if c.zeros == 0 {
				s.chunks[c.sum] = struct{}{}
			}
		}
	}
}
