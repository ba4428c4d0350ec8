//go:build linux

package files

import (
	"context"
	"strconv"

	"everloop/domain"
	"everloop/infra/snapshots"
	"everloop/infra/workspace"
)

// AppCopies keeps the copies of published apps as snapshots of their directories, apart
// from those of sessions. It implements apps.Copies.
type AppCopies struct {
	Store      *snapshots.Store
	Workspaces *workspace.Store
}

// appKey is the name under which the store has the copies of an app.
func appKey(appID string) string { return "app-" + appID }

// Take implements apps.Copies. The directory is looked at before it is copied;
// what grows beyond the bounds meanwhile is found afterwards.
func (c AppCopies) Take(ctx context.Context, appID string, session domain.Session, dir string) (string, error) {
	w, err := c.Workspaces.Open(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return "", err
	}
	defer func() { _ = w.Close() }()

	var (
		files int
		bytes int64
	)

	if err := w.Walk(ctx, dir, func(info workspace.Info) error {
		files, bytes = files+1, bytes+info.Size
		return appBounds(files, bytes)
	}); err != nil {
		return "", err
	}

	root, err := w.OpenDir(dir)
	if err != nil {
		return "", err
	}

	defer func() { _ = root.Close() }()

	taken, err := c.Store.Capture(ctx, snapshots.CaptureIn{
		SessionID: appKey(appID), Root: "/proc/self/fd/" + strconv.Itoa(int(root.Fd())) + "/.", UID: session.SandboxUID,
	})
	if err != nil {
		return "", err
	}

	return taken.ID, appBounds(taken.Files, taken.Bytes)
}

func appBounds(files int, bytes int64) error {
	if files <= domain.MaxAppFiles && bytes <= domain.MaxAppBytes {
		return nil
	}

	return domain.Newf(domain.TooLarge, domain.CodeAppTooLarge, "an app has at most %d files and %d MB",
		domain.MaxAppFiles, domain.MaxAppBytes>>20)
}

// Open implements apps.Copies.
func (c AppCopies) Open(ctx context.Context, copyID, path string) (domain.AppFile, error) {
	content, info, err := c.Store.Open(ctx, copyID, path)
	if domain.HasCode(err, snapshots.CodeNotRegular) || domain.HasCode(err, domain.CodeFileNotFound) {
		err = domain.Newf(domain.NotFound, domain.CodeFileNotFound, "the app has no such file")
	}

	if err != nil {
		return domain.AppFile{}, err
	}

	return domain.AppFile{Content: content, Size: info.Size, ETag: `"` + info.Identity + `"`}, nil
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
func (c AppCopies) Drop(ctx context.Context, appID string) error {
	return c.Store.DeleteSession(ctx, appKey(appID))
}
