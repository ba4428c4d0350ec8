package app

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"everloop/api/system"
	"everloop/infra/metrics"
	"everloop/internal/app/flags"
	"everloop/internal/diskspace"
)

// What is left of a disk when engines on it are about to fail.
const (
	leastBytes  = 64 << 20
	leastInodes = 1000
)

// disks returns the places that sessions and engines write to.
func (b *backend) disks() map[string]string {
	data := b.settings.DataDir
	return map[string]string{"data": data, "workspace": filepath.Join(data, "workspace")}
}

// checkSpace fails when a disk is full, and with system.Degraded when only what is reserved
// for the engines is left.
func (b *backend) checkSpace() error {
	var degraded error

	for name, dir := range b.disks() {
		space, err := diskspace.Of(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is made with the first workspace
		}

		if err != nil {
			return err
		}

		if space.FreeBytes < leastBytes || space.Inodes > 0 && space.FreeInodes < leastInodes {
			return fmt.Errorf(
				"the disk of the directory %q is full: %d bytes and %d inodes are free",
				name,
				space.FreeBytes,
				space.FreeInodes,
			)
		}

		if err := flags.Reserve.Check(dir); err != nil {
			degraded = system.Degraded{Err: fmt.Errorf("disk of the directory %q: %w", name, err)}
		}
	}

	return degraded
}

// registerSpace shows what is free on the disks, read at each scrape.
func (b *backend) registerSpace() {
	for name, dir := range b.disks() {
		metrics.RegisterDisk(b.metrics, name, func() (metrics.Disk, error) {
			space, err := diskspace.Of(dir)
			if err != nil {
				return metrics.Disk{}, err
			}

			reserved := flags.Reserve.Of(space)

			return metrics.Disk{
				FreeBytes: space.FreeBytes, FreeInodes: space.FreeInodes,
				ReservedBytes: reserved.Bytes, ReservedInodes: reserved.Inodes,
			}, nil
		})
	}
}
