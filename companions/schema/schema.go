// Package schema keeps the schema that a companion has in PostgreSQL at its newest
// version. It must not know what any schema holds.
package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // goose speaks database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Schema is that of one companion.
type Schema struct {
	Name  string // lower-case letters
	Lock  int64  // advisory lock under which one process migrates; the one after it is taken too
	Files fs.FS  // with the SQL files in the directory migrations
}

// Migrate brings the schema of a database to its newest version. Several processes may
// start at once: one migrates under the lock, the others wait.
func (s Schema) Migrate(ctx context.Context, url string) error {
	return s.MigrateTo(ctx, url, s.Newest())
}

// Newest is the version of the schema that this program knows.
func (s Schema) Newest() (newest int64) {
	_ = fs.WalkDir(s.Files, ".", func(_ string, d fs.DirEntry, err error) error {
		if version, failed := goose.NumericComponent(d.Name()); err == nil && failed == nil {
			newest = max(newest, version)
		}

		return nil
	})

	return newest
}

// MigrateTo is Migrate to an earlier version, for rows that were written with it.
func (s Schema) MigrateTo(ctx context.Context, url string, version int64) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return fmt.Errorf("the database address of the %s service is not valid", s.Name) // it holds a password
	}
	defer db.Close()

	if err := s.create(ctx, db); err != nil {
		return fmt.Errorf("create schema %s: %w", s.Name, err)
	}

	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(s.Lock))
	if err != nil {
		return fmt.Errorf("prepare migration lock: %w", err)
	}

	files, err := fs.Sub(s.Files, "migrations")
	if err != nil {
		return err
	}

	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker), goose.WithTableName(s.Name+".goose_db_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations of schema %s: %w", s.Name, err)
	}

	if _, err := provider.UpTo(ctx, version); err != nil {
		return fmt.Errorf("migrate schema %s: %w", s.Name, err)
	}

	return nil
}

// create makes the schema, in which goose keeps its version. CREATE SCHEMA IF NOT EXISTS
// fails when two processes run it at once, hence the lock.
func (s Schema) create(ctx context.Context, db *sql.DB) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if undone := tx.Rollback(); !errors.Is(undone, sql.ErrTxDone) {
			err = errors.Join(err, undone)
		}
	}()

	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, s.Lock+1); err != nil {
		return err
	}

	// PostgreSQL checks the right to create a schema before IF NOT EXISTS.
	var exists bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, s.Name).Scan(&exists); err != nil {
		return err
	}

	if !exists {
		if _, err := tx.ExecContext(ctx, `CREATE SCHEMA `+s.Name); err != nil {
			return err
		}
	}

	return tx.Commit()
}
