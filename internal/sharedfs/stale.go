//go:build linux

package sharedfs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// A client that takes a name for a file that another machine has replaced learns it only
// from the server's ESTALE, and may do so again for as long as it caches names, a second
// by default.
const (
	staleTries = 100
	stalePause = 20 * time.Millisecond
)

// lookedUpAgain does something to a name in an open directory, and again when the file
// that the name led to was replaced on another machine: each time the server is asked
// what the name is. What is stale after the last try is returned as unix.ESTALE.
func lookedUpAgain(dir int, name string, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if !errors.Is(err, unix.ESTALE) || name == "" || try == staleTries {
			return err
		}

		var x unix.Statx_t

		_ = unix.Statx(dir, "", unix.AT_EMPTY_PATH|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &x)

		if try > 1 {
			time.Sleep(stalePause)
		}
	}
}
