//go:build linux

// Package sessionfiles gives the doors the files of a session: it opens the
// session's workspace, does one thing in it, and lets it go. It must not know a
// transport, nor who asks.
package sessionfiles

import (
	"bytes"
	"context"
	"io"

	"everloop/domain"
	"everloop/infra/workspace"
)

// Files are the files of all sessions.
type Files struct{ Store *workspace.Store }

func (f Files) in(ctx context.Context, session domain.Session, do func(*workspace.Workspace) error) error {
	w, err := f.Store.Open(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	return do(w)
}

// List gives a directory's entries, directories first.
func (f Files) List(ctx context.Context, session domain.Session, dir string) ([]domain.FileInfo, error) {
	var list []domain.FileInfo
	err := f.in(ctx, session, func(w *workspace.Workspace) error {
		found, err := w.List(dir)
		list = make([]domain.FileInfo, len(found))
		for i, info := range found {
			list[i] = told(info)
		}
		return err
	})
	return list, err
}

// Open opens a regular file for reading. The description is of that very file.
func (f Files) Open(ctx context.Context, session domain.Session, path string) (io.ReadSeekCloser, domain.FileInfo, error) {
	var file io.ReadSeekCloser
	var info domain.FileInfo
	err := f.in(ctx, session, func(w *workspace.Workspace) error {
		opened, found, err := w.Open(path)
		if err != nil {
			return err
		}
		file, info = opened, told(found)
		return nil
	})
	return file, info, err
}

// Write replaces a file or makes it, with its directories. With an ETag the
// file must still be that version; "*" asks only that there is one.
func (f Files) Write(ctx context.Context, session domain.Session, path string, content []byte, ifMatch string) (
	info domain.FileInfo, change domain.FileChange, err error,
) {
	err = f.in(ctx, session, func(w *workspace.Workspace) error {
		rel, err := w.Clean(path)
		if err != nil {
			return err
		}
		change = domain.FileChange{Path: rel, Change: "modified"}
		if _, err := w.Stat(path); domain.HasCode(err, domain.CodeFileNotFound) {
			change.Change = "created"
			if ifMatch == "*" {
				return domain.Newf(domain.Conflict, workspace.CodeStale, "%s does not exist", rel)
			}
		}
		if ifMatch == "*" {
			ifMatch = ""
		}
		written, err := w.WriteFile(ctx, path, bytes.NewReader(content), workspace.WriteOptions{IfMatch: ifMatch, Parents: true})
		info = told(written)
		return err
	})
	return info, change, err
}

// Delete removes a file, a link itself, or a directory with all that is in it.
func (f Files) Delete(ctx context.Context, session domain.Session, path string) (change domain.FileChange, err error) {
	err = f.in(ctx, session, func(w *workspace.Workspace) error {
		rel, err := w.Clean(path)
		if err != nil {
			return err
		}
		change = domain.FileChange{Path: rel, Change: "deleted"}
		return w.Remove(ctx, path, true)
	})
	return change, err
}

func told(i workspace.Info) domain.FileInfo {
	return domain.FileInfo{Name: i.Name, Dir: i.Type == workspace.Directory, Size: i.Size, ModTime: i.ModTime, ETag: i.ETag()}
}
