package embedded

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// child is a program that is stopped with this process.
type child struct {
	pid   int
	done  chan struct{}    // closed when it has ended and been reaped
	state *os.ProcessState // valid once done is closed

	mu      sync.Mutex
	process *os.Process
}

// startChild runs cmd in its own process group, so that Ctrl-C at the terminal interrupts only
// this process, which then stops its children in order.
//
// The kernel sends the parent-death signal when the parent *thread* ends, and Go ends idle
// threads at any time. So the goroutine below locks the forking thread until the child has ended.
func startChild(cmd *exec.Cmd) (*child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}

	cmd.SysProcAttr.Setpgid = true
	endWithParent(cmd.SysProcAttr)

	c := &child{done: make(chan struct{})}
	started := make(chan error)

	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine

		err := cmd.Start()
		if err == nil {
			c.pid, c.process = cmd.Process.Pid, cmd.Process
		}

		started <- err

		if err != nil {
			return
		}

		_ = cmd.Wait() // ProcessState contains the result

		c.mu.Lock()
		c.process, c.state = nil, cmd.ProcessState
		c.mu.Unlock()
		close(c.done)
	}()

	if err := <-started; err != nil {
		return nil, err
	}

	return c, nil
}

// signal sends s unless the child has ended.
func (c *child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.process != nil {
		_ = c.process.Signal(s)
	}
}

// Err returns how the child ended; valid once done is closed.
func (c *child) Err() error {
	if c.state == nil {
		return fmt.Errorf("process %d ended", c.pid)
	}

	return fmt.Errorf("process %d: %s", c.pid, c.state)
}
