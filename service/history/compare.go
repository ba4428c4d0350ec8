package history

import (
	"context"
	"io"

	"everloop/domain"
	"everloop/domain/history"
)

// CheckpointChanges gives a page of the files that differ between a checkpoint and another
// one, or the workspace as it is when to is empty, and how many there are.
func (d *Service) CheckpointChanges(
	ctx context.Context,
	session domain.Session,
	checkpointID domain.CheckpointID, to domain.CheckpointID,
	offset, limit int,
) (page []history.FileComparison, total int, err error) {
	in := CompareIn{SessionID: session.ID, SandboxUID: session.SandboxUID}
	if in.From, err = d.snapshot(ctx, session.ID, checkpointID); err != nil {
		return nil, 0, err
	}

	if to != "" {
		if in.To, err = d.snapshot(ctx, session.ID, to); err != nil {
			return nil, 0, err
		}
	}

	files, err := d.compare(ctx, in)
	from := min(offset, len(files))

	return files[from:min(from+limit, len(files))], len(files), err
}

// maxComparisons is how many workspaces a process compares at a time: each takes some
// hundred bytes of memory for each file. Others wait.
const maxComparisons = 4

func (d *Service) compare(ctx context.Context, in CompareIn) ([]history.FileComparison, error) {
	select {
	case d.comparing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	defer func() { <-d.comparing }()

	return d.cfg.Files.Compare(ctx, in)
}

// OpenFile opens a file as it was at a checkpoint; ctx holds for the reading too.
func (d *Service) OpenFile(
	ctx context.Context,
	sessionID domain.SessionID,
	checkpointID domain.CheckpointID,
	path string,
) (io.ReadSeekCloser, domain.FileInfo, error) {
	snapshot, err := d.snapshot(ctx, sessionID, checkpointID)
	if err != nil {
		return nil, domain.FileInfo{}, err
	}

	return d.cfg.Files.Open(ctx, snapshot, path)
}

// errNotCaptured is the error of a look at the files of a checkpoint that has none.
var errNotCaptured = domain.Newf(domain.NotFound, "snapshot_not_found", "the files of this checkpoint were not captured")

// snapshot gives the snapshot of a checkpoint. It looks again when the files are just
// being captured.
func (d *Service) snapshot(ctx context.Context, sessionID domain.SessionID, checkpointID domain.CheckpointID) (string, error) {
	id, err := d.CheckpointSnapshot(ctx, sessionID, checkpointID)
	if err != nil || id != "" {
		return id, err
	}

	if err := d.Settled(ctx, sessionID); err != nil {
		return "", err
	}

	id, err = d.CheckpointSnapshot(ctx, sessionID, checkpointID)
	if err == nil && id == "" {
		err = errNotCaptured
	}

	return id, err
}
