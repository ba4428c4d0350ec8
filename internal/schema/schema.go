// Package schema migrates schemas in PostgreSQL. It must not depend on the content of a schema.
package schema

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // goose speaks database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Schema is one schema of a database with its migrations.
type Schema struct {
	Name  string // lower-case letters
	Lock  int64  // advisory lock of the migrating process; Lock+1 is used, too
	Files fs.FS  // with the SQL files in the directory migrations
}

// Migrate migrates the schema of a database to its newest version. It is safe to call from
// several processes: one migrates under the lock, the others wait.
func (s Schema) Migrate(ctx context.Context, url string) error {
	return s.MigrateTo(ctx, url, s.Newest())
}

// Newest returns the newest version of this program.
func (s Schema) Newest() int64 {
	_, newest := s.versions()
	return newest
}

// versions returns the first and the newest version of this program.
func (s Schema) versions() (first, newest int64) {
	_ = fs.WalkDir(s.Files, ".", func(_ string, d fs.DirEntry, err error) error {
		version, failed := goose.NumericComponent(d.Name())
		if err != nil || failed != nil {
			return nil
		}

		if first == 0 {
			first = version
		}

		newest = version

		return nil
	})

	return first, newest
}

// Hash identifies the migrations: it changes with every change of them.
func (s Schema) Hash() string {
	h := sha256.New()
	_ = fs.WalkDir(s.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			content, _ := fs.ReadFile(s.Files, path)
			h.Write([]byte(path))
			h.Write(content)
		}

		return nil
	})

	return hex.EncodeToString(h.Sum(nil)[:8])
}

// MigrateTo is Migrate to an earlier version, for rows of that version.
func (s Schema) MigrateTo(ctx context.Context, url string, version int64) error {
	if err := s.released(version); err != nil {
		return err
	}

	db, err := sql.Open("pgx", url)
	if err != nil {
		return fmt.Errorf("the database address of schema %s is not valid", s.Name) // err contains the password
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

	if err := s.checkReleased(ctx, provider); err != nil {
		return err
	}

	if _, err := provider.UpTo(ctx, version); err != nil {
		return fmt.Errorf("migrate schema %s: %w", s.Name, err)
	}

	return nil
}

// ErrUnreleased is the error for a database of a build before the first release, which cannot be
// migrated to this one.
var ErrUnreleased = errors.New("the database is of a build before the first release, whose data cannot be migrated: use an empty database")

// checkReleased returns ErrUnreleased for a version below this program's first.
func (s Schema) checkReleased(ctx context.Context, provider *goose.Provider) error {
	applied, err := provider.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the version of schema %s: %w", s.Name, err)
	}

	return s.released(applied)
}

func (s Schema) released(version int64) error {
	if first, _ := s.versions(); version > 0 && version < first {
		return fmt.Errorf("schema %s has version %d: %w", s.Name, version, ErrUnreleased)
	}

	return nil
}

// create creates the schema, in which goose stores its version. It takes a lock, because
// concurrent CREATE SCHEMA IF NOT EXISTS statements fail.
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

	// PostgreSQL checks the permission to create a schema before IF NOT EXISTS.
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
