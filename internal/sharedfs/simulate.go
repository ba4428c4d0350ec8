//go:build linux

package sharedfs

import (
	"slices"
	"sync/atomic"
	"time"
)

// Simulation makes a local file system behave like one that machines share.
type Simulation struct {
	NoRenameFlags    bool // renameat2 answers EINVAL to every flag
	NoHardLinks      bool // linkat answers EPERM
	CachesAttributes bool
	Looked           func(name string, flags int) // called by Stat
	Stale            func(name string) bool       // what is done to this name answers ESTALE

	// What Probe meets.
	NoLocks     bool          // locks answer ENOLCK
	KeepsOwners bool          // chown answers EPERM
	ClockAhead  time.Duration // of the file server
	Mount       string        // the line of /proc/self/mountinfo
}

var simulation atomic.Pointer[Simulation]

// Simulate is for tests only, which internal/arrows holds: it is in force, for the whole process, until restore is
// called.
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
