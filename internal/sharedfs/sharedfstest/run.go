//go:build linux

// Package sharedfstest repeats the tests of a package on shared file systems: a simulated one,
// and a GlusterFS volume where this machine can mount one. It is for tests only.
package sharedfstest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"everloop/internal/sharedfs"
)

// volume is the variable with the directory of a volume's mounts, in the process that runs the
// tests on GlusterFS.
const volume = "EVERLOOP_TEST_GLUSTERFS"

// Run runs the tests of a package on each type of file system, and returns the exit code. It
// prints the types.
func Run(m *testing.M) int {
	if dir := os.Getenv(volume); dir != "" {
		return onVolume(m, dir, true)
	}

	flag.Parse()

	if special() {
		return m.Run()
	}

	code := pass(m, "local")

	return max(code, simulations(m), onGluster())
}

// machinesSuffix ends the names of tests that call Machines.
const machinesSuffix = "AcrossMachines"

// RunMachines runs all tests of a package, and then, if this machine can mount a volume, the
// tests whose names end in AcrossMachines on a volume. Their temporary directories stay local.
func RunMachines(m *testing.M) int {
	if dir := os.Getenv(volume); dir != "" {
		return onVolume(m, dir, false)
	}

	flag.Parse()

	code := m.Run()
	if special() {
		return code
	}

	if only := flag.Lookup("test.run").Value.String(); only != "" {
		if strings.Contains(only, machinesSuffix) {
			return max(code, onGluster())
		}

		return code
	}

	return max(code, onGluster("-test.run="+machinesSuffix+"$"))
}

// special reports whether the binary was started for another purpose than tests.
func special() bool { return asked("test.list") || asked("test.bench") || asked("test.fuzz") }

// simulations runs the tests on a local disk that simulates shared file systems.
func simulations(m *testing.M) (code int) {
	for _, mode := range []struct {
		name string
		as   sharedfs.Simulation
	}{
		{"simulated, without flags of renameat2, attributes cached", sharedfs.Simulation{NoRenameFlags: true, CachesAttributes: true}},
		{"simulated, without flags of renameat2 or hard links", sharedfs.Simulation{NoRenameFlags: true, NoHardLinks: true}},
	} {
		restore := sharedfs.Simulate(mode.as)
		simulated = true
		code = max(code, pass(m, mode.name))
		simulated = false

		restore()
	}

	return code
}

// onGluster returns the result of the tests on a mounted volume, with further arguments. It
// prints the reason when a volume cannot be mounted.
func onGluster(further ...string) int {
	if err := usable(); err != nil {
		fmt.Println("file system: GlusterFS cannot be mounted here (" + err.Error() + "): this pass is left out")
		return 0
	}

	return inNamespace(further...)
}

func asked(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != ""
}

func pass(m *testing.M, name string) int {
	fmt.Println("file system: " + name)
	return m.Run()
}

// inNamespace runs this binary again in a mount namespace, which ends with it.
func inNamespace(further ...string) int {
	dir, err := os.MkdirTemp("", "everloop-glusterfs-")
	if err != nil {
		fmt.Println("file system: GlusterFS:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()

	if err := os.Chmod(dir, 0o755); err != nil { // tests drop to other users
		fmt.Println("file system: GlusterFS:", err)
		return 1
	}
	// The parent-death signal is bound to the thread.
	runtime.LockOSThread()

	defer runtime.UnlockOSThread()

	again := exec.Command("/proc/self/exe", append(arguments(), further...)...)
	again.Env = append(os.Environ(), volume+"="+dir)
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}

	err = again.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, exit.ExitCode())
	}

	if err != nil {
		fmt.Println("file system: GlusterFS:", err)
		return 1
	}

	return 0
}

// arguments returns this process's arguments without output files.
func arguments() []string {
	var out []string

	for _, a := range os.Args[1:] {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch name {
		case "test.testlogfile", "test.coverprofile", "test.gocoverdir", "test.cpuprofile", "test.memprofile", "test.trace":
		default:
			out = append(out, a)
		}
	}

	return out
}

// onVolume runs the tests on a new volume; temporary: their temporary directories are on it, too.
func onVolume(m *testing.M, dir string, temporary bool) int {
	runtime.LockOSThread() // the servers end with this thread

	g, err := start(dir)
	if err == nil {
		defer g.stop()

		err = g.mountAll()
	}

	if err != nil {
		fmt.Println("file system: GlusterFS:", err)
		return 1
	}

	if temporary {
		err = os.Setenv("TMPDIR", g.mounts[0])
	}

	if err != nil {
		fmt.Println("file system: GlusterFS:", err)
		return 1
	}

	mounted = g

	return pass(m, "GlusterFS (FUSE), mounted twice, at "+g.mounts[0])
}

var (
	mounted   *gluster // the volume of this process's tests
	simulated bool
)

// Mounted reports whether this run is on a mounted volume.
func Mounted() bool { return mounted != nil }

// Simulated reports whether this run simulates a shared file system: tests that do not depend on
// it have already run.
func Simulated() bool { return simulated }

// Machines returns a new directory of a volume through two mounts, as on two machines; the second
// caches attributes and names for ten minutes. It skips the test without a volume: Run has
// printed the reason.
func Machines(t testing.TB) (one, other string) {
	t.Helper()

	if mounted == nil {
		t.Skip("this pass is not on a shared volume")
	}

	one, err := os.MkdirTemp(mounted.mounts[0], "machines-")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = os.RemoveAll(one) })

	return one, mounted.mounts[1] + strings.TrimPrefix(one, mounted.mounts[0])
}
