//go:build linux

package skills

import (
	"context"
	"crypto/rand"
	"path"

	"everloop/domain"
	"everloop/infra/workspace"
	"everloop/internal/skillpack"
)

// place writes a package to a directory of a workspace in place of what is
// there: the new one is written next to it, and takes its name when it is whole.
// What a crash leaves of that is repaired at the next look (repair).
func (s *Service) place(ctx context.Context, w *workspace.Workspace, dir string, p skillpack.Pack) (replaced bool, err error) {
	lock := s.placing.of(w.HostPath() + "/" + dir)
	lock.Lock()
	defer lock.Unlock()

	above := path.Dir(dir)

	fresh := path.Join(above, freshPrefix+rand.Text())
	defer func() { _ = w.Remove(context.WithoutCancel(ctx), fresh, true) }() // gone when all went well

	for _, f := range p.Files {
		if err := writeTo(ctx, w, path.Join(fresh, f.Path), f); err != nil {
			return false, err
		}
	}
	// Another process may place the same package at this moment.
	for attempt := 1; ; attempt++ {
		old := path.Join(above, asideName(path.Base(dir)))

		err := w.Rename(dir, old, false)
		switch {
		case err == nil:
			replaced = true

			defer func() { _ = w.Remove(context.WithoutCancel(ctx), old, true) }()
		case !domain.HasCode(err, domain.CodeFileNotFound):
			return false, err
		}

		err = w.Rename(fresh, dir, false)
		if err == nil || !domain.HasCode(err, workspace.CodeExists) || attempt == 5 {
			return replaced, err
		}
	}
}

func writeTo(ctx context.Context, w *workspace.Workspace, to string, f skillpack.File) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close()

	_, err = w.WriteFile(ctx, to, content, workspace.WriteOptions{Parents: true, Mode: f.Mode.Perm()})

	return err
}

// copyOf brings a package from outside into the workspace, where the session's
// tools can read it, unless it lies there as it is.
func (s *Service) copyOf(ctx context.Context, w *workspace.Workspace, p skillpack.Pack) (dir string, err error) {
	dir = path.Join(copiesDir, p.Name)
	if there, err := s.inspect(ctx, w, dir); err == nil && there.Digest == p.Digest {
		return dir, nil
	}

	_, err = s.place(ctx, w, dir, p)

	return dir, err
}
