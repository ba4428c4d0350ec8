package history

import (
	"context"

	"everloop/domain"
	"everloop/domain/history"
)

// maxListed is how many files a checkout lists; of more only those that changed.
const maxListed = 20_000

// Checkout shows a session as it was before a checkpoint's turn, or at the end of
// the chat that the turn started. Nothing is changed by it.
func (d *Service) Checkout(
	ctx context.Context,
	sessionID domain.SessionID, checkpointID domain.CheckpointID,
	position history.CheckoutPosition,
) (history.Checkout, error) {
	out := history.Checkout{CheckpointID: checkpointID, Position: position, Turns: []domain.Turn{}, Files: []history.FileDifference{}}

	view, err := d.view(ctx, sessionID, func() (history.CheckoutView, error) {
		return d.CheckoutView(ctx, sessionID, checkpointID, position)
	})
	if err != nil {
		return out, err
	}

	out.Tokens = view.Tokens

	err = d.TurnsBefore(ctx, view.BranchID, view.UpTo, func(t domain.Turn) error {
		out.Turns = append(out.Turns, t)
		return nil
	})
	if err != nil || view.Snapshot == "" {
		return out, err
	}

	out.SnapshotID = &view.Snapshot
	out.Files, out.FilesTruncated, err = d.listing(ctx, view)

	return out, err
}

// view looks again when the files of the place are just being captured.
func (d *Service) view(
	ctx context.Context,
	sessionID domain.SessionID,
	look func() (history.CheckoutView, error),
) (history.CheckoutView, error) {
	view, err := look()
	if err != nil || view.Snapshot != "" {
		return view, err
	}

	if err := d.Settled(ctx, sessionID); err != nil {
		return view, err
	}

	return look()
}

// listing gives the files of a view, each with what became of it since the place
// before.
func (d *Service) listing(ctx context.Context, view history.CheckoutView) (files []history.FileDifference, truncated bool, err error) {
	changed, err := d.cfg.Files.Diff(ctx, view.Before, view.Snapshot)
	if err != nil {
		return nil, false, err
	}

	what := make(map[string]string, len(changed))
	for _, f := range changed {
		what[f.Path] = f.Change
	}

	files = []history.FileDifference{}

	err = d.cfg.Files.Walk(ctx, view.Snapshot, func(path string, size int64) error {
		change := what[path]
		delete(what, path)

		switch {
		case change == "" && len(files) >= maxListed:
			truncated = true
			return nil
		case change == "":
			change = "unchanged"
		}

		files = append(files, history.FileDifference{Path: path, Change: change, Size: size})

		return nil
	})
	if truncated {
		return changed, true, err
	}

	for _, f := range changed {
		if f.Change == "deleted" {
			files = append(files, f)
		}
	}

	return files, false, err
}

// Compare holds two branches of a session against each other, files included.
func (d *Service) Compare(ctx context.Context, sessionID domain.SessionID, base, other domain.BranchID) (history.Comparison, error) {
	if err := d.Settled(ctx, sessionID); err != nil {
		return history.Comparison{}, err
	}

	out, err := d.CompareBranches(ctx, sessionID, base, other)

	out.Files = []history.FileDifference{}
	if err != nil || out.Base.Snapshot == "" || out.Other.Snapshot == "" {
		return out, err
	}

	files, err := d.cfg.Files.Diff(ctx, out.Base.Snapshot, out.Other.Snapshot)
	if files != nil {
		out.Files = files
	}

	return out, err
}
