//go:build linux

package files

import (
	"context"
	"path"
	"strconv"

	"everloop/domain"
	"everloop/domain/app"
	"everloop/infra/snapshots"
	"everloop/infra/workspace"
	"everloop/service/apps"
)

// AppCopies keeps the copies of published apps as snapshots of their directories, apart
// from those of sessions. It implements apps.Copies.
type AppCopies struct {
	Store      *snapshots.Store
	Workspaces *workspace.Store
}

// Begin implements apps.Copies. The directory is looked at before it is read; what grows
// beyond the bounds in the meantime is found afterwards.
func (c AppCopies) Begin(ctx context.Context, name string, session domain.Session, dir string) (apps.Pending, error) {
	w, err := c.Workspaces.Open(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()

	release, err := w.LockWrites(ctx) // files that an operation replaces are a mixture
	if err != nil {
		return nil, err
	}
	defer release()

	if err := publishable(ctx, w, dir); err != nil {
		return nil, err
	}

	root, err := w.OpenDir(dir)
	if err != nil {
		return nil, err
	}

	defer func() { _ = root.Close() }()

	pending, err := c.Store.Begin(ctx, snapshots.CaptureIn{
		SessionID: domain.SessionID(name), Root: "/proc/self/fd/" + strconv.Itoa(int(root.Fd())) + "/.", UID: session.SandboxUID,
	})
	if err != nil {
		return nil, err
	}

	if read := pending.Snapshot(); appBounds(read.Files, read.Bytes) != nil {
		pending.Discard()
		return nil, appBounds(read.Files, read.Bytes)
	}

	return pendingCopy{pending}, nil
}

// publishable checks a directory before anything of it is read.
func publishable(ctx context.Context, w *workspace.Workspace, dir string) error {
	var (
		files int
		bytes int64
	)

	if err := w.Walk(ctx, dir, func(info workspace.Info) error {
		files, bytes = files+1, bytes+info.Size
		return appBounds(files, bytes)
	}); err != nil {
		return err
	}

	page, err := w.Stat(path.Join(dir, app.Index))
	if domain.HasCode(err, domain.CodeFileNotFound) || err == nil && page.Type != workspace.File {
		return domain.Newf(domain.Invalid, app.CodeNoIndexPage, "the directory has no %s", app.Index)
	}

	return err
}

// pendingCopy is a directory that was read and is not stored.
type pendingCopy struct{ *snapshots.Pending }

// Finish implements apps.Pending.
func (p pendingCopy) Finish(ctx context.Context) (copyID string, bytes int64, err error) {
	taken, err := p.Pending.Finish(ctx)
	return taken.ID, taken.Stored, err
}

func appBounds(files int, bytes int64) error {
	if files <= app.MaxFiles && bytes <= app.MaxBytes {
		return nil
	}

	return domain.Newf(domain.TooLarge, app.CodeTooLarge, "an app has at most %d files and %d MB",
		app.MaxFiles, app.MaxBytes>>20)
}

// Open implements apps.Copies.
func (c AppCopies) Open(ctx context.Context, copyID, path string) (app.File, error) {
	content, info, err := c.Store.Open(ctx, copyID, path)
	if domain.HasCode(err, snapshots.CodeNotRegular) || domain.HasCode(err, domain.CodeFileNotFound) {
		err = domain.Newf(domain.NotFound, domain.CodeFileNotFound, "the app has no such file")
	}

	if err != nil {
		return app.File{}, err
	}

	return app.File{Content: content, Size: info.Size, ETag: `"` + info.Identity + `"`}, nil
}

// Directory implements apps.Copies.
func (c AppCopies) Directory(ctx context.Context, copyID, path string) (bool, error) {
	view, err := c.Store.View(ctx, copyID)
	if err != nil {
		return false, err
	}

	info, err := view.Stat(path)

	return err == nil && info.Type == snapshots.Directory, err
}

// Drop implements apps.Copies.
func (c AppCopies) Drop(ctx context.Context, name string) error {
	return c.Store.DeleteSession(ctx, domain.SessionID(name))
}
