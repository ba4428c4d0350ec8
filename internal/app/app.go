// Package app wires the roles of the program: it opens the engines' clients, builds
// the services and the edges on them, and runs them until its context ends. Each role
// is a struct whose exported fields are its settings, with the names of flags and
// environment variables as tags. It decides nothing else, and knows no command line.
package app

import (
	"everloop/internal/app/backup"
	"everloop/internal/app/companion"
	"everloop/internal/app/engine"
)

// The roles of the packages below this one.
type (
	// Engines are the embedded engines alone.
	Engines = engine.Command
	// Temporal is Temporal alone.
	Temporal = engine.Temporal

	// Identity is the identity service alone.
	Identity = companion.Identity
	// Gateway is the model gateway alone.
	Gateway = companion.Gateway
	// Registry is the skill registry alone.
	Registry = companion.Registry
	// Desktop is the desktop alone.
	Desktop = companion.Desktop
	// Git is git hosting alone.
	Git = companion.Git
	// Mock is the mock service alone.
	Mock = companion.Mock

	// Backup writes the state of a deployment into one file.
	Backup = backup.Create
	// Restore writes that state into an empty place.
	Restore = backup.Restore
)
