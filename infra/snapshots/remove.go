//go:build linux

package snapshots

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/beneath"
	"everloop/internal/rmtree"
)

// removeLeftovers removes what an interrupted restore left: files next to those that
// they were to become.
func (r *restorer) removeLeftovers() error {
	for _, p := range r.leftovers {
		err := r.within(p, func(dir int, name string) error {
			_, err := rmtree.Remove(r.ctx, dir, name, restoringPrefix)
			return err
		})
		if err != nil && !errors.Is(err, unix.ENOENT) && !beneath.Denied(err) && !beneath.Vanished(err) {
			return fault(p, err)
		}
	}

	return nil
}

// leftover reports that a name was made by a restore.
func leftover(name string) bool { return strings.HasPrefix(name, restoringPrefix) }
