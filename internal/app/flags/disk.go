package flags

import (
	"errors"
	"fmt"

	"everloop/internal/diskspace"
)

// Disk bounds what sessions take of the disks.
type Disk struct {
	WorkspaceInodes int64 `default:"1000000" env:"WORKSPACE_INODES" help:"Files and directories that a session's workspace may hold; 0: no limit."`
	CheckpointBytes int64 `name:"checkpoint-session-bytes" default:"21474836480" env:"CHECKPOINT_SESSION_BYTES" help:"Bytes that the object store keeps of a session's checkpoints; files that do not fit are not kept. 0: no limit."`
	CheckpointOwner int64 `name:"checkpoint-user-bytes" default:"107374182400" env:"CHECKPOINT_USER_BYTES" help:"The same of all sessions and published apps of a user."`

	DiskReserve `embed:""`
}

// Check finds values that are out of range.
func (s Disk) Check() error {
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

	faults = append(faults, s.DiskReserve.Check())

	return errors.Join(faults...)
}

// DiskReserve says what of a disk nothing is written to but by the engines.
type DiskReserve struct {
	ReserveBytes   int64 `name:"disk-reserve-bytes" default:"1073741824" env:"DISK_RESERVE_BYTES" help:"Bytes of the disk of DATA_DIR that sessions leave free for the engines."`
	ReservePercent int   `name:"disk-reserve-percent" default:"5" env:"DISK_RESERVE_PERCENT" help:"The same as a share of the disk, and of its inodes; the larger of both counts."`
}

// maxReserve is the largest share of a disk that may be reserved, in percent.
const maxReserve = 50

// Check finds values that are out of range.
func (s DiskReserve) Check() error {
	var faults []error
	if s.ReserveBytes < 0 {
		faults = append(faults, errors.New("DISK_RESERVE_BYTES must not be negative"))
	}

	if s.ReservePercent < 0 || s.ReservePercent > maxReserve {
		faults = append(faults, fmt.Errorf("DISK_RESERVE_PERCENT must be from 0 to %d", maxReserve))
	}

	return errors.Join(faults...)
}

// Reserve is what the engines are left of the disk.
func (s DiskReserve) Reserve() diskspace.Reserve {
	return diskspace.Reserve{Bytes: s.ReserveBytes, Percent: s.ReservePercent}
}

// Room fails while only the reserve is free on the disk of a directory.
func (s DiskReserve) Room(dir string) func() error {
	return func() error { return s.Reserve().Check(dir) }
}
