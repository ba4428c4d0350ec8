//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/cgroup"
	"everloop/infra/sandbox/engine"
	"everloop/infra/sandbox/forkserver"
	"everloop/infra/sandbox/seccomp"
)

// Containers configures the engine and the image of the sandboxes.
type Containers struct {
	// Engine is the socket of a container engine on this machine.
	Engine string
	// Image is the name of an image that the engine has.
	Image string
	// Dir is a private directory of the service, in which it stores the files that containers show
	// in addition to workspaces. The engine must see it, and the workspaces, by the same
	// path. It also identifies the containers of an installation.
	Dir string
}

const (
	labelInstallation = "everloop.sandbox.dir"
	labelLease        = "everloop.sandbox.lease"

	// startTime bounds the start of a container. A busy machine takes its time.
	startTime = 2 * time.Minute
	// lookAgain is the time after which a container that does not connect is looked at.
	lookAgain = time.Second
	// removalTime bounds the removal of containers that terminated services left.
	removalTime = time.Minute

	// fullShares of an engine correspond to fullWeight of the configuration.
	fullShares, fullWeight = 1024, 100
)

// containers make sandboxes that are containers. The service passes process 1 of each
// the same programs and commands as it passes children of the fork server.
type containers struct {
	engine  *engine.Engine
	version string // of the engine
	image   engine.Image
	config  Containers
	extra   []string // paths of the host to show
	view    hostView
	shares  int64

	lease *os.File // the locked directory of this service in config.Dir
	next  atomic.Uint64

	mu   sync.Mutex
	live map[*child]bool
}

// openContainers removes containers of terminated services, and prepares the
// directory of this one.
func openContainers(ctx context.Context, config Config, view hostView) (_ *containers, err error) {
	c := &containers{
		live: map[*child]bool{}, config: *config.Containers, extra: config.ReadOnly, view: view,
		shares: max(2, int64(config.CPUWeight)*fullShares/fullWeight),
	}

	if c.engine, err = engine.Open(c.config.Engine); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}

	defer func() {
		if err != nil {
			c.close()
		}
	}()

	if c.version, err = c.engine.Version(ctx); err != nil {
		return nil, fmt.Errorf("sandbox: no container engine answers at %s: %w", c.config.Engine, err)
	}

	if c.image, err = c.engine.Image(ctx, c.config.Image); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}

	if err = c.takeLease(ctx); err != nil {
		return nil, fmt.Errorf("sandbox: %s: %w", c.config.Dir, err)
	}

	if err = c.keepProgram(); err != nil {
		return nil, fmt.Errorf("sandbox: keep the program of process 1: %w", err)
	}

	return c, nil
}

// takeLease creates and locks the directory of this service, and removes what others
// left. The kernel releases a lock when its service ends, however it ends.
func (c *containers) takeLease(ctx context.Context) error {
	if err := os.MkdirAll(c.config.Dir, 0o700); err != nil {
		return err
	}

	return c.alone(func() error {
		dir, err := os.MkdirTemp(c.config.Dir, "")
		if err != nil {
			return err
		}

		if c.lease, err = os.Open(dir); err != nil {
			return err
		}

		if err := unix.Flock(int(c.lease.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return err
		}

		return c.removeLeft(ctx)
	})
}

// alone does what must not meet another service that starts or ends.
func (c *containers) alone(do func() error) error {
	turn, err := os.OpenFile(filepath.Join(c.config.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}

	defer func() { _ = turn.Close() }()

	if err := ignoringEINTR(func() error { return unix.Flock(int(turn.Fd()), unix.LOCK_EX) }); err != nil {
		return err
	}

	return do()
}

// removeLeft removes the containers and directories of terminated services: directories
// last, so that the next start repeats what failed.
func (c *containers) removeLeft(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removalTime)
	defer cancel()

	entries, err := os.ReadDir(c.config.Dir)
	if err != nil {
		return err
	}

	living := map[string]bool{}

	var gone []string

	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}

		dir := filepath.Join(c.config.Dir, entry.Name())

		living[entry.Name()], err = locked(dir)
		if err != nil {
			return err
		}

		if !living[entry.Name()] {
			gone = append(gone, dir)
		}
	}

	found, err := c.engine.Labels(ctx, labelInstallation, c.config.Dir)
	if err != nil {
		return err
	}

	for id, labels := range found {
		if !living[labels[labelLease]] {
			if err := c.engine.Remove(ctx, id); err != nil {
				return err
			}
		}
	}

	for _, dir := range gone {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}

	return nil
}

