//go:build linux

package snapshots

import (
	"context"
	"strings"
)

// Change is one path that two snapshots have differently.
type Change struct {
	Path   string // bytes as they are in the workspace, not always UTF-8
	Type   Type   // of what is there now; of something deleted, of what was there
	Change string // created, modified or deleted
	Size   int64  // bytes, of a file that is there now; else 0
}

// Words of Change.
const (
	Created  = "created"
	Modified = "modified"
	Deleted  = "deleted"
)

// Diff reports the changes from snapshot a to snapshot b, by path. "" is the empty
// snapshot. Times do not count; modes do. Directories are reported like files.
func (s *Store) Diff(ctx context.Context, a, b string) ([]Change, error) {
	if a == b {
		return nil, nil
	}

	var trees [2][]entry

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

	var out []Change

	report := func(e *entry, what string) {
		if e.kind.opaque() {
			return
		}

		c := Change{Path: e.path, Type: e.kind.public(), Change: what}
		if what != Deleted {
			c.Size = e.size()
		}

		out = append(out, c)
	}

	before, after := trees[0], trees[1]
	for len(before) > 0 || len(after) > 0 {
		order := -1

		switch {
		case len(before) == 0:
			order = 1
		case len(after) > 0:
			order = strings.Compare(before[0].path, after[0].path)
		}

		switch {
		case order < 0:
			report(&before[0], Deleted)
			before = before[1:]
		case order > 0:
			report(&after[0], Created)
			after = after[1:]
		default:
			differ(&before[0], &after[0], report)
			before, after = before[1:], after[1:]
		}
	}

	return out, nil
}

// differ reports the change of one path.
func differ(before, after *entry, report func(*entry, string)) {
	switch {
	case before.same(after):
	case after.kind.opaque():
		report(before, Deleted)
	case before.kind.opaque():
		report(after, Created)
	default:
		report(after, Modified)
	}
}
