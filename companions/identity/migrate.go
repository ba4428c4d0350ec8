package identity

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // goose speaks database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schemaLock serialises processes that create the schema at once.
const schemaLock = 0x65766572_6964656e // "everiden"

// migrate brings the schema `identity` of a database to its newest version. Several
// processes may start at once: one migrates under an advisory lock, the others wait.
func migrate(ctx context.Context, url string) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return fmt.Errorf("open database for migration: %w", err)
	}
	defer db.Close()
	if err := createSchema(ctx, db); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(schemaLock))
	if err != nil {
		return fmt.Errorf("prepare migration lock: %w", err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName("identity.goose_db_version"), goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}
	return nil
}

// createSchema makes the schema in which goose keeps its version. CREATE SCHEMA IF NOT
// EXISTS fails when two processes run it at once, hence the lock.
func createSchema(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(schemaLock)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS identity`); err != nil {
		return err
	}
	return tx.Commit()
}
