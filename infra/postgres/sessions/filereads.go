package sessions

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// FileReads remembers which version of a file each session has read, so that
// the agent changes nothing that it has not seen (docs/tools.md#write).
type FileReads struct {
	db *Base

	mu    sync.Mutex
	files map[fileKey]*fileLock
}

type fileKey struct {
	session domain.SessionID
	path    string
}

// fileLock orders the changes of one file within this process.
type fileLock struct {
	held    chan struct{} // holds a value while the file is being changed
	waiting int           // changes that hold or want it; guarded by FileReads.mu
}

// FileReads returns the store; one for each process, because it orders the
// process's own changes before it asks the database for each.
func (db *Base) FileReads() *FileReads { return &FileReads{db: db, files: map[fileKey]*fileLock{}} }

// Record notes that the session has read this version of a file. Its commit does not wait
// for the disk: a note that a power cut loses makes the agent read the file again.
func (f *FileReads) Record(ctx context.Context, sessionID domain.SessionID, path, etag string) error {
	err := f.db.InTxAsync(ctx, func(batch *pgx.Batch) {
		batch.Queue(`
			INSERT INTO file_reads (session_id, path, etag) VALUES ($1, $2, $3)
			ON CONFLICT (session_id, path) DO UPDATE SET etag = excluded.etag, read_at = now()`, sessionID, path, etag)
	})

	return pg.Fault("record a read file", err)
}

// Change holds a path of the session for one change at a time, over all
// processes: change is given the version that was read last, "" for none, and
// gives the version that it wrote, which counts as read; "" when it wrote
// nothing. An error of change is returned as it is.
//
// No transaction and no connection is held while change runs, because a file
// system may hang. A claim in the row holds the path; it is renewed in the meantime and
// expires when its process has died.
func (f *FileReads) Change(
	ctx context.Context,
	sessionID domain.SessionID,
	path string,
	change func(seen string) (wrote string, err error),
) error {
	file := fileKey{sessionID, path}

	release, err := f.lock(ctx, file)
	if err != nil {
		return err
	}
	defer release()

	claimant := domain.NewID()

	seen, err := f.claim(ctx, file, claimant)
	if err != nil {
		return pg.Fault("claim a file for a change", err)
	}

	stop := f.keep(ctx, file, claimant)
	wrote, refused := change(seen)

	stop()

	if refused != nil {
		wrote = ""
	}
	// What was written is recorded also when the caller has gone away.
	err = f.unclaim(context.WithoutCancel(ctx), file, claimant, wrote)

	if refused != nil {
		return refused
	}

	return pg.Fault("record a changed file", err)
}

// lock waits for the path's turn in this process, so that many changes of one file
// do not all poll its claim.
func (f *FileReads) lock(ctx context.Context, file fileKey) (release func(), err error) {
	f.mu.Lock()

	lock := f.files[file]
	if lock == nil {
		lock = &fileLock{held: make(chan struct{}, 1)}
		f.files[file] = lock
	}

	lock.waiting++
	f.mu.Unlock()

	leave := func() {
		f.mu.Lock()
		defer f.mu.Unlock()

		if lock.waiting--; lock.waiting == 0 {
			delete(f.files, file)
		}
	}

	select {
	case lock.held <- struct{}{}:
		return func() { <-lock.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

const (
	// fileLease is how long a claim lasts that is not renewed.
	fileLease = 15 * time.Second
	// fileLimit bounds one statement about a claim.
	fileLimit = 10 * time.Second

	fileFirstPoll = 20 * time.Millisecond
	fileLastPoll  = 500 * time.Millisecond
)

// claim waits until no other process changes the file, and claims it.
func (f *FileReads) claim(ctx context.Context, file fileKey, claimant string) (seen string, err error) {
	for pause := fileFirstPoll; ; pause = min(2*pause, fileLastPoll) {
		seen, err = f.tryClaim(ctx, file, claimant)
		if !errors.Is(err, pgx.ErrNoRows) {
			return seen, err
		}

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// tryClaim claims the file; pgx.ErrNoRows: another process changes it.
func (f *FileReads) tryClaim(ctx context.Context, file fileKey, claimant string) (seen string, err error) {
	ctx, cancel := context.WithTimeout(ctx, fileLimit)
	defer cancel()

	err = f.db.Pool.QueryRow(ctx, `
		INSERT INTO file_reads AS f (session_id, path, etag, changing_by, changing_until) VALUES ($1, $2, '', $3, now() + $4::interval)
		ON CONFLICT (session_id, path) DO UPDATE SET changing_by = excluded.changing_by, changing_until = excluded.changing_until
		WHERE f.changing_by IS NULL OR f.changing_until < now()
		RETURNING f.etag`, file.session, file.path, claimant, fileLease).Scan(&seen)

	return seen, err
}

// keep renews the claim until stop is called.
func (f *FileReads) keep(ctx context.Context, file fileKey, claimant string) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))

	done := make(chan struct{})
	go func() {
		defer close(done)

		renew := time.NewTicker(fileLease / 3)
		defer renew.Stop()

		for {
			select {
			case <-ctx.Done():
				return
			case <-renew.C:
				f.renew(ctx, file, claimant)
			}
		}
	}()

	return func() { cancel(); <-done }
}

// renew may fail: the claim lasts until the next one.
func (f *FileReads) renew(ctx context.Context, file fileKey, claimant string) {
	ctx, cancel := context.WithTimeout(ctx, fileLease/3)
	defer cancel()

	_, _ = f.db.Pool.Leases().Exec(ctx, `
		UPDATE file_reads SET changing_until = now() + $4::interval
		WHERE  session_id = $1 AND path = $2 AND changing_by = $3`, file.session, file.path, claimant, fileLease)
}

// unclaim lets the next change continue and records what was written. When the claim
// has expired in the meantime, what was written is not recorded as read: another process
// may have changed the file since.
func (f *FileReads) unclaim(ctx context.Context, file fileKey, claimant, wrote string) error {
	ctx, cancel := context.WithTimeout(ctx, fileLimit)
	defer cancel()

	tag, err := f.db.Pool.Exec(ctx, `
		UPDATE file_reads SET changing_by = NULL, changing_until = NULL, etag = coalesce(nullif($4, ''), etag),
		       read_at = CASE WHEN $4 = '' THEN read_at ELSE now() END
		WHERE  session_id = $1 AND path = $2 AND changing_by = $3`, file.session, file.path, claimant, wrote)
	if err == nil && tag.RowsAffected() == 0 && wrote != "" {
		return errors.New("the claim of the file has expired")
	}

	return err
}
