package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/replay"
	"everloop/internal/durable"
	"everloop/service/recordings"
)

// Service creates, reads, changes and plays replays.
type Service struct {
	*Store
	deps    recordings.Deps
	archive *recordings.Service

	playing durable.Shared[contract.PlayReplayIn, contract.PlayReplayOut]
}

// New returns a new service that reads the events of sessions from an archive. It fails
// when a dependency is missing.
func New(deps recordings.Deps, archive *recordings.Service) (*Service, error) {
	if err := deps.Check(); err != nil {
		return nil, err
	}

	return &Service{Store: NewStore(deps.DB, deps.Outbox), deps: deps, archive: archive}, nil
}

// Preview reports whether a session can be replayed. The caller is authorised.
func (d *Service) Preview(ctx context.Context, session domain.Session) (replay.Preview, error) {
	src, err := d.read(ctx, session)
	if err != nil {
		return replay.Preview{}, err
	}

	preview := replay.Preview{SessionID: session.ID, Intent: session.Intent, Supported: true}
	if reason := src.reason(session); reason != "" {
		preview.Supported, preview.Reason = false, &reason
	}

	return preview, nil
}

func (d *Service) read(ctx context.Context, session domain.Session) (*source, error) {
	src := newSource(session.ID)
	return src, d.archive.SessionRecords(ctx, session.ID, true, src.frame, src.entry)
}

// Start makes a session of the caller's that plays the given one, and starts to
// play. The caller is authorised.
func (d *Service) Start(ctx context.Context, caller domain.User, session domain.Session, speed int) (domain.SessionID, error) {
	src, err := d.read(ctx, session)
	if err != nil {
		return "", err
	}

	switch reason := src.reason(session); reason {
	case "":
	case replay.Running:
		return "", domain.Newf(domain.Conflict, domain.CodeSessionBusy, "the session is still running")
	default:
		return "", domain.Newf(domain.Conflict, "replay_unsupported", "the session cannot be replayed: %s", reason)
	}

	if err := d.archive.Events(ctx, session.ID, src.event); err != nil {
		return "", fmt.Errorf("read the events of %s: %w", session.ID, err)
	}

	made := replay.NewReplay{
		SessionID: domain.SessionID(domain.NewID()),
		BranchID:  domain.BranchID(domain.NewID()),
		Source:    session,
		OwnerID:   caller.ID,
		Speed:     speed,
	}

	steps, err := src.script(made.SessionID, made.BranchID)
	if err != nil {
		return "", err
	}

	made.Total, made.Snapshot = len(steps), src.before()
	if err := d.make(ctx, made, steps, src.pictures()); err != nil {
		return "", errors.Join(err, d.discard(ctx, made.SessionID))
	}

	d.start(ctx, made.SessionID, caller.ID)

	return made.SessionID, nil
}

// make keeps what the replay needs before its row reports that it is there.
func (d *Service) make(ctx context.Context, in replay.NewReplay, steps []replay.Step, pictures bool) (err error) {
	if in.Script, err = d.keep(ctx, in.SessionID, steps); err != nil {
		return err
	}

	if pictures {
		if err := d.deps.Objects.CopyPrefix(ctx, images(in.Source.ID), images(in.SessionID)); err != nil {
			return err
		}
	}

	return d.CreateReplay(ctx, in)
}

func images(sessionID domain.SessionID) string {
	return "images/" + string(sessionID) + "/"
}

// discard takes away what was kept for a replay that was not made. When no process can
// say whether it was, all stays.
func (d *Service) discard(ctx context.Context, sessionID domain.SessionID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()

	if _, err := d.Replay(ctx, sessionID); domain.AsError(err).Kind != domain.NotFound {
		return err
	}

	return errors.Join(d.deps.Objects.DeletePrefix(ctx, Prefix(sessionID)), d.deps.Objects.DeletePrefix(ctx, images(sessionID)))
}

// before returns the snapshot of the files as they were before the first turn; "" when
// there is none.
func (s *source) before() string {
	for _, k := range s.tree.Checkpoints {
		if k.TurnID == s.entries[0].ID && k.Kind == domain.CheckpointUserTurn && k.SnapshotID != nil {
			return *k.SnapshotID
		}
	}

	return ""
}

// pictures reports whether any message of the branch has pictures or recordings, or any result images.
func (s *source) pictures() bool {
	for _, e := range s.entries {
		for _, p := range e.Parts {
			if p.Attachment() != "" {
				return true
			}
		}

		for _, call := range e.Calls {
			if len(call.Images) > 0 {
				return true
			}
		}
	}

	return false
}

