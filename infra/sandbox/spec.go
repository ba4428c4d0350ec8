package sandbox

import (
	"io"
	"net"
	"time"
)

// Spec is one command to run.
type Spec struct {
	// Argv is the command with its arguments. A name without a slash is looked
	// up in the PATH of the sandbox.
	Argv []string
	// Workspace is the absolute host path of the session's directory, the only
	// thing of the host that the command can change.
	Workspace string
	// UID is the host user that the command runs as when the service is root:
	// one per session, never shared. It is ignored when the service is not
	// root; everything then runs as the service's own user.
	UID int
	// Private runs the command away from every session: in place of a workspace
	// it has an empty private home directory that is removed with it,
	// and, when the service is root, a host user that no session has and no other
	// running command of this service. Workspace, UID, Dir, Limits.Workspace and
	// Limits.Inodes must be empty.
	Private bool
	// Dir is the working directory relative to the workspace; "" is its root.
	Dir string
	// Env is added to the small fixed environment (PATH, HOME, LANG …) and
	// overrides it. Nothing of the service's own environment is passed on.
	Env map[string]string
	// Proxy, when set, receives the listener of a proxy for the command: it accepts
	// on 127.0.0.1:3128 of the command's own network, which has no other route, and
	// the variables http_proxy and so on name it. The receiver closes it when the
	// command has ended. Without a network of its own ([Sandbox.Networked]) a
	// command has no proxy, and Proxy is not called.
	Proxy func(net.Listener)
	// Limits bound the command; a zero field takes the default.
	Limits Limits
	// Stdin may be nil: the command reads end of file.
	Stdin io.Reader
	// StdinPipe, when Stdin is nil, makes Process.Stdin a pipe to the command.
	StdinPipe bool
	// Stdout and Stderr may be nil (discarded) and may be the same writer, whose
	// Write is then called by one goroutine at a time.
	Stdout, Stderr io.Writer
}

// Limits bound what one command may use. Zero means the default.
type Limits struct {
	Memory    int64         // bytes of memory of the whole tree, temporary files included; default 2 GiB
	Processes int           // processes and threads; default 512
	FileSize  int64         // bytes of a single file; default 2 GiB
	OpenFiles int           // open files of one process; default 4096
	Tmp       int64         // bytes of /tmp and, apart, of /dev/shm; default 256 MiB
	Workspace int64         // maximum bytes of the workspace; 0: unlimited
	Inodes    int64         // maximum files and directories of the workspace; 0: unlimited
	Wall      time.Duration // maximum run time of the command; 0: unlimited
	CPU       float64       // maximum processors of the tree; 0: unlimited
}

func (l Limits) withDefaults() Limits {
	if l.Memory <= 0 {
		l.Memory = 2 << 30
	}

	if l.Processes <= 0 {
		l.Processes = 512
	}

	if l.FileSize <= 0 {
		l.FileSize = 2 << 30
	}

	if l.OpenFiles <= 0 {
		l.OpenFiles = 4096
	}

	if l.Tmp <= 0 {
		l.Tmp = 256 << 20
	}

	return l
}

// Cause is the reason why a command ended.
type Cause string

// Causes.
const (
	Exited        Cause = "exited"             // by itself: see ExitCode and Signal
	NotStarted    Cause = "not_started"        // no such program, not executable, or no such directory: see Detail
	Timeout       Cause = "timeout"            // Limits.Wall was over
	Cancelled     Cause = "cancelled"          // the context was cancelled, or Kill called
	OutOfMemory   Cause = "out_of_memory"      // Limits.Memory was reached, or the limit of all commands together
	TooMany       Cause = "too_many_processes" // Limits.Processes, or the limit of all, was reached where no control group enforces it
	WorkspaceFull Cause = "workspace_full"     // Limits.Workspace or Limits.Inodes was passed
	DiskFull      Cause = "disk_full"          // the host's disk is short, and of all commands this one added most
	FileTooLarge  Cause = "file_too_large"     // Limits.FileSize was reached
	Lost          Cause = "lost"               // its process 1 was killed from outside
)

// Result is how a command ended.
type Result struct {
	ExitCode int    // as a shell shows it: 128 + the signal's number when killed by one
	Signal   string // such as "killed"; "" when it exited
	Cause    Cause
	Detail   string // one sentence for Cause NotStarted
	Duration time.Duration
	CPUTime  time.Duration // of the command and the children it waited for; 0 when killed
	MaxRSS   int64         // bytes of the largest process; 0 when killed
}

// Success reports whether the command ended by itself with exit code 0.
func (r Result) Success() bool { return r.Cause == Exited && r.ExitCode == 0 }
