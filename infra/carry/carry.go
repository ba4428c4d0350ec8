//go:build linux

// Package carry brings the files of sessions elsewhere: to the workspace of
// another session, into an archive, and back. It knows workspaces and snapshots,
// and not why anything is carried.
package carry

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"everloop/domain"
	"everloop/infra/snapshots"
	"everloop/infra/workspace"
)

// Carrier carries files.
type Carrier struct {
	Workspaces *workspace.Store
	Snapshots  *snapshots.Store
}

// own is the service's directory in a workspace: results that were too long,
// logs of tasks. It is carried, because results name it.
const own = ".everloop"

// CopyFiles brings files of one session to the workspace of another: those of a
// snapshot, or, when none is named or it is gone, those that are there now. What
// the other has besides stays, but for a snapshot, which is restored as it was.
func (c Carrier) CopyFiles(ctx context.Context, from, to domain.Session, snapshotID string) error {
	if snapshotID == "" {
		return c.copyAll(ctx, from, to, ".")
	}
	target, err := c.Workspaces.Open(ctx, to.ID, to.SandboxUID)
	if err != nil {
		return err
	}
	defer target.Close()
	_, err = c.Snapshots.Restore(ctx, snapshots.RestoreIn{
		SnapshotID: snapshotID, SessionID: to.ID, Root: target.HostPath(), UID: owner(to), GID: owner(to),
	})
	if err != nil {
		if kind := domain.AsError(err).Kind; kind != domain.NotFound && kind != domain.Gone {
			return err
		}
		return c.copyAll(ctx, from, to, ".")
	}
	return c.copyAll(ctx, from, to, own) // snapshots leave it out
}

func owner(s domain.Session) int {
	if os.Geteuid() == 0 {
		return s.SandboxUID
	}
	return 0
}

func (c Carrier) copyAll(ctx context.Context, from, to domain.Session, dir string) error {
	source, err := c.Workspaces.Open(ctx, from.ID, from.SandboxUID)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := c.Workspaces.Open(ctx, to.ID, to.SandboxUID)
	if err != nil {
		return err
	}
	defer target.Close()
	err = source.Walk(ctx, dir, func(info workspace.Info) error {
		switch info.Type {
		case workspace.Directory:
			return target.MkdirAll(info.Path)
		case workspace.Link:
			return relink(ctx, target, info.Target, info.Path)
		case workspace.File:
			return copyFile(ctx, source, target, info)
		}
		return nil // pipes, sockets and devices are nobody's files
	})
	if domain.HasCode(err, domain.CodeFileNotFound) {
		return nil // there is no such directory
	}
	return err
}

func relink(ctx context.Context, w *workspace.Workspace, target, path string) error {
	if info, err := w.Stat(path); err == nil && info.Type == workspace.Link {
		if info.Target == target {
			return nil
		}
		if err := w.Remove(ctx, path, false); err != nil {
			return err
		}
	}
	return w.Symlink(target, path)
}

func copyFile(ctx context.Context, source, target *workspace.Workspace, info workspace.Info) error {
	content, found, err := source.Open(info.Path)
	if err != nil {
		if domain.HasCode(err, domain.CodeFileNotFound) || domain.HasCode(err, workspace.CodeNotRegular) {
			return nil // gone meanwhile
		}
		return err
	}
	defer content.Close()
	_, err = target.WriteFile(ctx, info.Path, content, workspace.WriteOptions{Parents: true, Mode: found.Mode})
	return err
}

// File is one entry of a workspace or of a snapshot.
type File = domain.CarriedFile

// Walk visits all entries of a session's workspace, directories before what is
// in them. Open of a file gives its content as it is then.
func (c Carrier) Walk(ctx context.Context, session domain.Session, visit func(File) error) error {
	w, err := c.Workspaces.Open(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return err
	}
	defer w.Close()
	return w.Walk(ctx, ".", func(info workspace.Info) error {
		file := File{Path: info.Path, Mode: info.Mode, ModTime: info.ModTime, Target: info.Target}
		switch info.Type {
		case workspace.Directory:
			file.Mode |= fs.ModeDir
		case workspace.Link:
			file.Mode |= fs.ModeSymlink
		case workspace.File:
			file.Size = info.Size
			file.Open = func() (io.ReadCloser, error) {
				content, _, err := w.Open(info.Path)
				return content, err
			}
		default:
			return nil
		}
		if info.Path == "." {
			return nil
		}
		return visit(file)
	})
}

// WalkSnapshot visits all entries of a snapshot. One that is gone is found false.
func (c Carrier) WalkSnapshot(ctx context.Context, snapshotID string, visit func(File) error) (found bool, err error) {
	view, err := c.Snapshots.View(ctx, snapshotID)
	if err != nil {
		if kind := domain.AsError(err).Kind; kind == domain.NotFound || kind == domain.Gone {
			return false, nil
		}
		return false, err
	}
	return true, view.Walk(func(info snapshots.Info) error {
		if !utf8.ValidString(info.Path) || strings.ContainsRune(info.Path, 0) {
			return nil
		}
		file := File{Path: info.Path, Mode: info.Mode, ModTime: info.ModTime, Target: info.Target, Size: info.Size, Identity: info.Identity}
		switch info.Type {
		case snapshots.Directory:
			file.Mode |= fs.ModeDir
		case snapshots.Link:
			file.Mode |= fs.ModeSymlink
		default:
			file.Open = func() (io.ReadCloser, error) {
				content, _, err := view.Open(ctx, info.Path)
				return content, err
			}
		}
		return visit(file)
	})
}

// Put writes an entry to the workspace of a session that is being made. content
// is read for a file only.
func (c Carrier) Put(ctx context.Context, session domain.Session, file File, content io.Reader) error {
	w, err := c.Workspaces.Open(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return err
	}
	defer w.Close()
	switch {
	case file.Mode.IsDir():
		return w.MkdirAll(file.Path)
	case file.Mode&fs.ModeSymlink != 0:
		if dir := parentOf(file.Path); dir != "." {
			if err := w.MkdirAll(dir); err != nil {
				return err
			}
		}
		return w.Symlink(file.Target, file.Path)
	}
	_, err = w.WriteFile(ctx, file.Path, content, workspace.WriteOptions{Parents: true, Mode: file.Mode.Perm(), MaxSize: file.Size, CreateOnly: true})
	return err
}

func parentOf(p string) string {
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}
	return "."
}

// Capture makes a snapshot of a session of what is in a directory of the
// service's own.
func (c Carrier) Capture(ctx context.Context, sessionID, dir string) (snapshotID string, err error) {
	made, err := c.Snapshots.Capture(ctx, snapshots.CaptureIn{SessionID: sessionID, Root: dir})
	return made.ID, err
}

// Remove takes away what was written for a session that was not made.
func (c Carrier) Remove(ctx context.Context, sessionID string) error {
	return errors.Join(c.Workspaces.Remove(ctx, sessionID), c.Snapshots.DeleteSession(ctx, sessionID))
}
