package transfer

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/infra/postgres/pg"
)

// maxEnded is how many imports EndedImports returns at most.
const maxEnded = 100

const importColumns = `session_id, owner_id, state, attempt, sandbox_uid, parts, options`

func scanImport(row pgx.CollectableRow) (in transfer.Import, err error) {
	return in, row.Scan(&in.SessionID, &in.OwnerID, &in.State, &in.Attempt, &in.SandboxUID, &in.Parts, &in.Options)
}

// Store keeps how far imports are. A write of an attempt that is not the latest one fails
// with domain.ErrFenced.
type Store struct{ db *pg.DB }

// NewStore returns a new store.
func NewStore(db *pg.DB) *Store { return &Store{db} }

// BeginUpload notes that an archive is on its way, so that what is stored of it is
// found again when its process dies. It returns false when the owner has most imports
// open already.
func (s *Store) BeginUpload(ctx context.Context, sessionID domain.SessionID, ownerID string, most int) (started bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('imports/' || $1, 0))`, ownerID); err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `
			INSERT INTO imports (session_id, owner_id, sandbox_uid)
			SELECT $1, $2, nextval('sandbox_uids')
			WHERE  (SELECT count(*) FROM imports WHERE owner_id = $2 AND state IN ('uploading', 'running')) < $3`, sessionID, ownerID, most)
		started = tag.RowsAffected() == 1

		return err
	})

	return started, pg.Fault("begin the upload of an import", err)
}

// AddUploadPart notes the size of the next part of an archive, before it is stored.
func (s *Store) AddUploadPart(ctx context.Context, sessionID domain.SessionID, size int64) error {
	tag, err := s.db.Pool.Exec(ctx, `
		UPDATE imports SET parts = parts || $2::bigint, changed_at = now() WHERE session_id = $1 AND state = 'uploading'`, sessionID, size)
	if err == nil && tag.RowsAffected() == 0 {
		return importLost()
	}

	return pg.Fault("note a part of an import", err)
}

func importLost() *domain.Error {
	return domain.Newf(domain.Conflict, "import_lost", "the upload stood still for too long; try again")
}

// DropUpload ends an upload that is not imported, so that no import of it can start. It
// reports false when one has started, or the upload was abandoned. Its parts are deleted
// afterwards, by the caller or with other imports that have ended.
func (s *Store) DropUpload(ctx context.Context, sessionID domain.SessionID) (dropped bool, err error) {
	tag, err := s.db.Pool.Exec(ctx, `
		UPDATE imports
		SET    state = 'failed', error_kind = 'conflict', error_code = 'import_lost', error = 'the upload was discarded', changed_at = now()
		WHERE  session_id = $1 AND state = 'uploading'`, sessionID)

	return tag.RowsAffected() == 1, pg.Fault("drop an upload", err)
}

// StartImport makes an upload an import that a workflow carries out. Sum is of the
// archive and the options. When the owner's Idempotency-Key belongs to an import of
// the same, it returns the session of that one, and the upload is left.
func (s *Store) StartImport(ctx context.Context, in transfer.ImportRequest, sum []byte) (sessionID domain.SessionID, err error) {
	id := in.Upload.SessionID
	for {
		tag, err := s.db.Pool.Exec(ctx, `
			UPDATE imports SET state = 'running', options = $2, request_key = nullif($3, ''), request_sum = $4, changed_at = now()
			WHERE  session_id = $1 AND state = 'uploading'`, id, in.Options, in.Key, sum)

		conflict, refused := errors.AsType[*pgconn.PgError](err)
		switch {
		case err == nil && tag.RowsAffected() == 0:
			return "", importLost()
		case err == nil:
			return id, nil
		case !refused || conflict.Code != pg.UniqueViolation:
			return "", pg.Fault("start an import", err)
		}

		first, same, err := s.importOf(ctx, string(id), in.Key, sum)
		if errors.Is(err, pgx.ErrNoRows) {
			continue // it has failed just now, and the key is free
		}

		if err == nil && !same {
			err = domain.Newf(domain.Conflict, "idempotency_key_reused", "this Idempotency-Key was used for another request")
		}

		return first, pg.Fault("join an import", err)
	}
}

// importOf returns the import that has a key of the owner of an upload, and says
// whether it is of the same archive and options.
func (s *Store) importOf(ctx context.Context, uploadID, key string, sum []byte) (sessionID domain.SessionID, same bool, err error) {
	var its []byte

	err = s.db.Pool.QueryRow(ctx, `
		SELECT i.session_id, i.request_sum FROM imports i JOIN imports u ON u.owner_id = i.owner_id
		WHERE  u.session_id = $1 AND i.request_key = $2`, uploadID, key).Scan(&sessionID, &its)

	return sessionID, bytes.Equal(its, sum), err
}

// AttemptImport starts another attempt at a running import. Attempts before it can
// no longer write. An import that is over is returned as it is.
func (s *Store) AttemptImport(ctx context.Context, sessionID domain.SessionID) (transfer.Import, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		UPDATE imports SET attempt = attempt + CASE WHEN state = 'running' THEN 1 ELSE 0 END
		WHERE  session_id = $1 RETURNING `+importColumns, sessionID)

	in, err := pgx.CollectExactlyOneRow(rows, scanImport)
	if errors.Is(err, pgx.ErrNoRows) {
		return in, importNotFound(sessionID)
	}

	return in, pg.Fault("begin an attempt at an import", err)
}

