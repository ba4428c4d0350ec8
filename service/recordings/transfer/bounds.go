package transfer

import (
	"cmp"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/internal/safezip"
)

// fits checks that the workspace of the session can hold its files, and sums up what
// the archive expands to.
func (p *pack) fits() error {
	var bytes int64

	for name, m := range p.listed {
		if p.expanded += m.Size; strings.HasPrefix(name, workspaceDir) {
			bytes += m.Size
		}
	}

	return p.bounded("the files of the workspace", bytes)
}

// From copiesFrom bytes on, the files of a snapshot may not be both larger than the
// archive by more than its ratio and larger than what it expands to by more than
// maxCopies: that many copies of one content are a bomb.
const (
	copiesFrom = 256 << 20
	maxCopies  = 8
)

// bounded checks the size of files that a workspace is to hold at one time.
func (p *pack) bounded(what string, bytes int64) error {
	switch {
	case bytes > limits.Expanded:
		return expands("%s take more than %d bytes", what, limits.Expanded)
	case p.room > 0 && bytes > p.room:
		return expands("%s take %d bytes; a workspace may hold %d", what, bytes, p.room)
	case bytes > copiesFrom && bytes/limits.Ratio > p.size && bytes/maxCopies > p.expanded:
		return expands("%s are larger than the archive by more than %d to 1", what, limits.Ratio)
	}

	return nil
}

func expands(format string, args ...any) *domain.Error {
	return domain.Newf(domain.Invalid, string(safezip.Expands), format, args...)
}

// placed is a name in a tree; a leaf may have nothing below it.
type placed struct {
	path string
	leaf bool
}

// arrange sorts names and refuses those that come twice or lie below a leaf. It
// returns how many entries the tree has, with the directories that names need.
func arrange(names []placed) (entries int, err error) {
	slices.SortFunc(names, func(a, b placed) int { return comparePaths(a.path, b.path) })

	var before placed
	for _, n := range names {
		if n.path == before.path {
			return 0, badf("%q is listed twice", shorten(n.path))
		}

		if before.leaf && strings.HasPrefix(n.path, before.path+"/") {
			return 0, badf("%q lies below what is not a directory", shorten(n.path))
		}

		entries += 1 + strings.Count(n.path[sharedDirectories(before.path, n.path):], "/")
		before = n
	}

	return entries, nil
}

// comparePaths orders paths so that what lies below a name comes right behind it.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}

	return cmp.Compare(len(a), len(b))
}

// sharedDirectories gives the length of the directories that both paths start with;
// before may be one of them itself.
func sharedDirectories(before, path string) int {
	n := 0

	for i := range len(path) {
		if i == len(before) && path[i] == '/' {
			return i + 1
		}

		if i >= len(before) || before[i] != path[i] {
			return n
		}

		if path[i] == '/' {
			n = i + 1
		}
	}

	return n
}
