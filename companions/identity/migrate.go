package identity

import (
	"embed"

	"everloop/companions/identity/accounts"
	"everloop/internal/schema"
)

//go:embed migrations/*.sql
var migrations embed.FS

var records = schema.Schema{Name: "identity", Lock: accounts.SchemaLock, Files: migrations}

// Records returns the schema of the service, for backups.
func Records() schema.Schema { return records }
