// Package memlimit sets the garbage collector of a process: how often it collects,
// and the soft limit of memory from which on it collects more often. GOGC and
// GOMEMLIMIT, when an operator set them, win over both.
package memlimit

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// growth is GOGC where the operator set none: a step of a chat makes much
	// garbage, and collecting half as often as by Go's default saves CPU.
	growth = 200
	// share is the part of the memory of the control group, or of the machine, that
	// one process may take: PostgreSQL and the commands of tools need the rest.
	share = 0.7
	// Least bounds the limit from below: with less the collector would run without
	// pause, as an idle service holds some 100 MiB.
	Least = 256 << 20
	// Most bounds the limit from above: it is enough for one process, and other
	// processes of the machine may want the memory.
	Most = 4 << 30
)

// Set sets the collector of this process and returns its soft limit in bytes. An
// error says what could not be read; the limit is then set by the rest.
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

// softLimit returns a share of the smaller of what the control group and the machine
// have, within the bounds; Most where neither is known.
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
