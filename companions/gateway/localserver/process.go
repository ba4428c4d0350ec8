package localserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipeTime is how long the output of an ended process may stay open.
const pipeTime = 2 * time.Second

// process is a running program with its child processes, in its own process group.
type process struct {
	ended chan struct{} // closed when it has ended and is reaped
	err   error         // how it ended; valid once ended is closed

	mu     sync.Mutex
	pid    int
	reaped bool // its id may have been reused
}

// launch starts a program. The kernel ends it when this process dies: the signal of Pdeathsig
// is sent when the forking thread ends, so launch locks that thread until the process ends.
func launch(program string, args, env []string, out io.Writer) (*process, error) {
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir = env, "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = pipeTime

	p := &process{ended: make(chan struct{})}
	started := make(chan error)

	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine

		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
			// A core dump would contain prompts. The process may have ended already.
			_ = unix.Prlimit(p.pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
		}

		started <- err

		if err != nil {
			return
		}

		p.await(cmd)
	}()

	if err := <-started; err != nil {
		return nil, err
	}

	return p, nil
}

// await returns when the process has ended and is reaped. It kills the rest of the process
// group first, while the id cannot be reused.
func (p *process) await(cmd *exec.Cmd) {
	for {
		if err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}

	p.mu.Lock()
	_ = unix.Kill(-p.pid, unix.SIGKILL) // the group may be empty
	p.reaped = true
	p.mu.Unlock()

	err := cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}

	p.err = ending(cmd.ProcessState, err)
	close(p.ended)
}

func ending(state *os.ProcessState, err error) error {
	if state != nil {
		if status, is := state.Sys().(syscall.WaitStatus); is && status.Signaled() {
			return fmt.Errorf("it was ended by the signal %s", status.Signal())
		}

		return fmt.Errorf("it ended with exit status %d", state.ExitCode())
	}

	return err
}

// signal sends a signal to the process group.
func (p *process) signal(s unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if !p.reaped {
		_ = unix.Kill(-p.pid, s) // it may end at this moment
	}
}

// stop terminates the process, and kills it after the grace period.
func (p *process) stop(grace time.Duration) (killed bool) {
	p.signal(unix.SIGTERM)

	timer := time.NewTimer(grace)
	defer timer.Stop()

	select {
	case <-p.ended:
		return false
	case <-timer.C:
	}

	p.signal(unix.SIGKILL)
	<-p.ended

	return true
}
