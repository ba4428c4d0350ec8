//go:build linux

package files

import (
	"context"
	"io"
	"path"
	"unicode/utf8"

	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/infra/snapshots"
	"everloop/infra/workspace"
	"everloop/internal/diskspace"
	"everloop/service/history"
)

// Checkpoints takes and restores snapshots of sessions' workspaces on this machine. It
// implements history.Files.
type Checkpoints struct {
	Store *snapshots.Store
	Roots Roots
}

// Roots says where the workspace of a session is, made on first use.
type Roots interface {
	Root(ctx context.Context, sessionID domain.SessionID, uid int) (string, error)
	// Fits fails when the workspace may not grow by so much.
	Fits(ctx context.Context, sessionID domain.SessionID, uid int, grows diskspace.Usage) error
	// AwaitWrites waits for writes of clients that were admitted before.
	AwaitWrites(ctx context.Context, sessionID domain.SessionID, uid int) error
}

// AwaitWrites implements history.Files.
func (f Checkpoints) AwaitWrites(ctx context.Context, sessionID domain.SessionID, sandboxUID int) error {
	return f.Roots.AwaitWrites(ctx, sessionID, sandboxUID)
}

// Begin implements history.Files.
func (f Checkpoints) Begin(ctx context.Context, in history.CaptureIn) (history.Pending, error) {
	root, err := f.Roots.Root(ctx, in.SessionID, in.SandboxUID)
	if err != nil {
		return nil, err
	}

	pending, err := f.Store.Begin(ctx, snapshots.CaptureIn{
		SessionID: in.SessionID, Root: root, UID: in.SandboxUID, Previous: in.Previous, Busy: in.Busy,
	})
	if err != nil {
		return nil, err
	}

	return pendingSnapshot{pending}, nil
}

type pendingSnapshot struct{ *snapshots.Pending }

// Finish implements history.Pending.
func (p pendingSnapshot) Finish(ctx context.Context) (domainhistory.Snapshot, error) {
	s, err := p.Pending.Finish(ctx)

	return domainhistory.Snapshot{
		ID:       s.ID,
		Changed:  s.Changed,
		Added:    s.Added,
		Deleted:  s.Deleted,
		Bytes:    s.Bytes,
		Complete: s.Complete,
		Stored:   s.Stored,
	}, err
}

// Restore implements history.Files.
func (f Checkpoints) Restore(ctx context.Context, in history.RestoreIn) (domainhistory.RestoredFiles, error) {
	root, err := f.Roots.Root(ctx, in.SessionID, in.SandboxUID)
	if err != nil {
		return domainhistory.RestoredFiles{}, err
	}

	restore := snapshots.RestoreIn{
		SnapshotID: in.SnapshotID, SessionID: in.SessionID, Root: root, UID: in.SandboxUID, GID: in.SandboxUID, Current: in.Current,
	}
	if !in.Back {
		restore.Fits = func(ctx context.Context, grows diskspace.Usage) error {
			return f.Roots.Fits(ctx, in.SessionID, in.SandboxUID, grows)
		}
	}

	done, err := f.Store.Restore(ctx, restore)

	out := domainhistory.RestoredFiles{Restored: done.Restored, Deleted: done.Deleted, Skipped: []domainhistory.SkippedFile{}}
	for _, s := range done.Skipped {
		out.Skipped = append(out.Skipped, domainhistory.SkippedFile{Path: readable(s.Path), Reason: s.Reason})
	}

	return out, err
}

// Diff implements history.Files. Directories are left out.
func (f Checkpoints) Diff(ctx context.Context, from, to string) ([]domainhistory.FileDifference, error) {
	changes, err := f.Store.Diff(ctx, from, to)
	out := []domainhistory.FileDifference{}

	for _, c := range changes {
		if c.Type != snapshots.Directory {
			out = append(out, domainhistory.FileDifference{Path: readable(c.Path), Change: c.Change, Size: c.Size})
		}
	}

	return out, err
}

// Walk implements history.Files.
func (f Checkpoints) Walk(ctx context.Context, snapshotID string, visit func(path string, size int64) error) error {
	return f.Store.Walk(ctx, snapshotID, func(info snapshots.Info) error {
		if info.Type == snapshots.Directory {
			return nil
		}

		return visit(readable(info.Path), info.Size)
	})
}

// Compare implements history.Files. Directories are left out.
func (f Checkpoints) Compare(ctx context.Context, in history.CompareIn) ([]domainhistory.FileComparison, error) {
	changes, err := f.changes(ctx, in)
	out := []domainhistory.FileComparison{}

	for _, c := range changes {
		if file, counts := comparison(c); counts {
			out = append(out, file)
		}
	}

	return out, err
}

// comparison shows a change as one of files: a file instead of a directory is a
// created one.
func comparison(c snapshots.Change) (file domainhistory.FileComparison, counts bool) {
	was := c.TypeBefore != "" && c.TypeBefore != snapshots.Directory
	is := c.Change != snapshots.Deleted && c.Type != snapshots.Directory

	file = domainhistory.FileComparison{Path: readable(c.Path), Change: snapshots.Modified, Type: string(c.Type)}
	if was {
		file.SizeBefore = &c.SizeBefore
	} else {
		file.Change = snapshots.Created
	}

	if is {
		file.SizeAfter = &c.Size
	} else {
		file.Change, file.Type = snapshots.Deleted, string(c.TypeBefore)
	}

	return file, was || is
}

func (f Checkpoints) changes(ctx context.Context, in history.CompareIn) ([]snapshots.Change, error) {
	if in.To != "" {
		return f.Store.Diff(ctx, in.From, in.To)
	}

	root, err := f.Roots.Root(ctx, in.SessionID, in.SandboxUID)
	if err != nil {
		return nil, err
	}

	return f.Store.Changes(ctx, snapshots.ChangesIn{SnapshotID: in.From, SessionID: in.SessionID, Root: root, UID: in.SandboxUID})
}

// Open implements history.Files.
func (f Checkpoints) Open(ctx context.Context, snapshotID, name string) (io.ReadSeekCloser, domain.FileInfo, error) {
	name, err := workspace.Clean(name)
	if err != nil {
		return nil, domain.FileInfo{}, err
	}

	view, err := f.Store.View(ctx, snapshotID)
	if err != nil {
		return nil, domain.FileInfo{}, err
	}

	at, err := view.Follow(name)
	if err != nil {
		return nil, domain.FileInfo{}, err
	}

	if at == "." || isDirectory(view, at) {
		return nil, domain.FileInfo{}, domain.Newf(domain.Invalid, workspace.CodeIsDirectory, "%s is a directory", readable(name))
	}

	content, info, err := view.Open(ctx, at)

	return content, domain.FileInfo{
		Name: path.Base(name), Size: info.Size, ModTime: info.ModTime, ETag: `"` + info.Identity + `"`,
	}, err
}

func isDirectory(view *snapshots.View, at string) bool {
	info, err := view.Stat(at)
	return err == nil && info.Type == snapshots.Directory
}

// readable makes a path of a workspace, which is bytes, fit for JSON.
func readable(path string) string {
	if utf8.ValidString(path) {
		return path
	}

	return domain.CleanText(path)
}
