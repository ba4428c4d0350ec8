package identity

import (
	"embed"

	"everloop/companions/schema"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schemaLock orders migrations, and what else one process does at a time.
const schemaLock = 0x65766572_6964656e // "everiden"

var records = schema.Schema{Name: "identity", Lock: schemaLock, Files: migrations}

// Records is the schema of the service, for backups.
func Records() schema.Schema { return records }
