package registry

import (
	"embed"

	"everloop/internal/schema"
)

//go:embed migrations/*.sql
var migrations embed.FS

// records is the registry's schema. Its lock differs from the lock of the agent's migrations,
// which may run in the same database.
var records = schema.Schema{Name: "registry", Lock: 0x7265_6769_7374_7279, Files: migrations} // "registry"

// Records returns the schema of the service, for backups.
func Records() schema.Schema { return records }
