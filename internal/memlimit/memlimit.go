// Package memlimit configures the garbage collector of a process: its target percentage and the
// soft memory limit. GOGC and GOMEMLIMIT of an operator override both.
package memlimit

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// growth is the default of GOGC: a step of a chat produces much garbage, and collecting half
	// as often as by Go's default saves CPU.
	growth = 200
	// share is the share of the memory of the control group, or of the machine, for one process:
	// PostgreSQL and the commands of tools need the rest.
	share = 0.7
	// Least is the minimum of the limit: below it the collector would run continuously, because
	// an idle service uses some 100 MiB.
	Least = 256 << 20
	// Most is the maximum of the limit: it suffices for one process, and leaves memory to other
	// processes.
	Most = 4 << 30
)

// Set configures the collector of this process and returns its soft limit in bytes. The error
// reports unreadable sources; the limit is then set from the others.
func Set() (int64, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(growth)
	}

	var unread error

	set, err := memlimit.Set(memlimit.WithRatio(1), memlimit.WithProvider(func() (limit uint64, _ error) {
		limit, unread = softLimit(memlimit.FromCgroup, memlimit.FromSystem)
		return limit, nil
	}))

	return set, errors.Join(err, unread)
}

// softLimit returns a share of the smaller memory of the control group and the machine, within
// the limits; Most if neither is available.
func softLimit(group, machine memlimit.Provider) (uint64, error) {
	limit := uint64(Most)

	var unread error

	for _, provider := range []memlimit.Provider{group, machine} {
		total, err := provider()
		switch {
		case errors.Is(err, memlimit.ErrNoLimit), errors.Is(err, memlimit.ErrNoCgroup), errors.Is(err, memlimit.ErrCgroupsNotSupported):
		case err != nil:
			unread = errors.Join(unread, fmt.Errorf("read how much memory there is: %w", err))
		default:
			limit = min(limit, uint64(share*float64(total)))
		}
	}

	return max(limit, Least), unread
}
