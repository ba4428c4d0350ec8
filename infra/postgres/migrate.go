// Package postgres migrates the schema. The stores are the packages below, one for each
// aggregate; pg has what they share: connections, transactions and the outbox. SQL is
// written by hand next to the method that runs it; every query of a user's data names the
// owner.
package postgres

import (
	"context"
	"embed"

	"github.com/pressly/goose/v3/lock"

	"everloop/internal/schema"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Records returns the schema of the agent.
func Records() schema.Schema {
	return schema.Schema{Name: "public", Lock: lock.DefaultLockID, Files: migrations}
}

// Migrate migrates the database at url to the newest version.
func Migrate(ctx context.Context, url string) error { return Records().Migrate(ctx, url) }
