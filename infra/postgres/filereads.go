package postgres

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"

	"github.com/jackc/pgx/v5"
)

// FileReads remembers which version of a file each session has read, so that
// the agent changes nothing that it has not seen (decisions.md section 4).
type FileReads struct {
	db    *DB
	seed  maphash.Seed
	locks [64]sync.Mutex
}

// FileReads gives the store; one for each process, because it orders the
// process's own changes before it takes a connection for each.
func (db *DB) FileReads() *FileReads { return &FileReads{db: db, seed: maphash.MakeSeed()} }

// Record notes that the session has read this version of a file.
func (f *FileReads) Record(ctx context.Context, sessionID, path, etag string) error {
	return fault("record a read file", recordRead(ctx, f.db.Pool, sessionID, path, etag))
}

type execer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func recordRead(ctx context.Context, db execer, sessionID, path, etag string) error {
	var one int
	return db.QueryRow(ctx, `
		INSERT INTO file_reads (session_id, path, etag) VALUES ($1, $2, $3)
		ON CONFLICT (session_id, path) DO UPDATE SET etag = excluded.etag, read_at = now()
		RETURNING 1`, sessionID, path, etag).Scan(&one)
}

// Change holds a path of the session for one change at a time, over all
// processes: change is given the version that was read last, "" for none, and
// gives the version that it wrote, which counts as read; "" when it wrote
// nothing. An error of change is returned as it is.
func (f *FileReads) Change(ctx context.Context, sessionID, path string, change func(seen string) (wrote string, err error)) error {
	// Calls of this process wait here, so that many for one file take one
	// connection and not one each.
	lock := &f.locks[maphash.String(f.seed, sessionID+"/"+path)%uint64(len(f.locks))]
	lock.Lock()
	defer lock.Unlock()

	var refused error
	// Not InTx: the change touches a file, so it must not be run again.
	err := pgx.BeginFunc(ctx, f.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "file/"+sessionID+"/"+path); err != nil {
			return err
		}
		var seen string
		err := tx.QueryRow(ctx, `SELECT etag FROM file_reads WHERE session_id = $1 AND path = $2`, sessionID, path).Scan(&seen)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		var wrote string
		if wrote, refused = change(seen); refused != nil || wrote == "" {
			return refused
		}
		return recordRead(ctx, tx, sessionID, path, wrote)
	})
	if refused != nil {
		return refused
	}
	return fault("record a changed file", err)
}
