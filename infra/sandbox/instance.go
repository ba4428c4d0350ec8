//go:build linux

package sandbox

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/cgroup"
	"everloop/infra/sandbox/forkserver"
)

// instance is a prepared sandbox: its process 1 waits for a command.
type instance struct {
	*child
	shape   shape
	cgroup  *cgroup.Group
	scratch string      // level 1: its temporary directory; a container: what it shows
	dir     dirID       // the workspace that it was made with
	owner   *containers // of a container

	listener net.Listener // of its proxy; nil: none, or it was handed on
}

// dirID identifies a directory, to see whether a path still names it.
type dirID struct{ dev, ino uint64 }

func identify(dir string) (dirID, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return dirID{}, &os.PathError{Op: "stat", Path: dir, Err: err}
	}

	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return dirID{}, &os.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
	}

	return dirID{uint64(st.Dev), st.Ino}, nil
}

// prepare creates a sandbox that only lacks its command. When it fails
// there is none.
func (s *Sandbox) prepare(sh shape) (*instance, error) {
	in := &instance{shape: sh}

	if err := s.make(in); err != nil {
		in.discard()
		return nil, err
	}

	return in, nil
}

// make is prepare, and discards the remains of a failure.
func (s *Sandbox) make(in *instance) (err error) {
	if !in.shape.private() {
		if in.dir, err = identify(in.shape.workspace); err != nil {
			return fmt.Errorf("sandbox: workspace: %w", err)
		}
	}

	if s.containers != nil {
		return s.makeContainer(in)
	}

	if in.cgroup, err = s.cgroups.New(in.shape.groupLimits()); err != nil {
		return err
	}

	p, fds, err := s.program(in)
	for _, fd := range fds {
		defer func() { _ = unix.Close(fd) }()
	}

	if err != nil {
		return err
	}

	encoded, err := p.encode()
	if err != nil {
		return err
	}

	if in.child, err = s.helper.fork(encoded); err != nil {
		return err
	}

	if err := in.cgroup.Attach(in.pid); err != nil {
		return err
	}

	if s.level == Namespaced {
		if err := in.mapUser(in.shape.uid, s.dedicated); err != nil {
			return err
		}
	}

	if err := in.send(make([]byte, forkserver.ReleaseSize), fds...); err != nil {
		return fmt.Errorf("sandbox: release: %w", err)
	}

	return in.setUp(p)
}

// makeContainer is the same for a sandbox that is a container.
func (s *Sandbox) makeContainer(in *instance) error {
	p := containerProgram(in.shape)

	encoded, err := p.encode()
	if err != nil {
		return err
	}

	if err := s.containers.start(in, s.dedicated); err != nil {
		return err
	}

	if err := in.send(binary.NativeEndian.AppendUint64(nil, uint64(len(encoded)))); err != nil {
		return fmt.Errorf("sandbox: release: %w", err)
	}

	if err := in.send(encoded); err != nil {
		return fmt.Errorf("sandbox: release: %w", err)
	}

	return in.setUp(p)
}

// setUp waits until a released sandbox has run its program.
func (in *instance) setUp(p *program) error {
	report, err := in.ready()
	if err != nil {
		return fmt.Errorf("sandbox: set-up was killed: %w", err)
	}

	if report.Kind != forkserver.Ready {
		return p.fault(report)
	}

	return nil
}

// program returns the set-up for the sandbox's level and the descriptors it needs.
func (s *Sandbox) program(in *instance) (*program, []int, error) {
	held := s.cgroups.Holds()
	if s.level == Namespaced {
		return namespaceProgram(s.view, in.shape, s.dedicated, held), nil, nil
	}
	// A cleaner of /tmp may have been here.
	_ = os.Mkdir(s.scratch, 0o711)

	scratch, err := os.MkdirTemp(s.scratch, "tmp-")
	if err != nil {
		return nil, nil, fmt.Errorf("sandbox: %w", err)
	}

	in.scratch = scratch
	if s.dedicated {
		if err := os.Chown(scratch, in.shape.uid, in.shape.uid); err != nil {
			return nil, nil, fmt.Errorf("sandbox: %w", err)
		}
	}

	var fds []int

	if s.level == Landlocked {
		ruleset, err := landlockRuleset(s.view, in.shape.workspace, scratch)
		if err != nil {
			return nil, nil, err
		}

		fds = []int{ruleset}
	}

	return landlockProgram(in.shape, s.dedicated, s.level == Landlocked, held), fds, nil
}

// discard ends a sandbox and removes everything that was created for it.
func (in *instance) discard() {
	if in.child != nil {
		in.kill()
		in.wait(killTime)

		if in.owner != nil {
			in.owner.forget(in.child)
		}

		in.close()
	}

	if in.cgroup != nil {
		in.cgroup.Remove()
	}

	if in.scratch != "" {
		_ = os.RemoveAll(in.scratch)
	}

	if in.listener != nil {
		_ = in.listener.Close()
	}
}
