// Package sqlite has the declarations that Temporal's store in SQLite is compiled
// against, and registers no driver. Everloop's Temporal keeps its state in PostgreSQL.
package sqlite

// Error is an error of SQLite.
type Error struct{ error }

// Code returns a code of package lib.
func (*Error) Code() int { return 0 }
