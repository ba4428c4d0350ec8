package dagruns

import (
	"cmp"
	"context"
	"errors"
	"io"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
)

// PlaceFiles implements contract.PlaceDAGFiles: it creates the session of an attempt, and puts
// the files into its workspace that the node is given: those of the workspace that it
// continues, then output files of earlier nodes.
func (s *Service) PlaceFiles(ctx context.Context, in contract.DAGAttempt) (out contract.BeginDAGNodeOut, err error) {
	work, err := s.Claim(ctx, in)
	if err != nil {
		return rejection(out, err)
	}

	out.UnitID = work.Unit.ID

	return rejection(out, s.place(ctx, in, work))
}

func (s *Service) place(ctx context.Context, in contract.DAGAttempt, work dagrun.Work) error {
	if _, err := s.prepare(ctx, work); err != nil {
		return err
	}

	owner := caller(work.Run.OwnerID).User

	session, err := s.cfg.Sessions.OwnSession(ctx, owner, work.Unit.SessionID)
	if err != nil {
		return err
	}

	from, placed, err := s.placements(ctx, in)
	if err != nil {
		return err
	}

	if from != "" {
		before, err := s.cfg.Sessions.OwnSession(ctx, owner, from)
		if domain.HasCode(err, domain.CodeSessionNotFound) {
			err = domain.Newf(domain.NotFound, dagrun.CodeSessionDeleted, "the session whose workspace the node continues was deleted")
		}

		if err != nil {
			return err
		}

		if err := s.cfg.Files.CopyFiles(ctx, before, session, ""); err != nil {
			return err
		}
	}

	return s.cfg.Files.Place(ctx, session, placed)
}

// CaptureFiles implements contract.CaptureDAGFiles: it stores the output files of an attempt
// whose work has ended. A repeat stores the same.
func (s *Service) CaptureFiles(ctx context.Context, in contract.DAGAttempt) (out struct{}, err error) {
	work, err := s.capturing(ctx, in)
	if err != nil || work.Unit.Status != dagrun.Running {
		return out, err
	}

	captured, err := s.collect(ctx, work)
	if err != nil {
		return out, err
	}

	return out, s.storeFiles(ctx, in, captured)
}

func (s *Service) collect(ctx context.Context, work dagrun.Work) (captured dagrun.Captured, err error) {
	session, err := s.cfg.Sessions.OwnSession(ctx, caller(work.Run.OwnerID).User, work.Unit.SessionID)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		captured.Failure = &dagrun.NodeFailure{Code: dagrun.CodeSessionDeleted, Message: "its session was deleted"}
		return captured, nil
	}

	if err != nil {
		return captured, err
	}

	set, failure, err := s.cfg.Files.Collect(ctx, session, snapshotsOf(work.Run.ID), dagrun.Selects(work.Node))
	if err != nil {
		return captured, err
	}

	set.Item = work.Unit.Item

	if captured.Failure = failure; failure == nil {
		captured.Failure = dagrun.CheckNames(work.Node, set.Files)
	}

	if captured.Failure == nil {
		captured.Sets = []dagrun.FileSet{set}
	}

	return captured, nil
}

// snapshotsOf returns the name of the snapshots of a run, which no session has.
func snapshotsOf(runID string) string { return "dag-" + runID }

// OpenNodeFile opens an output file of a node of a run that the caller was found to see; ctx
// must be valid while it is read. Item is that of a map node, else dagrun.NoItem.
func (s *Service) OpenNodeFile(ctx context.Context, runID, nodeID string, item int, path string) (
	io.ReadSeekCloser, domain.FileInfo, error,
) {
	sets, err := s.fileSets(ctx, runID, nodeID)
	if err != nil {
		return nil, domain.FileInfo{}, err
	}

	for _, set := range sets {
		for _, f := range set.Files {
			if set.Item == item && f.Path == path {
				content, info, err := s.cfg.Files.OpenSnapshot(ctx, set.Snapshot, path)
				info.ETag = `"` + f.SHA256 + `"`

				return content, info, err
			}
		}
	}

	return nil, domain.FileInfo{}, domain.Newf(domain.NotFound, domain.CodeFileNotFound, "the node has no such output file")
}

// maxCleared bounds the runs whose files one call of ClearFiles removes.
const maxCleared = 100

// ClearFiles removes the files of runs that were deleted.
func (s *Service) ClearFiles(ctx context.Context) error {
	runs, err := s.deletedWithFiles(ctx, maxCleared)
	faults := []error{err}

	for _, runID := range runs {
		err := s.cfg.Files.Drop(ctx, snapshotsOf(runID))
		if err == nil {
			err = s.forgetFiles(ctx, runID)
		}

		faults = append(faults, err)
	}

	return errors.Join(faults...)
}

// sourceOf returns the nodes that worked in the workspace of a node before it, the latest first.
func sourcesOf(graph dag.Graph, n dag.Node) (sources []string) {
	if n.Workspace == "" {
		return nil
	}

	root := graph.WorkspaceOf(n.ID)
	for _, id := range graph.Order() {
		if id == n.ID {
			break
		}

		if graph.WorkspaceOf(id) == root {
			sources = append([]string{id}, sources...)
		}
	}

	return sources
}

// rejection returns a failure that another try of the step cannot repair as the rejection of
// the attempt. A run that is over rejects the step itself.
func rejection(out contract.BeginDAGNodeOut, err error) (contract.BeginDAGNodeOut, error) {
	if err == nil || domain.HasCode(err, dagrun.CodeRunOver) || domain.HasCode(err, dagrun.CodeRunNotFound) {
		return out, err
	}

	e := domain.AsError(err)
	if e.Retryable() {
		return out, err
	}

	return contract.BeginDAGNodeOut{
		UnitID: out.UnitID, Rejected: &dagrun.NodeFailure{Code: cmp.Or(e.Code, dagrun.CodeAdvance), Message: shorten(e.Message)},
	}, nil
}
