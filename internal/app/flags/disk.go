package flags

import (
	"everloop/internal/diskspace"
)

// Bytes of checkpoints in the object store. Files that do not fit are not kept.
const (
	// MaxSessionCheckpoints is twice the default size of a workspace.
	MaxSessionCheckpoints = 20 << 30
	// MaxUserCheckpoints holds for all sessions and published apps of one user.
	MaxUserCheckpoints = 100 << 30
)

// Reserve is the part of a disk that sessions leave free for the engines: the larger of
// both counts. PostgreSQL and the event log need room to finish what they have accepted.
var Reserve = diskspace.Reserve{Bytes: 1 << 30, Percent: 5}

// CheckReserve returns a check that fails while only the reserve is free on the disk of dir.
func CheckReserve(dir string) func() error {
	return func() error { return Reserve.Check(dir) }
}
