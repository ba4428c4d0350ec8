// Package postgres migrates the schema. The stores are the packages below, one for each
// aggregate; pg has what they share: connections, transactions and the outbox. SQL is
// written by hand beside the method that runs it; every query of a user's data names the
// owner.
package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // goose speaks database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the database at url to the newest schema. Several processes
// may start at once: one migrates under an advisory lock, the others wait.
func Migrate(ctx context.Context, url string) error { return MigrateTo(ctx, url, Newest()) }

// MigrateTo is [Migrate] to an earlier version, for rows that were written with it.
func MigrateTo(ctx context.Context, url string, version int64) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return fmt.Errorf("open database for migration: %w", err)
	}
	defer db.Close()

	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("prepare migration lock: %w", err)
	}

	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}

	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}

	if _, err := provider.UpTo(ctx, version); err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}

	return nil
}

// Newest is the version of the schema that this program knows.
func Newest() (newest int64) {
	_ = fs.WalkDir(migrations, ".", func(_ string, d fs.DirEntry, err error) error {
		if version, failed := goose.NumericComponent(d.Name()); err == nil && failed == nil {
			newest = max(newest, version)
		}

		return nil
	})

	return newest
}

// MigrationsHash names the schema: it changes whenever a migration does.
func MigrationsHash() string {
	h := sha256.New()
	_ = fs.WalkDir(migrations, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			content, _ := migrations.ReadFile(path)
			h.Write([]byte(path))
			h.Write(content)
		}

		return nil
	})

	return hex.EncodeToString(h.Sum(nil)[:8])
}
