//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"

	"everloop/infra/sandbox/engine"
)

// testImage is an image of programs of this machine with their libraries, made once
// where an engine answers.
var testImage = sync.OnceValues(func() (Containers, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()

	provider, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return Containers{}, err
	}

	defer func() { _ = provider.Close() }()

	found := Containers{Engine: strings.TrimPrefix(provider.DaemonHost(), "unix://"), Image: "everloop-sandbox-test:latest"}

	own, err := os.Executable() // process 1 of a container, which needs its libraries
	if err != nil {
		return found, err
	}

	tree := exec.CommandContext(ctx, "../../build/standin/sandbox-image.sh", own)
	tree.Stderr = os.Stderr

	image, err := tree.Output()
	if err != nil {
		return found, err
	}

	imported, err := provider.ImageImport(ctx, client.ImageImportSource{Source: bytes.NewReader(image), SourceName: "-"}, found.Image,
		client.ImageImportOptions{Changes: []string{"ENV PATH=/usr/local/bin:/usr/bin:/bin"}})
	if err != nil {
		return found, err
	}

	_, err = io.Copy(io.Discard, imported)

	return found, err
})

// inContainers returns a configuration for containers, where an engine is there.
func inContainers(t *testing.T) Config {
	t.Helper()
	testcontainers.SkipIfProviderIsNotHealthy(t)

	if os.Getuid() != 0 {
		t.Skip("the engine's socket is for root")
	}

	found, err := testImage()
	require.NoError(t, err)

	dir, err := os.MkdirTemp("", "sandbox-engine-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	found.Dir = filepath.Join(
		dir,
		"a directory whose name is longer than the hundred and eight bytes that the address of a socket may have",
	)

	return Config{Containers: &found}
}

