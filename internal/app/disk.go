package app

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"everloop/api"
	"everloop/infra/metrics"
	"everloop/internal/diskspace"
)

// diskSettings bound what sessions take of the disks.
type diskSettings struct {
	WorkspaceInodes int64 `default:"1000000" env:"WORKSPACE_INODES" help:"Files and directories that a session's workspace may hold; 0: no limit."`
	CheckpointBytes int64 `name:"checkpoint-session-bytes" default:"21474836480" env:"CHECKPOINT_SESSION_BYTES" help:"Bytes that the object store keeps of a session's checkpoints; files that do not fit are not kept. 0: no limit."`
	CheckpointOwner int64 `name:"checkpoint-user-bytes" default:"107374182400" env:"CHECKPOINT_USER_BYTES" help:"The same of all sessions and published apps of a user."`

	reserveSettings `embed:""`
}

// reserveSettings say what of a disk nothing is written to but by the engines.
type reserveSettings struct {
	ReserveBytes   int64 `name:"disk-reserve-bytes" default:"1073741824" env:"DISK_RESERVE_BYTES" help:"Bytes of the disk of DATA_DIR that sessions leave free for the engines."`
	ReservePercent int   `name:"disk-reserve-percent" default:"5" env:"DISK_RESERVE_PERCENT" help:"The same as a share of the disk, and of its inodes; the larger of both counts."`
}

func (s reserveSettings) check() error {
	var faults []error
	if s.ReserveBytes < 0 {
		faults = append(faults, errors.New("DISK_RESERVE_BYTES must not be negative"))
	}

	if s.ReservePercent < 0 || s.ReservePercent > mostReserve {
		faults = append(faults, fmt.Errorf("DISK_RESERVE_PERCENT must be from 0 to %d", mostReserve))
	}

	return errors.Join(faults...)
}

// reserve is what the engines are left of the disk.
func (s reserveSettings) reserve() diskspace.Reserve {
	return diskspace.Reserve{Bytes: s.ReserveBytes, Percent: s.ReservePercent}
}

// room fails while only the reserve is free on the disk of a directory.
func (s reserveSettings) room(dir string) func() error {
	return func() error { return s.reserve().Check(dir) }
}

// mostReserve is the largest share of a disk that may be reserved, in percent.
const mostReserve = 50

func (s diskSettings) check() error {
	var faults []error
	if s.WorkspaceInodes < 0 {
		faults = append(faults, errors.New("WORKSPACE_INODES must not be negative"))
	}

	if s.CheckpointBytes < 0 {
		faults = append(faults, errors.New("CHECKPOINT_SESSION_BYTES must not be negative"))
	}

	if s.CheckpointOwner < 0 {
		faults = append(faults, errors.New("CHECKPOINT_USER_BYTES must not be negative"))
	}

	faults = append(faults, s.reserveSettings.check())

	return errors.Join(faults...)
}

// What is left of a disk when engines on it are about to fail.
const (
	leastBytes  = 64 << 20
	leastInodes = 1000
)

// disks are the places that sessions and engines write to.
func (b *backend) disks() map[string]string {
	data := b.settings.DataDir
	return map[string]string{"data": data, "workspace": filepath.Join(data, "workspace")}
}

// checkSpace fails when a disk is full, and with api.Degraded when only what is reserved
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

		if err := b.settings.reserve().Check(dir); err != nil {
			degraded = api.Degraded{Err: fmt.Errorf("disk of the directory %q: %w", name, err)}
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

			reserved := b.settings.reserve().Of(space)

			return metrics.Disk{
				FreeBytes: space.FreeBytes, FreeInodes: space.FreeInodes,
				ReservedBytes: reserved.Bytes, ReservedInodes: reserved.Inodes,
			}, nil
		})
	}
}
