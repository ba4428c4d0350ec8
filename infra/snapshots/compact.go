//go:build linux

package snapshots

import (
	"context"
	"crypto/sha256"
	"fmt"

	"everloop/infra/snapshots/format"
	"everloop/infra/snapshots/manifest"
)

// A snapshot with few changes is one object: its manifest contains the parts that are not in the
// store, and the small contents that are in no pack. The manifest contains all such contents of
// its tree, so no other manifest refers to them, and another manifest of the same tree can
// replace it. When they exceed the limit, they are moved to a pack.
const (
	// compactContents is the maximum size of the contents in a manifest, in bytes before
	// compression.
	compactContents = 32 << 10
	// compactParts is the maximum size of the parts in a manifest, in bytes after compression.
	compactParts = 256 << 10
)

// contents are small contents by their hashes.
type contents map[hash][]byte

// unpacked returns the small contents that are in no pack. fits is false when they exceed the
// limit of a manifest.
func (p *Pending) unpacked() (list contents, fits bool, err error) {
	list = contents{}
	room := p.store.compactContents

	for i := range p.tree.entries {
		e := &p.tree.entries[i]
		if _, here := list[e.Sum]; here || e.Kind != manifest.File || e.Chunks != nil || e.Identity.Size == 0 || p.ses.blobKnown(e.Sum) {
			continue
		}

		if room -= e.Identity.Size; room < 0 {
			return nil, false, nil
		}

		if list[e.Sum], err = p.content(e.Sum); err != nil {
			return nil, false, err
		}
	}

	return list, true, nil
}

// content returns a small content that is in no pack: from the manifest of the base tree, or from
// the spool.
func (p *Pending) content(sum hash) ([]byte, error) {
	if content, here := p.base.content(sum); here {
		return content, nil
	}

	p.mu.Lock()
	at, here := p.blobs[sum]
	p.mu.Unlock()

	if !here {
		return nil, fmt.Errorf("content %s was not stored", sum)
	}

	return p.spool.Read(at, nil)
}

// content returns a content that is stored in the tree's manifest. A nil tree has none.
func (t *tree) content(sum hash) (content []byte, here bool) {
	if t == nil {
		return nil, false
	}

	content, here = t.contents[sum]

	return content, here
}

// compact encodes the manifest of a tree as one object, including the contents that are in no
// pack. It returns nil when the parts are too large or a content is missing.
func (s *Store) compact(ses *session, t *tree, list contents) []byte {
	laid, places := layOut(t, list)
	missing, size := false, 0
	place := func(sum hash) location {
		at, here := places[sum]
		if !here {
			at = ses.location(sum)
		}

		missing = missing || at.Length == 0

		return at
	}

	var parts []manifest.Part

	start := 0
	for _, end := range manifest.Cut(t.entries) {
		p := manifest.EncodePart(t.entries[start:end], place)
		start = end

		if !ses.partKnown(p.Sum) {
			p.Body = format.Compress(p.Raw)
			size += len(p.Body)
		}

		if missing || size > s.compactParts {
			return nil
		}

		p.Raw = nil
		parts = append(parts, p)
	}

	return manifest.EncodeCompact(parts, laid)
}

// layOut concatenates contents in the order of their paths. Their locations have a zero pack,
// which means the manifest.
func layOut(t *tree, list contents) (laid []byte, places map[hash]location) {
	places = make(map[hash]location, len(list))

	for i := range t.entries {
		sum := t.entries[i].Sum

		content, here := list[sum]
		if _, placed := places[sum]; placed || !here {
			continue
		}

		places[sum] = location{Offset: uint32(len(laid)), Length: uint32(len(content))}
		laid = append(laid, content...)
	}

	return laid, places
}

// putCompact stores a manifest that compact wrote.
func (s *Store) putCompact(ctx context.Context, ses *session, t *tree, head []byte, list contents) error {
	if err := s.put(ctx, ses, manifestKey(ses.id, t.sum), head); err != nil {
		return err
	}

	t.contents = list

	return nil
}

// keepContents sets the tree's contents from the contents section of its manifest. It returns
// manifest.ErrFormat when a hash does not match.
func (t *tree) keepContents(laid []byte, places map[hash]location) error {
	for sum, at := range places {
		end := int64(at.Offset) + int64(at.Length)
		if end > int64(len(laid)) || sha256.Sum256(laid[at.Offset:end]) != sum {
			return manifest.ErrFormat
		}

		if t.contents == nil {
			t.contents = contents{}
		}

		t.contents[sum] = laid[at.Offset:end:end]
	}

	return nil
}