func TestContainers_whatACommandSees(t *testing.T) {
	config := inContainers(t)
	shared, err := os.MkdirTemp("/opt", "sandbox-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(shared) })
	require.NoError(t, os.Chmod(shared, 0o755))
	require.NoError(t, os.WriteFile(shared+"/tool", []byte("of the operator"), 0o644))
	require.NoError(t, os.Chmod(shared+"/tool", 0o666))

	config.ReadOnly = []string{shared}
	s := open(t, config)
	require.Equal(t, Namespaced, s.Level())
	require.Contains(t, s.Describe(), "containers of everloop-sandbox-test:latest by ")
	require.False(t, s.Measured())

	x := newSession(t, s)
	for script, want := range map[string]string{
		"id -un; pwd; hostname; echo $PATH": "agent\n/workspace\nsandbox\n/usr/local/bin:/usr/bin:/bin",
		"id -u":                             strconv.Itoa(x.uid),
		"ls -A /tmp /dev/shm /sys":          "/dev/shm:\n\n/sys:\n\n/tmp:",
		"ls -A /.everloop/control; cat /etc/resolv.conf /proc/cmdline /proc/diskstats": "",
		"set -- /proc/[0-9]*; echo $#":            "2", // process 1 and bash
		"touch f && stat -c %U:%G f":              "agent:agent",
		"cat " + shared + "/tool":                 "of the operator",
		"echo x >>" + shared + "/tool || echo no": "bash: line 1: " + shared + "/tool: Read-only file system\nno",
	} {
		out, r := sh(t, s, x.spec(script))
		require.True(t, r.Success(), script)
		require.Equal(t, want, out, script)
	}

	out, _ := sh(t, s, x.spec("for f in /new /bin/new /usr/new /etc/new /dev/new /sys/new /proc/new /.everloop/new "+
		"/.everloop/control/new /.everloop/guest /etc/passwd; do : >$f && echo wrote $f; done"))
	require.NotContains(t, out, "wrote", out)
}

func TestContainers_settings(t *testing.T) {
	config := inContainers(t)
	wrong := func(change func(c *Containers)) error {
		other := *config.Containers
		change(&other)

		_, err := New(t.Context(), Config{Containers: &other})

		return err
	}

	require.ErrorContains(t, wrong(func(c *Containers) { c.Image = "everloop-no-such-image:1" }), "pull or build it")
	require.ErrorContains(t, wrong(func(c *Containers) { c.Engine = "docker.sock" }), "not the absolute path of a socket")
	require.ErrorContains(t, wrong(func(c *Containers) { c.Engine = t.TempDir() + "/none" }), "no container engine answers at")

	_, err := New(t.Context(), Config{Containers: config.Containers, ReadOnly: []string{t.TempDir()}, Private: []string{"/"}})
	require.ErrorContains(t, err, "each sandbox has its own")
	_, err = New(t.Context(), Config{Containers: config.Containers, SharedUser: true})
	require.ErrorContains(t, err, "as root in a container")

	entries, err := os.ReadDir(config.Containers.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left but the lock")
}

// labelled gives the containers of an installation, by id.
func labelled(t *testing.T, c *Containers) map[string]map[string]string {
	t.Helper()

	e, err := engine.Open(c.Engine)
	require.NoError(t, err)

	defer e.Close()

	found, err := e.Labels(t.Context(), labelInstallation, c.Dir)
	require.NoError(t, err)

	return found
}

// requireNoContainer waits for the engine, which removes them in its own time.
func requireNoContainer(t *testing.T, c *Containers) {
	t.Helper()
	require.Eventually(t, func() bool { return len(labelled(t, c)) == 0 }, time.Minute, 50*time.Millisecond)
}

// A service that is killed leaves containers that never started, and with an engine
// that was away also others. The next one removes them, and none of a living one.
func TestContainers_leftBehind(t *testing.T) {
	config := inContainers(t)
	living := open(t, config)
	x := newSession(t, living)
	spec := x.spec("read line; echo $line")

	var out bytes.Buffer

	spec.StdinPipe, spec.Stdout = true, &out
	p, err := living.Start(t.Context(), spec)
	require.NoError(t, err)

	gone := filepath.Join(config.Containers.Dir, "gone")
	require.NoError(t, os.Mkdir(gone, 0o700))

	api, err := testcontainers.NewDockerClientWithOpts(t.Context())
	require.NoError(t, err)

	defer func() { _ = api.Close() }()

	left, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{
		Image: config.Containers.Image, Cmd: []string{"true"},
		Labels: map[string]string{labelInstallation: config.Containers.Dir, labelLease: "gone"},
	}})
	require.NoError(t, err)
	require.Contains(t, labelled(t, config.Containers), left.ID)

	next := open(t, config)
	require.NotContains(t, labelled(t, config.Containers), left.ID)
	require.NoDirExists(t, gone)

	_, err = fmt.Fprintln(p.Stdin(), "alive")
	require.NoError(t, err)
	r, err := p.Wait()
	require.NoError(t, err)
	require.True(t, r.Success())
	require.Equal(t, "alive\n", out.String())

	next.Close()
	living.Close()
	requireNoContainer(t, config.Containers)
	entries, err := os.ReadDir(config.Containers.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left but the lock")
}

// doorway passes connections on to the engine, until it is closed.
func doorway(t *testing.T, socket string) (path string, shut func()) {
	t.Helper()

	path = filepath.Join(t.TempDir(), "engine")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)

	var (
		mu   sync.Mutex
		open []net.Conn
	)

	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}

			onward, err := net.Dial("unix", socket)
			if err != nil {
				_ = conn.Close()
				continue
			}

			mu.Lock()

			open = append(open, conn, onward)
			mu.Unlock()

			go func() { _, _ = io.Copy(onward, conn) }()
			go func() { _, _ = io.Copy(conn, onward) }()
		}
	}()

	shut = func() {
		_ = listener.Close()

		mu.Lock()
		defer mu.Unlock()

		for _, conn := range open {
			_ = conn.Close()
		}
	}
	t.Cleanup(shut)

	return path, shut
}

// Nothing that ends a command asks the engine.
func TestContainers_engineIsAway(t *testing.T) {
	config := inContainers(t)
	direct := *config.Containers
	path, shut := doorway(t, config.Containers.Engine)
	config.Containers.Engine, config.WarmMax = path, -1

	s := open(t, config)
	x := newSession(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	stopped, err := s.Start(ctx, x.spec(daemons+"sleep 600"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, err := os.Stat(x.dir + "/beat"); return err == nil }, time.Minute, time.Millisecond)

	running, err := s.Start(t.Context(), x.spec("sleep 600"))
	require.NoError(t, err)
	shut()
	cancel()

	r, err := stopped.Wait()
	require.NoError(t, err)
	require.Equal(t, Cancelled, r.Cause)

	_, err = s.Run(t.Context(), x.spec("true"))
	require.ErrorContains(t, err, "engine: make a container")

	s.Close()

	r, err = running.Wait()
	require.NoError(t, err)
	require.Equal(t, Lost, r.Cause)
	requireNoProcess(t, s, x)

	open(t, Config{Containers: &direct}).Close()
	requireNoContainer(t, &direct)
}
