package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/internal/fencing"
	"everloop/service/recordings"
)

// startTimeout bounds the start of a workflow. The reconciler starts what was not started.
const startTimeout = 30 * time.Second

// Import makes a session of an uploaded archive and waits for it. A workflow carries
// it out, so that it continues when the caller leaves. A request with the
// Idempotency-Key of another one gets the result of that one.
func (d *Service) Import(
	ctx context.Context,
	in transfer.ImportRequest,
) (sessionID domain.SessionID, from transfer.ImportedFrom, err error) {
	sum, err := requestSum(in)
	if err != nil {
		return "", from, err
	}

	sessionID, err = d.startImport(ctx, in, sum)
	if sessionID != in.Upload.SessionID {
		discarded, left := d.Discard(ctx, in.Upload)
		if left != nil {
			d.cfg.Logger.Warn("failed to discard an upload; it will be removed later", "session_id", in.Upload.SessionID, "error", left)
		}

		if domain.AsError(err).Kind == domain.Unavailable && left == nil && !discarded {
			sessionID, err = in.Upload.SessionID, nil // it was stored, only the answer was lost
		}
	}

	if err != nil {
		return "", from, err
	}

	d.start(ctx, transfer.Import{SessionID: sessionID, OwnerID: in.OwnerID})
	from, err = d.await(ctx, sessionID)

	return sessionID, from, err
}

// requestSum names what is asked for.
func requestSum(in transfer.ImportRequest) ([]byte, error) {
	options, err := json.Marshal(in.Options)
	sum := sha256.Sum256(append(append([]byte{}, in.Upload.SHA256...), options...))

	return sum[:], err
}

// start starts the workflow of an import. It does not wait, and continues when the
// caller has left.
func (d *Service) start(ctx context.Context, in transfer.Import) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	go func() {
		defer cancel()

		if err := d.cfg.Runs.StartImport(ctx, in); err != nil {
			d.cfg.Logger.Warn("failed to start the workflow of an import; it will be retried", "session_id", in.SessionID, "error", err)
		}
	}()
}

// Pauses between two reads of an import that a caller waits for.
const (
	firstRead = 5 * time.Millisecond
	lastRead  = 250 * time.Millisecond
)

// errPending is the answer to a caller who has waited for as long as a request may
// take.
var errPending = domain.Newf(domain.Unavailable, "import_pending",
	"the session is still being made and will appear; list the sessions again later instead of repeating the request")

// await waits for the result of an import by reading its row: the result of the
// workflow may arrive seconds after its end. A database that is away for a moment
// does not end it.
func (d *Service) await(ctx context.Context, sessionID domain.SessionID) (transfer.ImportedFrom, error) {
	for between := firstRead; ; between = min(between*3/2, lastRead) {
		from, done, err := d.ImportResult(ctx, sessionID)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return from, errPending
		case ctx.Err() != nil:
			return from, ctx.Err()
		case done, err != nil && domain.AsError(err).Kind != domain.Unavailable:
			return from, err
		}

		timer := time.NewTimer(between)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}

		timer.Stop()
	}
}

// maxAttempts is how often an import is tried when the database or the object store
// is away, or a worker dies: for some minutes. maxFaults is how often it is tried
// after a fault of another kind.
const (
	maxAttempts = 20
	maxFaults   = 3
)

// Load carries out an import as one attempt of its workflow. The error of an import
// that has failed is not returned: nothing is left of it then.
func (d *Service) Load(ctx context.Context, sessionID domain.SessionID) error {
	release, err := d.reading.wait(ctx, maxReading)
	if err != nil {
		return err
	}
	defer release()

	in, err := d.AttemptImport(ctx, sessionID)
	if err != nil {
		return err
	}

	if in.State == transfer.ImportRunning {
		attempt, release := d.fence(ctx, in)
		defer release()

		err = d.load(attempt, in)
		switch {
		case err == nil:
		case attempt.Err() != nil:
			return fencing.Cause(attempt, err)
		case !final(err, in.Attempt):
			return err
		default:
			return d.giveUp(attempt, in, err)
		}
	}

	return d.cfg.Objects.DeletePrefix(ctx, uploadPrefix(sessionID))
}

// Abort ends an import whose workflow an operator has cancelled. Nothing is left of
// it.
func (d *Service) Abort(ctx context.Context, sessionID domain.SessionID, reason string) error {
	in, err := d.AttemptImport(ctx, sessionID)
	if err != nil {
		return err
	}

	if in.State != transfer.ImportRunning {
		return d.cfg.Objects.DeletePrefix(ctx, uploadPrefix(sessionID))
	}

	attempt, release := d.fence(ctx, in)
	defer release()

	return d.giveUp(attempt, in, domain.Newf(domain.Conflict, "import_cancelled", "the import was cancelled: %s", reason))
}

// fence returns a context that is cancelled with domain.ErrFenced once another
// attempt may have started.
func (d *Service) fence(ctx context.Context, in transfer.Import) (context.Context, func()) {
	return fencing.Guard(ctx, domain.ErrFenced, func(ctx context.Context) error { return d.CheckImport(ctx, in) })
}

