//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/forkserver"
)

// Process is a running command.
type Process struct {
	sandbox *Sandbox
	in      *instance
	spec    Spec
	began   time.Time
	streams streams
	stop    func() bool // of the context's callback
	wall    *time.Timer
	scan    *time.Timer
	watcher *watcher // called by scan; nil: no measurement

	mu     sync.Mutex
	cause  Cause // why it was ended from outside; "" when it was not
	over   bool
	detail string

	done   chan struct{}
	result Result
	err    error
}

// Run runs a command and waits until all of its processes have ended. The
// error is about the sandbox: the command's own failure is in the Result.
// Cancelling the context kills the whole tree immediately.
func (s *Sandbox) Run(ctx context.Context, spec Spec) (Result, error) {
	p, err := s.Start(ctx, spec)
	if err != nil {
		return Result{}, err
	}

	return p.Wait()
}

// Start starts a command. The context, and Limits.Wall, bound its whole life;
// Wait must be called to learn how it ended, not for anything to be cleaned up.
func (s *Sandbox) Start(ctx context.Context, spec Spec) (*Process, error) {
	return s.start(ctx, spec, true)
}

func (s *Sandbox) start(ctx context.Context, spec Spec, warm bool) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	if s.isClosed() {
		return nil, errClosed
	}

	if err := s.check(&spec); err != nil {
		return nil, err
	}

	if !s.Networked() {
		spec.Proxy = nil
	}

	if !spec.Private {
		return s.startIn(ctx, spec, warm)
	}

	uid, err := s.users.take()
	if err != nil {
		return nil, err
	}

	spec.UID = uid

	p, err := s.startIn(ctx, spec, false) // few and long-lived: none is kept ready
	if err != nil {
		s.users.release(uid)
	}

	return p, err
}

// startIn starts a command in a prepared sandbox, if there may be one, or a new one.
func (s *Sandbox) startIn(ctx context.Context, spec Spec, warm bool) (*Process, error) {
	began := time.Now()
	sh := shapeOf(spec, s.dedicated)

	var in *instance
	if warm {
		if in = s.pool.take(sh); in != nil && !s.usable(in) {
			in.discard()
			in = nil
		}
	}

	for {
		fresh := in == nil
		if fresh {
			var err error
			if in, err = s.prepare(sh); err != nil {
				return nil, err
			}
		}

		p, err := s.launch(ctx, in, spec, began)
		if err == nil {
			if warm {
				s.pool.ensure(sh)
			}

			return p, nil
		}

		in.discard()

		if in = nil; fresh || !errors.Is(err, unix.EPIPE) {
			return nil, err
		}
	}
}

// check refuses what would be a mistake of the caller.
func (s *Sandbox) check(spec *Spec) error {
	switch {
	case len(spec.Argv) == 0 || spec.Argv[0] == "":
		return errors.New("sandbox: no command")
	case spec.Private && (spec.Workspace != "" || spec.UID != 0 || spec.Dir != "" || spec.Limits.Workspace != 0 || spec.Limits.Inodes != 0):
		return errors.New("sandbox: a private command has no workspace and no user of a session")
	case spec.Private:
	case !filepath.IsAbs(spec.Workspace):
		return fmt.Errorf("sandbox: workspace %q is not an absolute path", spec.Workspace)
	case spec.Dir != "" && !filepath.IsLocal(spec.Dir):
		return fmt.Errorf("sandbox: directory %q leaves the workspace", spec.Dir)
	case s.dedicated && (spec.UID <= 0 || int64(spec.UID) > math.MaxUint32-1):
		return fmt.Errorf("sandbox: user %d cannot own a session", spec.UID)
	}

	if !spec.Private {
		spec.Workspace = filepath.Clean(spec.Workspace)
	}

	zero := strings.IndexByte(spec.Dir, 0) >= 0
	for _, a := range spec.Argv {
		zero = zero || strings.IndexByte(a, 0) >= 0
	}

	for name, value := range spec.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.IndexByte(value, 0) >= 0 {
			return fmt.Errorf("sandbox: environment variable %q has an impossible name or value", name)
		}
	}

	if zero {
		return errors.New("sandbox: the command holds a zero byte")
	}

	return nil
}

// usable reports whether a ready sandbox still shows the workspace that the path
// names: it may have been removed and made again since.
func (s *Sandbox) usable(in *instance) bool {
	now, err := identify(in.shape.workspace)
	return err == nil && now == in.dir
}

// launch passes the command to a prepared sandbox. When it fails the caller
// still owns the sandbox.
func (s *Sandbox) launch(ctx context.Context, in *instance, spec Spec, began time.Time) (*Process, error) {
	paths, env := s.environment(in, spec)

	message := forkserver.EncodeStart(paths, spec.Argv, env, filepath.Join(s.home(in), spec.Dir))
	if len(message) > forkserver.MaxStart {
		return nil, fmt.Errorf("sandbox: command and environment of %d bytes are longer than %d", len(message), forkserver.MaxStart)
	}

	p := &Process{sandbox: s, in: in, spec: spec, began: began, done: make(chan struct{})}

	theirs, err := p.streams.open(s.devNull, spec)
	if err != nil {
		return nil, err
	}

	err = in.send(message, theirs[:]...)
	p.streams.closeTheirs(s.devNull, theirs)

	if err != nil {
		p.streams.abandon()
		return nil, fmt.Errorf("sandbox: start: %w", err)
	}

	if !s.enter() {
		p.streams.abandon()
		return nil, errClosed
	}

	if in.listener != nil {
		spec.Proxy(in.listener)
		in.listener = nil
	}

	p.streams.copy(spec)
	p.mu.Lock()
	if spec.Limits.Wall > 0 {
		p.wall = time.AfterFunc(spec.Limits.Wall, func() { p.end(Timeout) })
	}

	s.watch(p)
	p.mu.Unlock()
	s.accounts.add(p)

	p.stop = context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			p.end(Timeout)
		} else {
			p.end(Cancelled)
		}
	})
	go p.await()

	return p, nil
}

