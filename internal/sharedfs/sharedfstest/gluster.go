//go:build linux

package sharedfstest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startTime is the timeout of starting a server or mount.
const startTime = 2 * time.Minute

// programs of Debian's packages glusterfs-server and glusterfs-client.
const (
	serverProgram = "glusterfsd"
	clientProgram = "glusterfs"
)

// gluster is a volume of one brick, served over loopback and mounted twice. It needs no
// management daemon: the graphs of server and client are generated.
type gluster struct {
	dir       string
	port      int
	mounts    []string
	processes []*exec.Cmd
}

// usable returns why no volume can be mounted here.
func usable() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}

	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}

	_ = fuse.Close()

	for _, name := range []string{serverProgram, clientProgram} {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}
	// A container's root may lack the permission to mount.
	try := exec.Command(clientProgram, "--version")

	try.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := try.Run(); err != nil {
		return fmt.Errorf("a namespace of mounts cannot be made: %w", err)
	}

	return nil
}

// start serves a new brick.
func start(dir string) (*gluster, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}

	g := &gluster{dir: dir, port: port}

	brick := filepath.Join(dir, "brick")
	if err := os.Mkdir(brick, 0o755); err != nil {
		return nil, err
	}

	graph := fmt.Sprintf(`volume posix
  type storage/posix
  option directory %s
end-volume
volume locks
  type features/locks
  subvolumes posix
end-volume
volume brick
  type performance/io-threads
  subvolumes locks
end-volume
volume server
  type protocol/server
  option transport-type tcp
  option transport.socket.bind-address 127.0.0.1
  option transport.socket.listen-port %d
  option auth.addr.brick.allow 127.0.0.1
  subvolumes brick
end-volume
`, brick, port)

	return g, g.run(serverProgram, "server", graph)
}

// mountAll mounts the volume twice; the second mount caches for long.
func (g *gluster) mountAll() error {
	graph := fmt.Sprintf(`volume client
  type protocol/client
  option transport-type tcp
  option remote-host 127.0.0.1
  option remote-port %d
  option remote-subvolume brick
end-volume
`, g.port)
	for i, options := range [][]string{nil, {"--attribute-timeout=600", "--entry-timeout=600"}} {
		name := fmt.Sprintf("machine%d", i+1)

		at := filepath.Join(g.dir, name)
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}

		if err := g.run(clientProgram, name, graph, append(options, at)...); err != nil {
			return err
		}

		g.mounts = append(g.mounts, at)
		if err := g.ready(at); err != nil {
			return err
		}
	}

	return os.Chmod(g.mounts[0], 0o755)
}

// ready waits until a mount is writable.
func (g *gluster) ready(at string) error {
	const fuse = unix.FUSE_SUPER_MAGIC

	deadline := time.Now().Add(startTime)

	for {
		var fs unix.Statfs_t

		err := unix.Statfs(at, &fs)
		if err == nil && fs.Type == fuse {
			probe := filepath.Join(at, ".ready")
			if err = os.WriteFile(probe, nil, 0o600); err == nil {
				return os.Remove(probe)
			}
		}

		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(g.dir, filepath.Base(at)+".log"))
			return fmt.Errorf("%s was not mounted in %s: %w\n%s", at, startTime, err, log[max(0, len(log)-4000):])
		}

		time.Sleep(50 * time.Millisecond) // there is no event of a mount
	}
}

func (g *gluster) run(program, name, graph string, arguments ...string) error {
	file := filepath.Join(g.dir, name+".vol")
	if err := os.WriteFile(file, []byte(graph), 0o600); err != nil {
		return err
	}

	arguments = append([]string{
		"--no-daemon", "--volfile=" + file, "--log-file=" + filepath.Join(g.dir, name+".log"),
		"--pid-file=" + filepath.Join(g.dir, name+".pid"),
	}, arguments...)
	cmd := exec.Command(program, arguments...)

	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}

	g.processes = append(g.processes, cmd)

	return nil
}

// stop stops the mounts, then the server.
func (g *gluster) stop() {
	for _, at := range g.mounts {
		_ = unix.Unmount(at, unix.MNT_DETACH)
	}

	for i := len(g.processes) - 1; i >= 0; i-- {
		_ = g.processes[i].Process.Kill()
		_ = g.processes[i].Wait()
	}
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()

	return listener.Addr().(*net.TCPAddr).Port, nil
}
