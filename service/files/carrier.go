//go:build linux

// Package files joins the workspaces of sessions with their snapshots for the services:
// Checkpoints for history, Carrier for export, import and replays, AppCopies for
// published apps. It translates between them and decides nothing.
package files

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
	"everloop/internal/diskspace"
)

// Carrier brings files of sessions elsewhere: to the workspace of another session, into
// an archive, and back. It does not know why.
type Carrier struct {
	Workspaces *workspace.Store
	Snapshots  *snapshots.Store
}

// own is the service's directory in a workspace: results that were too long,
// logs of tasks. It is carried, because results name it.
const own = ".everloop"

// CopyFiles brings files of one session to the workspace of another: those of a
// snapshot, or, when none is named or it is gone, those that are there now. What
// the other has in addition to stays, but for a snapshot, which is restored as it was.
func (c Carrier) CopyFiles(ctx context.Context, from, to domain.Session, snapshotID string) error {
	if snapshotID == "" {
		return c.copyAll(ctx, from, to, ".")
	}

	target, err := c.Workspaces.Open(ctx, to.ID, to.SandboxUID)
	if err != nil {
		return err
	}
	defer target.Close()

	if err := target.AwaitWrites(ctx); err != nil {
		return err
	}

	_, err = c.Snapshots.Restore(ctx, snapshots.RestoreIn{
		SnapshotID: snapshotID, SessionID: to.ID, Root: target.HostPath(), UID: owner(to), GID: owner(to), Fits: target.Fits,
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

	if err := fits(ctx, source, target, dir); err != nil {
		return ignoreMissing(err)
	}

	err = source.Walk(ctx, dir, func(info workspace.Info) error {
		switch info.Type {
		case workspace.Directory:
			return target.MkdirAll(info.Path)
		case workspace.Link:
			return relink(ctx, target, info.Target, info.Path)
		case workspace.File:
			return copyFile(ctx, source, target, info)
		case workspace.Other: // pipes, sockets and devices are not carried
		}

		return nil
	})

	return ignoreMissing(err)
}

// fits fails, before anything is copied, when the target has no room for it all.
func fits(ctx context.Context, source, target *workspace.Workspace, dir string) error {
	var all diskspace.Usage

	err := source.Walk(ctx, dir, func(info workspace.Info) error {
		entry := diskspace.Usage{Bytes: diskspace.PerInode, Inodes: 1}
		if info.Type == workspace.File {
			entry.Bytes += diskspace.Block(info.Size) // holes are filled
		}

		all = all.Plus(entry)

		return nil
	})
	if err != nil {
		return err
	}

	return target.Fits(ctx, all)
}

// ignoreMissing takes it that there is no such directory.
func ignoreMissing(err error) error {
	if domain.HasCode(err, domain.CodeFileNotFound) {
		return nil
	}

	return err
}

// Fits fails when the workspace of a session has no room for files of so many bytes in
// all.
func (c Carrier) Fits(ctx context.Context, session domain.Session, bytes int64, files int) error {
	w, err := c.Workspaces.Open(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return err
	}
	defer w.Close()

	return w.Fits(ctx, diskspace.Usage{Bytes: bytes + int64(files)*diskspace.PerInode, Inodes: int64(files)})
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
			return nil // gone in the meantime
		}

		return err
	}
	defer content.Close()
	// A command may be writing to it, and never end.
	_, err = target.WriteFile(ctx, info.Path, io.LimitReader(content, found.Size), workspace.WriteOptions{Parents: true, Mode: found.Mode})

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

	_, err = w.WriteFile(
		ctx,
		file.Path,
		content,
		workspace.WriteOptions{Parents: true, Mode: file.Mode.Perm(), MaxSize: file.Size, CreateOnly: true},
	)

	return err
}

func parentOf(p string) string {
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}

	return "."
}

// Build makes snapshots of a session that is being made, of contents that open
// gives by their names. The function that it returns makes one, and returns its id.
func (c Carrier) Build(
	sessionID domain.SessionID, open func(content string) (io.ReadCloser, error),
) (snapshot func(ctx context.Context, files []File) (id string, err error), err error) {
	builder, err := c.Snapshots.NewBuilder(sessionID, open)
	if err != nil {
		return nil, err
	}

	return func(ctx context.Context, files []File) (string, error) {
		entries := make([]snapshots.BuildEntry, len(files))
		for i, f := range files {
			entries[i] = snapshots.BuildEntry{
				Path: f.Path, Type: entryType(f.Mode), Mode: f.Mode, Size: f.Size, Content: f.Identity, Target: f.Target,
			}
		}

		return builder.Build(ctx, entries)
	}, nil
}

func entryType(mode fs.FileMode) snapshots.Type {
	switch {
	case mode.IsDir():
		return snapshots.Directory
	case mode&fs.ModeSymlink != 0:
		return snapshots.Link
	}

	return snapshots.File
}

// Remove takes away what was written for a session that was not made.
func (c Carrier) Remove(ctx context.Context, sessionID domain.SessionID) error {
	return errors.Join(c.Workspaces.Remove(ctx, sessionID), c.Snapshots.DeleteSession(ctx, sessionID))
}
