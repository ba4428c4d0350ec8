//go:build linux

package skills

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/internal/sharedfs"
	"everloop/internal/skillpack"
)

// store keeps packages under their digests. A package is never changed; it is
// held against its digest when a process first reads it.
type store struct {
	dir  string
	read *memo[string, skillpack.Pack]
	room func() error // fails while there is no room for a package; nil: there is always
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (s store) path(digest string) (string, error) {
	if !digestForm.MatchString(digest) {
		return "", fmt.Errorf("skills: %q is not a digest", shorten(digest))
	}

	return filepath.Join(s.dir, digest[len("sha256:"):]), nil
}

// keep writes a package, unless it is there. It stops where only the reserve of the disk is
// free.
func (s store) keep(ctx context.Context, p skillpack.Pack) error {
	path, err := s.path(p.Digest)
	if err != nil {
		return err
	}

	if _, err := os.Stat(path); err == nil {
		return nil
	}

	temp := filepath.Join(s.dir, ".new-"+rand.Text())
	defer os.RemoveAll(temp)

	for _, f := range p.Files {
		if err := cmp.Or(ctx.Err(), domain.DiskFull(s.room)); err != nil {
			return err
		}

		if err := writeFile(filepath.Join(temp, filepath.FromSlash(f.Path)), f); err != nil {
			return fmt.Errorf("keep skill package: %w", err)
		}
	}

	err = sharedfs.RenameNoReplace(-1, unix.AT_FDCWD, temp, unix.AT_FDCWD, path)
	if err != nil && !errors.Is(err, unix.EEXIST) { // else another process was first
		return fmt.Errorf("keep skill package: %w", err)
	}

	return nil
}

func writeFile(path string, f skillpack.File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}

	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close()

	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.Mode.Perm())
	if err != nil {
		return err
	}

	_, err = io.Copy(file, content)

	return errors.Join(err, file.Close())
}

// load reads a package by its digest.
func (s store) load(ctx context.Context, digest string) (skillpack.Pack, error) {
	if p, ok := s.read.get(digest); ok {
		return p, nil
	}

	path, err := s.path(digest)
	if err != nil {
		return skillpack.Pack{}, err
	}

	files, _, err := hostFiles(path)
	if errors.Is(err, fs.ErrNotExist) {
		return skillpack.Pack{}, domain.Newf(domain.NotFound, skill.CodeNotFound, "the package of the skill is no longer kept")
	}

	if err != nil {
		return skillpack.Pack{}, fmt.Errorf("read skill package: %w", err)
	}

	p, err := skillpack.Inspect(ctx, files)
	if err != nil {
		return skillpack.Pack{}, fmt.Errorf("read skill package: %w", err)
	}

	if p.Digest != digest {
		return skillpack.Pack{}, domain.Newf(domain.Conflict, skill.CodeDigestMismatch, "the kept package of skill %s was changed; "+
			"install it again", p.Name)
	}

	s.read.put(digest, p)

	return p, nil
}
