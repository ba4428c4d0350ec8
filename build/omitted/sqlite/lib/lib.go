// Package lib has the result codes of SQLite that Temporal looks at.
package lib

// Result codes, as in SQLite's documentation.
const (
	SQLITE_CONSTRAINT            = 19   //nolint:revive // the name of another module
	SQLITE_CONSTRAINT_PRIMARYKEY = 1555 //nolint:revive // the name of another module
	SQLITE_CONSTRAINT_UNIQUE     = 2067 //nolint:revive // the name of another module
)
