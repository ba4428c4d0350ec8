//go:build linux

package sharedfs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// A client with a cached name of a file that another machine has replaced receives ESTALE from
// the server, possibly repeatedly while it caches names, a second by default.
const (
	staleTries = 100
	stalePause = 20 * time.Millisecond
)

// lookedUpAgain calls do for a name in an open directory, and repeats it after ESTALE: each time
// it revalidates the name. It returns unix.ESTALE if the last attempt fails, too.
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