// PID returns the host's id of the sandbox's process 1.
func (p *Process) PID() int { return p.in.pid }

// Stdin returns the write end of the command's standard input when the Spec had no
// reader for it and asked for a pipe, else nil.
func (p *Process) Stdin() io.WriteCloser {
	if p.streams.stdin == nil {
		return nil
	}

	return p.streams.stdin
}

// Kill ends the command and all its children.
func (p *Process) Kill() { p.end(Cancelled) }

// Done is closed when all processes of the command have ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end.
func (p *Process) Wait() (Result, error) {
	<-p.done
	return p.result, p.err
}

// end kills the tree for a cause; the first cause is kept.
func (p *Process) end(cause Cause) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.over || p.cause != "" {
		return
	}

	p.cause = cause
	p.sandbox.killTree(p.in)
}

// await collects the end of the command.
func (p *Process) await() {
	status, exited, cpu, rss := p.collect()
	if p.sandbox.level != Namespaced || !exited {
		// Here the report alone does not prove that all processes have ended.
		p.sandbox.killTree(p.in)

		if !p.in.wait(killTime) {
			p.err = fmt.Errorf("sandbox: process %d and its tree did not die within %v", p.in.pid, killTime)
		}
	}

	p.stop()
	p.sandbox.accounts.remove(p)
	p.mu.Lock()

	p.over = true
	if p.wall != nil {
		p.wall.Stop()
	}

	if p.scan != nil && p.scan.Stop() { // else the look that is under way sees that it has ended
		p.watcher.close()
	}

	cause, detail := p.cause, p.detail
	p.mu.Unlock()
	p.sandbox.usage.end(p)
	p.streams.finish()

	p.result = conclude(status, exited, cause, detail)
	if !p.result.Success() && p.in.cgroup.OutOfMemory() && (p.result.Cause == Exited || p.result.Cause == Lost) {
		p.result.Cause = OutOfMemory
	}

	p.result.Duration = time.Since(p.began)

	p.result.CPUTime, p.result.MaxRSS = cpu, rss
	if p.result.Cause == WorkspaceFull {
		p.sandbox.usage.after(p)
	}

	close(p.done)

	if p.spec.Private {
		p.in.discard()
		p.sandbox.users.release(p.spec.UID)
	} else {
		p.sandbox.pool.ensure(p.in.shape)
		p.in.discard()
	}

	if p.result.Cause != WorkspaceFull {
		p.sandbox.usage.after(p)
	}

	p.sandbox.live.Done()
}

// collect reads the reports of process 1 until the command's exit, or until
// process 1 has ended.
func (p *Process) collect() (status unix.WaitStatus, exited bool, cpu time.Duration, rss int64) {
	for {
		r, err := p.in.receive()
		if err != nil {
			return 0, false, 0, 0
		}

		switch r.Kind {
		case forkserver.ExecFailed:
			what := p.spec.Argv[0]
			if r.Index == 1 {
				what = "working directory " + p.spec.Dir
			}

			p.mu.Lock()
			p.detail = fmt.Sprintf("%s: %v", what, unix.Errno(r.Errno))
			p.mu.Unlock()
		case forkserver.Exited:
			return unix.WaitStatus(r.Status), true, time.Duration(r.CPU) * time.Microsecond, int64(r.MaxRSS)
		}
	}
}

// conclude returns the Result of the reports so far.
func conclude(status unix.WaitStatus, exited bool, cause Cause, detail string) Result {
	r := Result{Cause: Exited, ExitCode: status.ExitStatus()}
	if !exited {
		r = Result{Cause: Lost, ExitCode: 128 + int(unix.SIGKILL), Signal: unix.SIGKILL.String()}
	} else if status.Signaled() {
		r.ExitCode, r.Signal = 128+int(status.Signal()), status.Signal().String()
	}

	killed := r.Signal == unix.SIGKILL.String()
	switch {
	case detail != "":
		r.Cause, r.Detail = NotStarted, detail
	case cause != "" && killed:
		r.Cause = cause
	case r.ExitCode == 128+int(unix.SIGXFSZ):
		r.Cause = FileTooLarge
	}

	return r
}

// environment returns the command's variables and the paths where its program
// may be.
func (s *Sandbox) environment(in *instance, spec Spec) (paths, env []string) {
	vars := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "HOME": s.home(in),
		"USER": guestName, "LOGNAME": guestName, "SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": "/tmp",
	}
	if s.level != Namespaced {
		vars["TMPDIR"] = in.scratch
	}

	if s.containers != nil && s.containers.image.Path != "" {
		vars["PATH"] = s.containers.image.Path
	}

	if in.listener != nil {
		maps.Copy(vars, proxyVariables())
	}

	maps.Copy(vars, spec.Env)

	for name, value := range vars {
		env = append(env, name+"="+value)
	}

	if strings.Contains(spec.Argv[0], "/") {
		return []string{spec.Argv[0]}, env
	}

	for _, dir := range filepath.SplitList(vars["PATH"]) {
		if filepath.IsAbs(dir) {
			paths = append(paths, filepath.Join(dir, spec.Argv[0]))
		}
	}

	return paths, env
}

// limitedBuffer stores the first bytes of a trial command's output.
type limitedBuffer struct{ b []byte }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.b = append(l.b, p[:min(len(p), max(0, 4096-len(l.b)))]...)
	return len(p), nil
}

func (l *limitedBuffer) String() string { return string(l.b) }