func (d *Service) keep(ctx context.Context, sessionID domain.SessionID, steps []replay.Step) (key string, err error) {
	data, err := Encode(steps)
	if err != nil {
		return "", err
	}

	key = Prefix(sessionID) + domain.NewID()

	return key, d.deps.Objects.Put(ctx, key, data)
}

// start starts the run; the periodic job does it again when that fails.
func (d *Service) start(ctx context.Context, sessionID domain.SessionID, ownerID string) {
	if err := d.deps.Runs.StartReplay(context.WithoutCancel(ctx), sessionID, ownerID); err != nil {
		d.deps.Logger.Warn("failed to start a replay, retrying", "session_id", sessionID, "error", err)
	}
}

// Script gives what a replay plays.
func (d *Service) Script(ctx context.Context, key string) ([]replay.Step, error) {
	data, err := d.deps.Objects.Get(ctx, key)
	if err != nil {
		return nil, err
	}

	steps, err := Decode(data)
	if err != nil {
		return nil, &domain.Error{Kind: domain.Invalid, Code: "replay_damaged", Message: "the script of this replay is damaged", Err: err}
	}

	return steps, nil
}

// Change changes a replay of the owner's.
func (d *Service) Change(ctx context.Context, owner domain.User, session domain.Session, change replay.Change) error {
	claim, err := d.Replay(ctx, session.ID)
	if err != nil {
		return err
	}

	if change.Speed != nil {
		if err := d.SetReplaySpeed(ctx, owner.ID, session.ID, *change.Speed); err != nil {
			return err
		}
	}

	switch {
	case change.HandOver:
		if err := d.HandOverReplay(ctx, owner.ID, session.ID); err != nil {
			return err
		}

		return d.Settle(ctx, session.ID)
	case change.Resume && (claim.Status == domain.ReplayPaused || claim.Status == domain.ReplayAutonomous):
		return d.resume(ctx, owner, session, claim)
	}

	return nil
}

// resume continues playing behind an interruption.
func (d *Service) resume(ctx context.Context, owner domain.User, session domain.Session, claim replay.Claim) error {
	script, err := d.Script(ctx, claim.Script)
	if err != nil {
		return err
	}

	steps, position, err := resume(script, claim.Position)
	if err != nil {
		return err
	}

	key, err := d.keep(ctx, session.ID, steps)
	if err != nil {
		return err
	}

	if err := d.ResumeReplay(ctx, owner.ID, claim, key, position, len(steps)); err != nil {
		return err
	}

	d.start(ctx, session.ID, owner.ID)

	return nil
}

// Settle brings the files to a session whose playback has ended, when they are
// owed. It may be broken off at any point and run again.
func (d *Service) Settle(ctx context.Context, sessionID domain.SessionID) error {
	claim, err := d.Replay(ctx, sessionID)
	if err != nil || !claim.FilesOwed {
		return err
	}

	own, source, found, err := d.ReplayPair(ctx, sessionID)
	if err != nil {
		return err
	}

	if !found {
		d.deps.Logger.Warn(
			"source session of a replay deleted, skipping its files",
			"session_id",
			sessionID,
			"source_session_id",
			claim.SourceID,
		)

		return d.ReplayFilesCopied(ctx, sessionID)
	}

	if err := d.deps.Objects.CopyPrefix(ctx, "snapshots/"+string(source.ID)+"/", "snapshots/"+string(sessionID)+"/"); err != nil {
		return fmt.Errorf("copy the snapshots of %s: %w", source.ID, err)
	}

	if err := d.deps.Files.CopyFiles(ctx, source, own, claim.SnapshotID); err != nil {
		return fmt.Errorf("copy the files of %s: %w", source.ID, err)
	}

	return d.ReplayFilesCopied(ctx, sessionID)
}

// staleAge is after how long a replay of which nothing is heard is started
// again. A pause is at most three seconds long.
const staleAge = 20 * time.Second

// Repair starts replays that a crash has left, and brings files that are owed.
func (d *Service) Repair(ctx context.Context) error {
	stale, err := d.StaleReplays(ctx, staleAge)
	if err != nil {
		return err
	}

	var failed []error

	for _, id := range stale {
		own, _, _, err := d.ReplayPair(ctx, domain.SessionID(id))
		if err == nil {
			d.start(ctx, domain.SessionID(id), own.OwnerID)
		}

		failed = append(failed, err)
	}

	return errors.Join(failed...)
}
