package registry

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // goose speaks database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the advisory lock of the registry's migrations; the agent's have
// another one, and may run in the same database.
const migrationLock = 0x7265_6769_7374_7279 // "registry"

// migrate brings the schema registry to the newest version. Several processes may start
// at once: one migrates under the lock, the others wait.
func migrate(ctx context.Context, url string) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return errors.New("the registry's database address is not valid") // it holds a password
	}
	defer db.Close()
	if err := makeSchema(ctx, db); err != nil {
		return fmt.Errorf("make the registry's schema: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock))
	if err != nil {
		return fmt.Errorf("prepare migration lock: %w", err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker), goose.WithTableName("registry.goose_db_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the registry's migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the registry's database: %w", err)
	}
	return nil
}

// makeSchema makes the schema, in which goose keeps its table. Two processes that make
// one at once fail without the lock.
func makeSchema(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, migrationLock+1); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS registry`); err != nil {
		return err
	}
	return tx.Commit()
}