func importNotFound(id domain.SessionID) error {
	return domain.Newf(domain.NotFound, "import_not_found", "import %s does not exist", id)
}

// CheckImport returns domain.ErrFenced unless the attempt is the latest one at a
// running import.
func (s *Store) CheckImport(ctx context.Context, in transfer.Import) error {
	var current bool

	err := s.db.Pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM imports WHERE session_id = $1 AND attempt = $2 AND state = 'running')`,
		in.SessionID, in.Attempt).Scan(&current)
	if err == nil && !current {
		return domain.ErrFenced
	}

	return pg.Fault("check the attempt at an import", err)
}

// FailImport ends an import of which nothing is left. Its Idempotency-Key is free
// again.
func (s *Store) FailImport(ctx context.Context, in transfer.Import, cause *domain.Error) error {
	tag, err := s.db.Pool.Exec(ctx, `
		UPDATE imports SET state = 'failed', request_key = NULL, error_kind = $3, error_code = $4, error = $5, changed_at = now()
		WHERE  session_id = $1 AND attempt = $2 AND state = 'running'`,
		in.SessionID, in.Attempt, cause.Kind, cause.Code, cause.Message)
	if err == nil && tag.RowsAffected() == 0 {
		return domain.ErrFenced
	}

	return pg.Fault("fail an import", err)
}

// ImportResult returns what an import came to, or the error with which it failed.
// Done is false while it runs.
func (s *Store) ImportResult(ctx context.Context, sessionID domain.SessionID) (from transfer.ImportedFrom, done bool, err error) {
	var (
		state  transfer.ImportState
		result *transfer.ImportedFrom
	)

	failed := &domain.Error{}

	err = s.db.Pool.QueryRow(ctx, `
		SELECT state, imported_from, coalesce(error_kind, 'conflict'), coalesce(error_code, 'import_lost'), coalesce(error, '')
		FROM   imports WHERE session_id = $1`, sessionID).Scan(&state, &result, &failed.Kind, &failed.Code, &failed.Message)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return from, false, importNotFound(sessionID)
	case err != nil:
		return from, false, pg.Fault("read the result of an import", err)
	case state == transfer.ImportDone:
		return *result, true, nil
	case state == transfer.ImportFailed:
		return from, true, failed
	}

	return from, false, nil
}

// LostImports returns running imports whose workflow was due longer than age ago and may be
// lost, at most limit, in the order of their ids and after one.
func (s *Store) LostImports(ctx context.Context, age time.Duration, after string, limit int) ([]transfer.Import, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+importColumns+` FROM imports
		WHERE  state = 'running' AND session_id > $2 AND changed_at < now() - $1::interval
		ORDER  BY session_id LIMIT $3`, age, after, limit)
	list, err := pgx.CollectRows(rows, scanImport)

	return list, pg.Fault("list imports that were not finished", err)
}

// AbandonUploads fails uploads of which no part came for age, so that none comes any
// more, and returns their sessions, which were never made.
func (s *Store) AbandonUploads(ctx context.Context, age time.Duration) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		UPDATE imports
		SET    state = 'failed', error_kind = 'conflict', error_code = 'import_lost', error = 'the upload was abandoned', changed_at = now()
		WHERE  state = 'uploading' AND changed_at < now() - $1::interval RETURNING session_id`, age)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return list, pg.Fault("abandon uploads", err)
}

// EndedImports returns imports that ended longer than age ago, in the order of their
// sessions and after one, at most some hundred.
func (s *Store) EndedImports(ctx context.Context, age time.Duration, after string) ([]transfer.Import, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		WITH ended AS MATERIALIZED ( -- by the index on changed_at: it is nearly always empty
			SELECT `+importColumns+` FROM imports
			WHERE  state IN ('done', 'failed') AND session_id > $2 AND changed_at < now() - $1::interval)
		SELECT * FROM ended ORDER BY session_id LIMIT $3`, age, after, maxEnded)
	list, err := pgx.CollectRows(rows, scanImport)

	return list, pg.Fault("list imports that ended", err)
}

// ForgetImport removes the row of an import that has ended.
func (s *Store) ForgetImport(ctx context.Context, sessionID domain.SessionID) error {
	_, err := s.db.Pool.Exec(ctx, `DELETE FROM imports WHERE session_id = $1 AND state IN ('done', 'failed')`, sessionID)
	return pg.Fault("forget an import", err)
}