// locked reports whether a running service has locked a directory.
func locked(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}

	defer func() { _ = f.Close() }()

	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}

	return false, err
}

// program returns where this program's own file is kept for containers.
func (c *containers) program() string { return filepath.Join(c.lease.Name(), "program") }

// keepProgram copies the file to where the engine finds it: an upgrade may replace it
// while the service runs.
func (c *containers) keepProgram() error {
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}

	defer func() { _ = own.Close() }()

	const readable = 0o005 // and executable, for all

	info, err := own.Stat()
	if err != nil {
		return err
	}

	if path, err := os.Executable(); err == nil && info.Mode()&readable == readable && os.Link(path, c.program()) == nil {
		if linked, err := os.Stat(c.program()); err == nil && os.SameFile(info, linked) {
			return nil
		}

		if err := os.Remove(c.program()); err != nil {
			return err
		}
	}

	kept, err := os.OpenFile(c.program(), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}

	_, err = kept.ReadFrom(own)

	return errors.Join(err, kept.Chmod(0o755), kept.Close())
}

// describe names engine and image.
func (c *containers) describe() string {
	return fmt.Sprintf("containers of %s by Docker %s", c.config.Image, c.version)
}

// close ends the remaining containers of this service, whether the engine responds or not.
func (c *containers) close() {
	c.mu.Lock()
	for one := range c.live {
		one.kill()
	}
	c.mu.Unlock()

	if c.lease != nil {
		// What fails is done by the next start.
		_ = c.alone(func() error { return errors.Join(c.lease.Close(), c.removeLeft(context.Background())) })
	}

	c.engine.Close()
}

// start creates the container of a sandbox and connects to its process 1.
func (c *containers) start(in *instance, dedicated bool) error {
	gid := in.shape.uid
	if !dedicated {
		gid = os.Getegid()
	}

	in.scratch = filepath.Join(c.lease.Name(), strconv.FormatUint(c.next.Add(1), 10))

	listener, err := c.furnish(in.scratch, in.shape, gid)
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}

	defer func() { _ = listener.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()

	id, err := c.engine.Run(ctx, c.container(in.shape, in.scratch, gid))
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}

	if in.child, err = c.accept(ctx, listener, id, in.shape.uid); err != nil {
		return fmt.Errorf("sandbox: process 1 of a container: %w", errors.Join(err, c.engine.Remove(ctx, id)))
	}

	in.cgroup, in.owner = cgroup.OfProcess(in.pid), c

	c.mu.Lock()
	c.live[in.child] = true
	c.mu.Unlock()

	return os.Remove(filepath.Join(in.scratch, controlDir, forkserver.GuestSocket))
}

// forget drops a container that has ended.
func (c *containers) forget(one *child) {
	c.mu.Lock()
	defer c.mu.Unlock()

	delete(c.live, one)
}

// Directories of an instance: what only its process 1 uses, and files of /etc.
const controlDir, etcDir = "control", "etc"

// furnish creates the files that a container shows in addition to its image and its workspace,
// and listens for its process 1.
func (c *containers) furnish(dir string, sh shape, gid int) (*net.UnixListener, error) {
	for _, made := range []string{dir, filepath.Join(dir, controlDir), filepath.Join(dir, etcDir)} {
		if err := os.Mkdir(made, 0o755); err != nil {
			return nil, err
		}
	}

	for _, f := range guestFiles(sh.uid, gid, sh.home()) {
		if err := os.WriteFile(filepath.Join(dir, f.path), []byte(f.content), 0o644); err != nil {
			return nil, err
		}
	}

	// The name of a socket is short, and that of a directory may be long.
	control, err := os.Open(filepath.Join(dir, controlDir))
	if err != nil {
		return nil, err
	}

	defer func() { _ = control.Close() }()

	listener, err := net.ListenUnix("unix", &net.UnixAddr{
		Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", control.Fd(), forkserver.GuestSocket),
	})
	if err != nil {
		return nil, err
	}

	listener.SetUnlinkOnClose(false) // by that name it is another one later

	return listener, os.Chmod(filepath.Join(dir, controlDir, forkserver.GuestSocket), 0o666)
}

