// Package background holds the activities of all workflows but those of chats: background
// tasks, scheduled runs, issue runs and DAG runs, replays, imports, rewinds of histories,
// archives, and the deletion of sessions. Each type declares the ports of its own work. They
// call no model, and know neither the loop of a chat nor transports.
package background

import (
	"context"

	"everloop/domain"
)

// Roots returns where a session's files are on this machine.
type Roots interface {
	Root(ctx context.Context, sessionID domain.SessionID, uid int) (string, error)
}

// Environment returns the variables of a session's commands: its own, over those of its
// owner's buckets.
type Environment interface {
	ToolEnv(ctx context.Context, session domain.Session) (map[string]string, error)
}
