//go:build linux

// Package sessionfiles implements file operations of the APIs: each opens the session's
// workspace, performs one operation, and closes it. It must not depend on a transport or on
// permissions.
package sessionfiles

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"everloop/domain"
	"everloop/infra/workspace"
)

// Files accesses the files of all sessions.
type Files struct {
	Store *workspace.Store
}

func (f Files) in(ctx context.Context, session domain.Session, do func(*workspace.Workspace) error) error {
	w, err := f.Store.Open(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()

	return do(w)
}

// change is in for a write, with the lock against operations on the session's history.
func (f Files) change(ctx context.Context, session domain.Session, do func(*workspace.Workspace) error) error {
	return f.in(ctx, session, func(w *workspace.Workspace) error {
		release, err := w.LockWrites(ctx)
		if err != nil {
			return err
		}
		defer release()

		return do(w)
	})
}

// List returns a directory's entries, directories first. A link has the Info of its target, as in
// a read; a link that is dangling or leaves the workspace has its own. More than
// workspace.MaxListed entries are a too_many_entries error.
func (f Files) List(ctx context.Context, session domain.Session, dir string) ([]domain.FileInfo, error) {
	var list []domain.FileInfo

	err := f.in(ctx, session, func(w *workspace.Workspace) error {
		return w.Each(ctx, dir, workspace.MaxListed, func(info workspace.Info) {
			if info.Type == workspace.Link {
				if to, err := w.Follow(info.Path); err == nil {
					info = to
				}
			}

			list = append(list, fileInfo(info))
		})
	})

	slices.SortStableFunc(list, func(a, b domain.FileInfo) int {
		switch {
		case a.Dir == b.Dir:
			return 0
		case a.Dir:
			return -1
		}

		return 1
	})

	return list, err
}

// Open opens a regular file for reading. The FileInfo is from the open descriptor.
func (f Files) Open(ctx context.Context, session domain.Session, path string) (io.ReadSeekCloser, domain.FileInfo, error) {
	var (
		file io.ReadSeekCloser
		info domain.FileInfo
	)

	err := f.in(ctx, session, func(w *workspace.Workspace) error {
		opened, found, err := w.Open(path)
		if err != nil {
			return err
		}

		file, info = opened, fileInfo(found)

		return nil
	})

	return file, info, err
}

// Write creates or replaces a file, including its parent directories. With ETags in the condition
// the existing file must match one of them.
func (f Files) Write(ctx context.Context, session domain.Session, path string, content []byte, only domain.FileCondition) (
	info domain.FileInfo, change domain.FileChange, err error,
) {
	if err := checkUTF8(path); err != nil {
		return info, change, err
	}

	err = f.change(ctx, session, func(w *workspace.Workspace) error {
		_, tag, err := current(w, path, only.IfMatch)
		if err != nil {
			return err
		}

		options := workspace.WriteOptions{IfMatch: tag, CreateOnly: only.Absent, Parents: true}
		written, err := w.WriteFile(ctx, path, bytes.NewReader(content), options)
		info, change = fileInfo(written), changed(written)

		return err
	})

	return info, change, err
}

// current returns the existing file of a conditional write. tag is the one ETag that must match,
// "" for any; a missing file matches none.
func current(w *workspace.Workspace, path, ifMatch string) (old workspace.Info, tag string, err error) {
	old, err = w.Stat(path)
	if domain.HasCode(err, domain.CodeFileNotFound) {
		if ifMatch != "" {
			err = domain.Newf(domain.Conflict, workspace.CodeStale, "the file does not exist any more")
		} else {
			err = nil
		}
	}

	return old, version(ifMatch, old), err
}

// version returns the ETag of an If-Match header to compare: the file's own when it is listed,
// else any of them, which then does not match.
func version(ifMatch string, now workspace.Info) string {
	first := ""

	for tag := range strings.SplitSeq(ifMatch, ",") {
		switch tag = strings.TrimSpace(tag); tag {
		case "*":
			return ""
		case now.ETag():
			return tag
		}

		if first == "" {
			first = tag
		}
	}

	return first
}

func changed(i workspace.Info) domain.FileChange {
	if i.Replaced {
		return domain.FileChange{Path: i.Path, Change: "modified"}
	}

	return domain.FileChange{Path: i.Path, Change: "created"}
}

// Delete removes a file, a link itself, or a directory recursively. With ETags it must be a file
// that matches one of them.
func (f Files) Delete(ctx context.Context, session domain.Session, path, ifMatch string) (change domain.FileChange, err error) {
	err = f.change(ctx, session, func(w *workspace.Workspace) error {
		rel, err := w.Clean(path)
		if err != nil {
			return err
		}

		change = domain.FileChange{Path: rel, Change: "deleted"}

		_, tag, err := current(w, path, ifMatch)
		if err != nil {
			return err
		}

		if tag != "" {
			return w.RemoveIf(ctx, path, tag)
		}

		return w.Remove(ctx, path, true)
	})

	return change, err
}

func fileInfo(i workspace.Info) domain.FileInfo {
	return domain.FileInfo{Name: i.Name, Dir: i.Type == workspace.Directory, Size: i.Size, ModTime: i.ModTime, ETag: i.ETag()}
}