// container returns the container's configuration for the engine.
func (c *containers) container(sh shape, dir string, gid int) engine.Container {
	tmp := fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,uid=%d,gid=%d,size=%d,nr_inodes=65536", sh.uid, gid, sh.tmp)
	box := engine.Container{
		Image: c.image.ID, Program: forkserver.GuestPath, User: fmt.Sprintf("%d:%d", sh.uid, gid),
		Labels: map[string]string{labelInstallation: c.config.Dir, labelLease: filepath.Base(c.lease.Name())},
		Mounts: []engine.Mount{
			{Source: c.program(), Target: forkserver.GuestPath},
			{Source: filepath.Join(dir, controlDir), Target: forkserver.GuestControl},
		},
		Tmpfs: map[string]string{"/tmp": tmp},
		Sysctls: map[string]string{
			"net.ipv4.tcp_rmem": fmt.Sprintf(
				"4096 131072 %d",
				socketBuffer,
			),
			"net.ipv4.tcp_wmem": fmt.Sprintf("4096 16384 %d", socketBuffer),
			"kernel.shmall":     strconv.FormatInt(sh.tmp/int64(os.Getpagesize()), 10),
		},
		Masked: []string{"/sys"},
		Memory: sh.memory, Processes: int64(sh.processes + forkserver.GuestThreads), Shm: sh.tmp, CPU: sh.cpu, CPUShares: c.shares,
	}

	for _, f := range guestFiles(sh.uid, gid, sh.home()) {
		box.Mounts = append(box.Mounts, engine.Mount{Source: filepath.Join(dir, f.path), Target: "/" + f.path})
	}

	for _, path := range c.extra {
		box.Mounts = append(box.Mounts, engine.Mount{Source: filepath.Clean(path), Target: filepath.Clean(path)})
	}

	for _, name := range append(c.view.maskedFiles, c.view.maskedDirs...) {
		box.Masked = append(box.Masked, "/proc/"+name)
	}

	if sh.private() {
		box.Tmpfs[guestHome] = tmp
	} else {
		box.Mounts = append(box.Mounts, engine.Mount{Source: sh.workspace, Target: guestRoot, Writable: true})
	}

	return box
}

// accept waits for process 1 of a container. It is the only one that can connect: the
// socket is in a directory of the service, and nothing else runs in the container.
func (c *containers) accept(ctx context.Context, listener *net.UnixListener, id string, uid int) (*child, error) {
	conn, err := c.connection(ctx, listener, id)
	if err != nil {
		return nil, err
	}

	defer func() { _ = conn.Close() }()

	peer, err := credentials(conn)
	switch {
	case err != nil:
		return nil, err
	case peer.Pid <= 0:
		return nil, errors.New("the service cannot see it: it has to run outside of containers, or in the host's process namespace")
	case int(peer.Uid) != uid:
		return nil, fmt.Errorf("it runs as user %d of the host and not %d: the engine maps users (a rootless engine does)", peer.Uid, uid)
	}

	ctl, err := conn.File()
	if err != nil {
		return nil, err
	}

	pidfd, err := unix.PidfdOpen(int(peer.Pid), 0)
	if err != nil {
		_ = ctl.Close()
		return nil, err
	}

	return &child{pid: int(peer.Pid), pidfd: pidfd, ctl: ctl}, nil
}

// connection is the connection to process 1, for the lifetime of the container.
func (c *containers) connection(ctx context.Context, listener *net.UnixListener, id string) (*net.UnixConn, error) {
	for {
		if err := listener.SetDeadline(time.Now().Add(lookAgain)); err != nil {
			return nil, err
		}

		conn, err := listener.AcceptUnix()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}

		running, err := c.engine.Running(ctx, id)
		if err != nil {
			return nil, err
		}

		if !running {
			return nil, errors.New("it ended at once: the C library of the image may be older than the one that this program needs")
		}
	}
}

// credentials are those with which the other end connected.
func credentials(conn *net.UnixConn) (peer *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}

	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })

	return peer, errors.Join(err, failed)
}

// containerProgram returns what process 1 of a container does before it takes a command.
// Files, users, namespaces, memory and processes are the engine's part.
func containerProgram(sh shape) *program {
	p := &program{}
	sh.processes = 0 // the kernel would count those of all containers of the user

	if sh.proxy {
		p.proxy()
	}

	p.limits(sh, cgroup.Holds{Memory: true, PIDs: true, CPU: true})
	p.dropCapabilities()
	p.finish(seccomp.Rule{Inet: true, Netlink: true, Memfd: true})

	return p
}
