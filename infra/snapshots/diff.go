//go:build linux

package snapshots

import (
	"context"
	"strings"

	"everloop/infra/snapshots/manifest"
)

// Change is a path that differs between two snapshots.
type Change struct {
	Path   string // bytes of the workspace, not always UTF-8
	Type   Type   // of the current entry; of a deletion, of the deleted entry
	Change string // created, modified or deleted
	Size   int64  // bytes, of the current file; else 0
	// TypeBefore and SizeBefore describe the previous entry; "" and 0: none.
	TypeBefore Type
	SizeBefore int64
}

// Values of Change.
const (
	Created  = "created"
	Modified = "modified"
	Deleted  = "deleted"
)

// Diff returns the changes from snapshot a to snapshot b, by path. "" is the empty snapshot. It
// compares modes, but not times. Directories are included.
func (s *Store) Diff(ctx context.Context, a, b string) ([]Change, error) {
	if a == b {
		return nil, nil
	}

	var trees [2][]manifest.Entry

	for i, id := range [...]string{a, b} {
		if id == "" {
			continue
		}

		t, err := s.load(ctx, id)
		if err != nil {
			return nil, err
		}

		trees[i] = t.entries
	}

	return differences(trees[0], trees[1]), nil
}

// differences compares two lists of entries that are sorted by path.
func differences(before, after []manifest.Entry) []Change {
	var out []Change

	report := func(was, is *manifest.Entry, what string) {
		c := Change{Change: what}

		if was != nil {
			c.Path, c.Type = was.Path, typeOf(was.Kind)
			c.TypeBefore, c.SizeBefore = c.Type, was.Size()
		}

		if is != nil {
			c.Path, c.Type, c.Size = is.Path, typeOf(is.Kind), is.Size()
		}

		out = append(out, c)
	}

	for len(before) > 0 || len(after) > 0 {
		order := -1

		switch {
		case len(before) == 0:
			order = 1
		case len(after) > 0:
			order = strings.Compare(before[0].Path, after[0].Path)
		}

		var was, is *manifest.Entry
		if order <= 0 {
			was, before = &before[0], before[1:]
		}

		if order >= 0 {
			is, after = &after[0], after[1:]
		}

		differ(visible(was), visible(is), report)
	}

	return out
}

// visible returns nil for an entry without type and content.
func visible(e *manifest.Entry) *manifest.Entry {
	if e == nil || e.Kind.Opaque() {
		return nil
	}

	return e
}

// differ reports the change of one path.
func differ(was, is *manifest.Entry, report func(was, is *manifest.Entry, what string)) {
	switch {
	case was == nil && is == nil:
	case was == nil:
		report(nil, is, Created)
	case is == nil:
		report(was, nil, Deleted)
	case !was.Same(is):
		report(was, is, Modified)
	}
}
