package sandbox

import (
	"io"
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
	// Dir is the working directory relative to the workspace; "" is its root.
	Dir string
	// Env is added to the small fixed environment (PATH, HOME, LANG …) and
	// overrides it. Nothing of the service's own environment is passed on.
	Env map[string]string
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
	Workspace int64         // bytes that the workspace may hold; 0 is no limit
	Wall      time.Duration // time the command may take; 0 is no limit
	CPU       float64       // processors that the tree may use; 0 is no limit
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

// Cause says why a command ended.
type Cause string

// Causes.
const (
	Exited        Cause = "exited"         // by itself: see ExitCode and Signal
	NotStarted    Cause = "not_started"    // no such program, not executable, or no such directory: see Detail
	Timeout       Cause = "timeout"        // Limits.Wall was over
	Cancelled     Cause = "cancelled"      // the context was cancelled, or Kill called
	OutOfMemory   Cause = "out_of_memory"  // Limits.Memory was reached and the kernel killed it
	WorkspaceFull Cause = "workspace_full" // Limits.Workspace was passed, or the host's disk is nearly full
	FileTooLarge  Cause = "file_too_large" // Limits.FileSize was reached
	Lost          Cause = "lost"           // its process 1 was killed from outside
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

// Success says whether the command ended by itself with exit code 0.
func (r Result) Success() bool { return r.Cause == Exited && r.ExitCode == 0 }