// final reports that an import is not tried again.
func final(err error, attempt int) bool {
	switch domain.AsError(err).Kind {
	case domain.Unavailable:
		return attempt >= maxAttempts
	case domain.Internal:
		return attempt >= maxFaults
	default:
		return !errors.Is(err, domain.ErrFenced)
	}
}

// giveUp removes what an import has written and fails it.
func (d *Service) giveUp(ctx context.Context, in transfer.Import, cause error) error {
	err := d.clear(ctx, in.SessionID)
	if err == nil {
		err = d.cfg.Objects.DeletePrefix(ctx, uploadPrefix(in.SessionID))
	}

	if err == nil {
		err = d.FailImport(ctx, in, domain.AsError(cause))
	}

	if err != nil {
		return fencing.Cause(ctx, errors.Join(cause, err))
	}

	if kind := domain.AsError(cause).Kind; kind == domain.Internal || kind == domain.Unavailable {
		d.cfg.Logger.Error("failed to import a session", "session_id", in.SessionID, "attempt", in.Attempt, "error", cause)
	}

	return nil
}

// clear removes what an import has written of its session.
func (d *Service) clear(ctx context.Context, sessionID domain.SessionID) error {
	err := d.cfg.Files.Remove(ctx, sessionID)

	session := string(sessionID)
	for _, prefix := range []string{"images/" + session + "/", recordings.Prefix(sessionID), "snapshots/" + session + "/"} {
		err = errors.Join(err, d.cfg.Objects.DeletePrefix(ctx, prefix))
	}

	return err
}

// load makes the session.
func (d *Service) load(ctx context.Context, in transfer.Import) error {
	content, size, err := d.fetch(ctx, in)
	if err != nil {
		return err
	}
	defer content.Close()

	p, err := open(ctx, content, size, d.cfg.WorkspaceBytes)
	if err != nil {
		return err
	}

	if in.Attempt > 1 {
		if err := d.clear(ctx, in.SessionID); err != nil {
			return err
		}
	}

	im := &importing{
		service: d, pack: p, attempt: in.Attempt, names: p.names(in.SessionID),
		session: p.newSession(in.SessionID, in.OwnerID, in.SandboxUID, in.Options),
		from: transfer.ImportedFrom{
			SessionID: p.session.ID, Intent: p.session.Intent, ExportedAt: later(p.m.ExportedAt),
			ServiceVersion: shorten(p.m.ServiceVersion), FormatVersion: p.m.FormatVersion,
		},
	}
	for _, thing := range d.missing(ctx, p) { // it would only be in the way
		switch {
		case thing.Kind == "model":
			im.session.Model = nil
		case thing.Kind == "solution" && in.Options.SolutionID == nil:
			im.session.SolutionID = nil
		case thing.Kind == "skill":
			im.session.PrimarySkillID = nil
		}
	}

	return im.run(ctx)
}

// Ages from which Repair looks at imports.
const (
	// endedAfter is how long the result of an import is kept for requests with its
	// Idempotency-Key.
	endedAfter = 24 * time.Hour
)

// Repair removes uploads that were abandoned, and forgets imports that ended long ago.
func (d *Service) Repair(ctx context.Context) error {
	return errors.Join(d.removeUploads(ctx), d.removeEnded(ctx))
}

// removeUploads also removes what imports of an older version have left. What cannot
// be removed now is removed by removeEnded.
func (d *Service) removeUploads(ctx context.Context) error {
	abandoned, err := d.AbandonUploads(ctx, abandonedAfter)
	for _, id := range abandoned {
		err = errors.Join(err, d.clear(ctx, domain.SessionID(id)), d.cfg.Objects.DeletePrefix(ctx, uploadPrefix(domain.SessionID(id))))
	}

	return err
}

// removeEnded continues where it was interrupted, and after an import that cannot be removed.
// One goroutine calls it.
func (d *Service) removeEnded(ctx context.Context) error {
	var failed error

	for {
		ended, err := d.EndedImports(ctx, endedAfter, d.endedUpTo)
		if err != nil {
			return errors.Join(failed, err)
		}

		if len(ended) == 0 {
			d.endedUpTo = ""
			return failed
		}

		for _, in := range ended {
			failed = errors.Join(failed, d.removeImport(ctx, in))
			d.endedUpTo = string(in.SessionID)

			if ctx.Err() != nil {
				return errors.Join(failed, ctx.Err())
			}
		}
	}
}

func (d *Service) removeImport(ctx context.Context, in transfer.Import) error {
	left := d.cfg.Objects.DeletePrefix(ctx, uploadPrefix(in.SessionID))
	if in.State == transfer.ImportFailed {
		left = errors.Join(left, d.clear(ctx, in.SessionID))
	}

	if left != nil {
		return left
	}

	return d.ForgetImport(ctx, in.SessionID)
}
