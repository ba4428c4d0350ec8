package transfer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// stage is a directory that shows one snapshot after the other; only what
// differs is written.
type stage struct {
	root *os.Root
	has  map[string]snapshotFile
}

// show makes the directory what the snapshot was. Nothing in it belongs to
// anybody else, and the root keeps every path inside.
func (s *stage) show(next snapshot, content func(sum string) (io.ReadCloser, error)) error {
	wanted := make(map[string]snapshotFile, len(next.Files))
	for _, f := range next.Files {
		wanted[f.Path] = f
	}
	var gone []string
	for at, f := range s.has {
		if w, stays := wanted[at]; !stays || w.Type != f.Type || f.Type != typeDirectory && w != f {
			gone = append(gone, at)
		}
	}
	slices.Sort(gone)
	slices.Reverse(gone) // what is in a directory before it
	for _, at := range gone {
		if err := s.root.RemoveAll(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for other := range s.has {
			if other == at || strings.HasPrefix(other, at+"/") {
				delete(s.has, other)
			}
		}
	}
	slices.SortFunc(next.Files, func(a, b snapshotFile) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range next.Files {
		if _, there := s.has[f.Path]; there {
			continue
		}
		if err := s.write(f, content); err != nil {
			return err
		}
		s.has[f.Path] = f
	}
	return nil
}

func (s *stage) write(f snapshotFile, content func(string) (io.ReadCloser, error)) error {
	if i := strings.LastIndexByte(f.Path, '/'); i > 0 {
		if err := s.root.MkdirAll(f.Path[:i], 0o755); err != nil {
			return err
		}
	}
	switch f.Type {
	case typeDirectory:
		return s.root.MkdirAll(f.Path, 0o755)
	case typeLink:
		return s.root.Symlink(f.Target, f.Path)
	}
	in, err := content(f.SHA256)
	if err != nil {
		return err
	}
	defer in.Close()
	mode := fs.FileMode(f.Mode & 0o777)
	out, err := s.root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}
