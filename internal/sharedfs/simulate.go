//go:build linux

package sharedfs

import (
	"slices"
	"sync/atomic"
	"time"
)

// Simulation makes a local file system behave like a shared one.
type Simulation struct {
	NoRenameFlags    bool // renameat2 returns EINVAL for all flags
	NoHardLinks      bool // linkat returns EPERM
	CachesAttributes bool
	Looked           func(name string, flags int) // called by Stat
	Stale            func(name string) bool       // operations on this name return ESTALE

	// Results of Probe.
	NoLocks     bool          // locks answer ENOLCK
	KeepsOwners bool          // chown returns EPERM
	ClockAhead  time.Duration // of the file server
	Mount       string        // the line of /proc/self/mountinfo
}

var simulation atomic.Pointer[Simulation]

// Simulate is for tests only, as internal/arrows checks: it applies to the whole process until
// restore is called.
func Simulate(s Simulation) (restore func()) {
	before := simulation.Swap(&s)
	return func() { simulation.Store(before) }
}

func simulated() Simulation {
	if s := simulation.Load(); s != nil {
		return *s
	}

	return Simulation{}
}

func staleName(names ...string) bool {
	stale := simulated().Stale
	return stale != nil && slices.ContainsFunc(names, stale)
}
