//go:build linux

package sessionfiles

import (
	"cmp"
	"context"
	"path"
	"path/filepath"

	"everloop/domain"
	"everloop/infra/workspace"
)

// Rename renames a file, a directory or a link itself within its directory. name must not contain
// a path; an existing name is file_exists.
func (f Files) Rename(ctx context.Context, session domain.Session, from, name string) (to string, changes []domain.FileChange, err error) {
	if err := checkUTF8(name); err != nil {
		return "", nil, err
	}

	err = f.change(ctx, session, func(w *workspace.Workspace) error {
		rel, err := w.Clean(from)
		if err != nil {
			return err
		}

		to = path.Join(path.Dir(rel), name)
		if err := w.Rename(rel, to, false); err != nil {
			return err
		}

		changes = []domain.FileChange{{Path: rel, Change: "deleted"}, {Path: to, Change: "created"}}

		return nil
	})

	return to, changes, err
}

// Copy copies a file or a directory. Without a target it is "name copy.ext" in the same
// directory; an existing target is file_exists unless overwrite is set.
func (f Files) Copy(ctx context.Context, session domain.Session, from, to string, overwrite bool) (change domain.FileChange, err error) {
	if err := checkUTF8(cmp.Or(to, path.Base(from))); err != nil {
		return change, err
	}

	err = f.change(ctx, session, func(w *workspace.Workspace) error {
		copied, err := w.Copy(ctx, from, to, workspace.CopyOptions{Overwrite: overwrite})
		change = changed(copied)

		return err
	})

	return change, err
}

// shareDir is the directory of links that share a session's files.
const shareDir = ".share"

// Share creates a link to a file or directory in a folder below .share. Without a name the link
// has the source's name.
func (f Files) Share(
	ctx context.Context,
	session domain.Session,
	source, name, folder string,
) (link domain.FileLink, change domain.FileChange, err error) {
	err = f.change(ctx, session, func(w *workspace.Workspace) error {
		if folder != "" && !filepath.IsLocal(folder) {
			return domain.Newf(domain.Malformed, domain.CodePathOutside, "the share folder leaves %s", shareDir)
		}

		target, err := w.Clean(source)
		if err != nil {
			return err
		}

		if name == "" {
			name = path.Base(target)
		}

		if name == "." {
			return domain.Invalidf("body.link_name", "is required for the workspace itself")
		}

		if err := checkUTF8(path.Join(folder, name)); err != nil {
			return err
		}

		at, err := w.LinkTo(target, path.Join(shareDir, folder), name)
		link = domain.FileLink{Path: at, Target: target}
		change = domain.FileChange{Path: at, Change: "created"}

		return err
	})

	return link, change, err
}
