//go:build linux

package snapshots

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/infra/snapshots/beneath"
	"everloop/internal/rmtree"
)

// removeLeftovers removes the temporary files of an interrupted restore.
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

// leftover reports whether a name is a restore's temporary file.
func leftover(name string) bool { return strings.HasPrefix(name, restoringPrefix) }
