//go:build linux

package skills

import (
	"context"
	"crypto/rand"
	"path"
	"slices"
	"strings"
	"time"

	"everloop/domain"
	"everloop/infra/workspace"
	"everloop/internal/skillpack"
)

// place leaves two kinds of directories for a moment, and a crash for longer: the
// package that is being written, and the one that it takes the place of, whose
// name says which one that is.
const (
	freshPrefix = ".new-"
	asidePrefix = ".old-"
	// freshFor is how long writing a package may take.
	freshFor = time.Hour
)

func asideName(name string) string { return asidePrefix + name + "-" + rand.Text() }

// setAside gives the name of the package that a directory once had; empty for
// other directories.
func setAside(dir string) string {
	rest, found := strings.CutPrefix(dir, asidePrefix)

	last := strings.LastIndexByte(rest, '-')
	if !found || last < 0 || skillpack.CheckName(rest[:last]) != "" {
		return ""
	}

	return rest[:last]
}

// repair removes or completes what a crash of place left in a directory of packages, of
// which entries is the list: a package that was set aside and not replaced gets
// its name back, and what else is left is removed. It reports whether anything is
// now called otherwise. A place that another process is at in the meantime tries again.
func (s *Service) repair(ctx context.Context, w *workspace.Workspace, above string, entries []workspace.Info) (renamed bool) {
	for _, left := range slices.Backward(entries) {
		name := setAside(left.Name)
		if left.Type != workspace.Directory || name == "" && !strings.HasPrefix(left.Name, freshPrefix) {
			continue
		}

		from := path.Join(above, left.Name)
		if name == "" {
			if time.Since(left.ModTime) > freshFor {
				_ = w.Remove(ctx, from, true)
			}

			continue
		}

		lock := s.placing.of(w.HostPath() + "/" + path.Join(above, name))
		if !lock.TryLock() {
			continue // it is being placed here at this moment
		}
		switch err := w.Rename(from, path.Join(above, name), false); {
		case err == nil:
			renamed = true
		case domain.HasCode(err, workspace.CodeExists): // it was replaced
			_ = w.Remove(ctx, from, true)
		}
		lock.Unlock()
	}

	return renamed
}
