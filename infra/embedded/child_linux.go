package embedded

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithParent makes the kernel interrupt the child when this process dies, including by kill
// -9. PostgreSQL handles an interrupt as a fast, clean shutdown.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }

// openPathHandle opens a directory for a child: a process that inherits the descriptor reaches
// the directory through /proc/self/fd, regardless of the permissions of its parents.
func openPathHandle(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}

	if _, err := os.Stat("/proc/self/fd"); err != nil {
		unix.Close(fd)
		return nil, err
	}

	return os.NewFile(uintptr(fd), dir), nil
}
