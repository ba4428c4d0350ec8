//go:build linux

package sessionfiles

import (
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"everloop/domain"
	"everloop/infra/workspace"
)

// Upload stores files in a directory, which it creates when missing. receive calls add with the
// content of each file, of at most limit bytes, and returns their names, relative to the
// directory, in the same order. An error of receive discards all files; a file that cannot be
// stored is reported in its outcome and does not affect the others. Existing files are replaced.
func (f Files) Upload(ctx context.Context, session domain.Session, dir string, limit int64,
	receive func(add func(content io.Reader) error) (names []string, err error),
) (outcomes []domain.FileOutcome, err error) {
	err = f.in(ctx, session, func(w *workspace.Workspace) error {
		base, err := directory(w, dir)
		if err != nil {
			return err
		}

		quota, err := w.Quota(ctx)
		if err != nil {
			return err
		}

		defer quota.Close()

		stage, err := w.Stage(ctx, quota)
		if err != nil {
			return err
		}
		defer func() { _ = stage.Close() }() // a later upload removes leftovers

		u := upload{stage: stage, base: base, taken: map[string]bool{}}

		names, err := receive(func(content io.Reader) error { return u.add(ctx, content, limit) })
		if err != nil {
			return err
		}

		release, err := w.LockWrites(ctx)
		if err != nil {
			return err
		}
		defer release()

		for i, name := range names {
			outcomes = append(outcomes, u.place(ctx, i, name))
		}

		return nil
	})

	return outcomes, err
}

// directory checks the directory of an upload, which can be missing.
func directory(w *workspace.Workspace, dir string) (string, error) {
	if err := checkUTF8(dir); err != nil {
		return "", err
	}

	base, err := w.Clean(dir)
	if err != nil {
		return "", err
	}
	// A missing directory is created with the first file. An existing path must be a directory,
	// which the kernel checks.
	if err := w.CheckDir(base); err != nil && !domain.HasCode(err, domain.CodeFileNotFound) {
		return "", err
	}

	return base, nil
}

type upload struct {
	stage  *workspace.Staging
	base   string
	staged []stagedFile
	taken  map[string]bool
}

type stagedFile struct {
	number int
	err    error
}

// add stages a file. Only a failed read of the client's stream is returned as an error; other
// failures become the file's outcome, and the rest of its content is skipped.
func (u *upload) add(ctx context.Context, content io.Reader, limit int64) error {
	number, err := u.stage.Add(ctx, content, limit)
	if source, ok := errors.AsType[*workspace.SourceError](err); ok {
		return source.Err
	}

	if ctx.Err() != nil {
		return ctx.Err()
	}

	u.staged = append(u.staged, stagedFile{number, err})
	if err != nil {
		_, err = io.Copy(io.Discard, content)
	}

	return err
}

// place moves a staged file to its name.
func (u *upload) place(ctx context.Context, i int, name string) domain.FileOutcome {
	failed := func(err error) domain.FileOutcome { return domain.FileOutcome{Path: name, Err: err} }
	if err := checkName(name); err != nil {
		return failed(err)
	}

	if u.staged[i].err != nil {
		return failed(u.staged[i].err)
	}

	rel := path.Join(u.base, name)
	if u.taken[rel] {
		return failed(domain.Newf(domain.Conflict, workspace.CodeExists, "another file of this upload has the same path"))
	}

	info, err := u.stage.Place(ctx, u.staged[i].number, rel, workspace.WriteOptions{Parents: true})
	if err != nil {
		return failed(err)
	}

	u.taken[rel] = true

	return domain.FileOutcome{Path: info.Path, Change: changed(info)}
}

// checkName rejects invalid names and names that leave the upload's directory.
func checkName(name string) error {
	switch {
	case name == "" || strings.HasSuffix(name, "/") || path.Clean(name) == ".":
		return domain.Newf(domain.Malformed, workspace.CodeBadPath, "the file has no name")
	case !filepath.IsLocal(name):
		return domain.Newf(domain.Malformed, domain.CodePathOutside, "the path leaves the upload's directory")
	}

	return checkUTF8(name)
}

// checkUTF8 rejects file names that are not UTF-8: JSON cannot represent them, and exports would
// lose the file.
func checkUTF8(p string) error {
	if !utf8.ValidString(p) {
		return domain.Newf(domain.Invalid, workspace.CodeBadPath, "the name is not UTF-8")
	}

	return nil
}
