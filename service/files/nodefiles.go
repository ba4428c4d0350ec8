//go:build linux

package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"io/fs"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/infra/snapshots"
	"everloop/infra/workspace"
	"everloop/internal/diskspace"
)

// Collect stores the regular files of a session's workspace for which selects returns true as a snapshot
// with a name. Files in the service's own directory, links, pipes, sockets and devices are
// not selected. More files or bytes than a unit of a run can pass on are a failure, and
// nothing is stored.
func (c Carrier) Collect(ctx context.Context, session domain.Session, name string, selects func(path string) bool) (
	set dagrun.FileSet, failure *dagrun.NodeFailure, err error,
) {
	w, err := c.Workspaces.Open(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return set, nil, err
	}
	defer w.Close()

	if err := w.AwaitWrites(ctx); err != nil {
		return set, nil, err
	}

	set.Files = []dagrun.OutputFile{}

	total := int64(0)
	err = w.Walk(ctx, ".", func(info workspace.Info) error {
		switch {
		case info.Path == dag.ServiceDir:
			return fs.SkipDir
		case info.Type != workspace.File || !selects(info.Path):
			return nil
		}

		set.Files = append(set.Files, dagrun.OutputFile{Path: info.Path, Size: info.Size, Mode: uint32(info.Mode)})
		total += info.Size

		if failure = dagrun.CheckFiles(len(set.Files), total); failure != nil {
			return fs.SkipAll
		}

		return nil
	})
	if err != nil || failure != nil || len(set.Files) == 0 {
		return set, failure, err
	}

	set.Snapshot, err = c.store(ctx, w, domain.SessionID(name), set.Files)

	return set, nil, err
}

// store stores files of a workspace as a snapshot, and fills in their digests. A file that
// shrinks in the meantime is an error; of one that grows, what it had is stored.
func (c Carrier) store(ctx context.Context, w *workspace.Workspace, name domain.SessionID, files []dagrun.OutputFile) (string, error) {
	sums := map[string]hash.Hash{}

	builder, err := c.Snapshots.NewBuilder(name, func(path string) (io.ReadCloser, error) {
		content, _, err := w.Open(path)
		if err != nil {
			return nil, err
		}

		sums[path] = sha256.New()

		return hashed{content, io.TeeReader(content, sums[path])}, nil
	})
	if err != nil {
		return "", err
	}

	entries := make([]snapshots.BuildEntry, len(files))
	for i, f := range files {
		entries[i] = snapshots.BuildEntry{Path: f.Path, Type: snapshots.File, Mode: fs.FileMode(f.Mode), Size: f.Size, Content: f.Path}
	}

	id, err := builder.Build(ctx, entries)
	if err != nil {
		return "", err
	}

	for i := range files {
		sum := sums[files[i].Path]
		if sum == nil { // it is empty, and was not opened
			sum = sha256.New()
		}

		files[i].SHA256 = hex.EncodeToString(sum.Sum(nil))
	}

	return id, nil
}

// hashed is a content whose bytes are hashed while they are read.
type hashed struct {
	io.Closer
	io.Reader
}

// Place writes files of snapshots to the workspace of a session. Files of the same names are
// replaced; a link in the way is an error, and is not followed out of the workspace.
func (c Carrier) Place(ctx context.Context, session domain.Session, placed []dagrun.Placement) error {
	w, err := c.Workspaces.Open(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return err
	}
	defer w.Close()

	grows := diskspace.Usage{}
	for _, p := range placed {
		grows = grows.Plus(diskspace.Usage{Bytes: diskspace.PerInode + diskspace.Block(p.File.Size), Inodes: 1})
	}

	if err := w.Fits(ctx, grows); err != nil {
		return err
	}

	views := map[string]*snapshots.View{}

	for _, p := range placed {
		view := views[p.Snapshot]
		if view == nil {
			if view, err = c.Snapshots.View(ctx, p.Snapshot); err != nil {
				return err
			}

			views[p.Snapshot] = view
		}

		if err := put(ctx, w, view, p); err != nil {
			return err
		}
	}

	return nil
}

func put(ctx context.Context, w *workspace.Workspace, view *snapshots.View, p dagrun.Placement) error {
	var content io.ReadCloser = io.NopCloser(bytes.NewReader(nil))

	if p.File.Size > 0 {
		var err error
		if content, _, err = view.Open(ctx, p.File.Path); err != nil {
			return err
		}
	}

	_, err := w.WriteFile(ctx, p.To, content, workspace.WriteOptions{Parents: true, Mode: fs.FileMode(p.File.Mode)})
	_ = content.Close() // of a snapshot, which closes without an error

	return err
}

// OpenSnapshot opens a file of a snapshot; ctx must be valid while it is read.
func (c Carrier) OpenSnapshot(ctx context.Context, snapshotID, path string) (io.ReadSeekCloser, domain.FileInfo, error) {
	content, info, err := c.Snapshots.Open(ctx, snapshotID, path)
	return content, domain.FileInfo{Name: path, Size: info.Size, ModTime: info.ModTime, ETag: `"` + info.Identity + `"`}, err
}

// Drop removes all snapshots with a name.
func (c Carrier) Drop(ctx context.Context, name string) error {
	return c.Snapshots.DeleteSession(ctx, domain.SessionID(name))
}
