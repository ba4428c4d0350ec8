//go:build linux

package sandbox

import (
	"errors"
	"fmt"

	"github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/cgroup"
	"everloop/infra/sandbox/seccomp"
)

// minLandlock is the Landlock version that also confines signals and abstract
// sockets.
const minLandlock = 6

const (
	landlockRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockFile  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	landlockAll   = 1<<16 - 1 // all rights of version 5 and later
	landlockWrite = landlockAll &^ (unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	landlockTTY   = landlockFile | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	landlockScope = 3 // abstract sockets and signals
)

// landlockRuleset opens the rules of one command: the workspace, unless it has
// none, and a scratch directory are writable, the system is readable, everything else is refused.
func landlockRuleset(view hostView, workspace, scratch string) (fd int, err error) {
	abi, err := syscall.LandlockGetABIVersion()
	if err != nil {
		return -1, fmt.Errorf("sandbox: this kernel has no Landlock: %w", err)
	}

	if abi < minLandlock {
		return -1, fmt.Errorf("sandbox: Landlock version %d, need %d (Linux 6.12)", abi, minLandlock)
	}

	fd, err = syscall.LandlockCreateRuleset(&syscall.RulesetAttr{HandledAccessFS: landlockAll, Scoped: landlockScope}, 0)
	if err != nil {
		return -1, fmt.Errorf("sandbox: Landlock rules: %w", err)
	}

	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()

	allow := func(path string, access uint64) error {
		f, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("sandbox: open %s: %w", path, err)
		}
		defer func() { _ = unix.Close(f) }()

		if err := syscall.LandlockAddPathBeneathRule(fd, &syscall.PathBeneathAttr{AllowedAccess: access, ParentFd: f}, 0); err != nil {
			return fmt.Errorf("sandbox: Landlock rule for %s: %w", path, err)
		}

		return nil
	}

	errs := []error{allow(scratch, landlockWrite), allow("/proc", landlockRead)}
	if workspace != "" {
		errs = append(errs, allow(workspace, landlockWrite))
	}

	for _, dir := range view.dirs {
		errs = append(errs, allow(dir, landlockRead))
	}

	for _, file := range append([]string{"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts"}, view.files...) {
		if err := allow(file, unix.LANDLOCK_ACCESS_FS_READ_FILE); !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}

	for _, name := range guestDevices {
		access := uint64(landlockFile)
		if name == "tty" {
			access = landlockTTY
		}

		if err := allow("/dev/"+name, access); !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}

	return fd, errors.Join(errs...)
}

// landlockProgram builds the set-up of level 1, or with confined false that of
// level 0. The child stays in the host's namespaces; it reaps what the command
// leaves, so that no process leaves its tree.
//
// dedicated reports that the command gets its own user.
func landlockProgram(sh shape, dedicated, confined bool, held cgroup.Holds) *program {
	p := &program{}

	ruleset := none
	if confined {
		ruleset = p.received()
	}

	p.raiseOOMScore()
	p.giveWay(held)
	p.call("collect orphans", unix.SYS_PRCTL, num(unix.PR_SET_CHILD_SUBREAPER), num(1), none, none, none)

	if !dedicated {
		// The kernel counts all that the service's user runs. This bound is
		// loose, but it is one.
		sh.processes += userTasks(sh.uid)
	}

	p.limits(sh, held)

	if confined {
		p.dropBounding()
	}

	if dedicated {
		p.call("drop groups", unix.SYS_SETGROUPS, none, none)
		p.call("set the group", unix.SYS_SETRESGID, num(sh.uid), num(sh.uid), num(sh.uid))
		p.call("set the user", unix.SYS_SETRESUID, num(sh.uid), num(sh.uid), num(sh.uid))
	}

	if !confined {
		p.call("set the file mask", unix.SYS_UMASK, num(0o022))
		p.dieWithParent()

		return p
	}

	p.dropAll()
	p.call("no new privileges", unix.SYS_PRCTL, num(unix.PR_SET_NO_NEW_PRIVS), num(1), none, none, none)
	p.call("apply Landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, none)
	p.dieWithParent()
	p.finish(seccomp.Rule{Memfd: held.Memory})

	return p
}
