package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/internal/safezip"
)

// workspace writes the files of the session as they are now. Links are listed in
// the manifest; what cannot be carried is listed with the reason.
func (x *Export) workspace(ctx context.Context, z *zipper) error {
	if !x.parts.Files {
		return nil
	}

	entries := 0

	return x.service.cfg.Files.Walk(ctx, x.session, func(f domain.CarriedFile) error {
		if entries++; entries > limits.Files {
			x.skip(f.Path, fmt.Sprintf("the workspace has more than %d files and directories; the rest is left out", limits.Files))
			return fs.SkipAll
		}

		if problem := safezip.CheckName(f.Path); problem != "" {
			x.skip(f.Path, problem)
			return nil
		}

		switch typeOf(f.Mode) {
		case typeDirectory:
			return z.directory(workspaceDir + f.Path)
		case typeLink:
			if problem := linkProblem(f.Path, f.Target); problem != "" {
				x.skip(f.Path, problem)
				return nil
			}

			x.m.Links = append(x.m.Links, link{f.Path, f.Target})

			return nil
		}

		if f.Size > limits.File {
			x.skip(f.Path, "is too large")
			return nil
		}

		m := member{Name: workspaceDir + f.Path, Size: f.Size, Mode: uint32(f.Mode.Perm())}
		if err := x.add(ctx, z, m, f.Open); err != nil {
			if gone, ok := errors.AsType[notOpened](err); ok && unreadable(gone) {
				x.skip(f.Path, "could not be read")
				return nil
			}

			return err
		}

		x.m.Counts.Files++
		x.m.Counts.Bytes += x.m.Members[len(x.m.Members)-1].Size

		return nil
	})
}

// unreadable reports that the trouble is the file's own: it is gone in the meantime, or is
// no regular file any more.
func unreadable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || domain.AsError(err).Kind != domain.Internal
}

// maxSkipped bounds the list of what is not carried.
const maxSkipped = 10_000

func (x *Export) skip(at, reason string) {
	if len(x.m.Skipped) < maxSkipped {
		if len(at) > 500 {
			at = at[:500]
		}

		x.m.Skipped = append(x.m.Skipped, skipped{at, reason})
	}
}

// snapshots writes what the checkpoints hold: each content once, and for each
// snapshot the list of its files.
func (x *Export) snapshots(ctx context.Context, z *zipper) error {
	body := checkpointsBody{Checkpoints: x.tree.Checkpoints, Snapshots: []snapshot{}}
	if body.Checkpoints == nil {
		body.Checkpoints = []transfer.CheckpointRecord{}
	}

	known := map[string]bool{}

	for i, k := range body.Checkpoints {
		if k.SnapshotID == nil {
			continue
		}

		if !x.parts.Files {
			body.Checkpoints[i].SnapshotID = nil
			continue
		}

		if found, seen := known[*k.SnapshotID]; seen {
			if !found {
				body.Checkpoints[i].SnapshotID = nil
			}

			continue
		}

		s := snapshot{ID: *k.SnapshotID, Files: []snapshotFile{}}

		found, err := x.service.cfg.Files.WalkSnapshot(ctx, s.ID, func(f domain.CarriedFile) error {
			file, carried, err := x.snapshotFile(ctx, z, f)
			if carried {
				s.Files = append(s.Files, file)
			}

			return err
		})
		if err != nil {
			return err
		}

		if known[s.ID] = found; !found {
			body.Checkpoints[i].SnapshotID = nil
			continue
		}

		body.Snapshots = append(body.Snapshots, s)
	}

	if err := x.json(checkpointsFile, body); err != nil {
		return err
	}

	info, err := os.Stat(x.file(checkpointsFile))
	if err != nil {
		return err
	}

	return x.add(
		ctx,
		z,
		member{Name: checkpointsFile, Size: info.Size()},
		func() (io.ReadCloser, error) { return os.Open(x.file(checkpointsFile)) },
	)
}

func (x *Export) snapshotFile(ctx context.Context, z *zipper, f domain.CarriedFile) (snapshotFile, bool, error) {
	out := snapshotFile{Path: f.Path, Type: typeOf(f.Mode), Mode: uint32(f.Mode.Perm()), Target: f.Target}
	if safezip.CheckName(f.Path) != "" || out.Type == typeLink && linkProblem(f.Path, f.Target) != "" {
		return out, false, nil
	}

	if out.Type != typeFile {
		return out, true, nil
	}

	if f.Size > limits.File {
		return out, false, nil
	}

	out.Size = f.Size
	if sum, seen := x.blobs[f.Identity]; seen && f.Identity != "" {
		out.SHA256 = sum
		return out, true, nil
	}

	content, err := f.Open()
	if err != nil {
		return out, false, err
	}

	sum, err := hashOf(ctx, content)
	_ = content.Close()

	if err != nil {
		return out, false, err
	}

	out.SHA256 = sum

	x.blobs[f.Identity] = sum
	if x.kept[sum] {
		return out, true, nil
	}

	x.kept[sum] = true

	return out, true, x.add(ctx, z, member{Name: blobsDir + sum, Size: f.Size}, f.Open)
}
