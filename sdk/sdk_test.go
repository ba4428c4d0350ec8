// Package sdk holds the client libraries of Everloop, which are not written in Go. Its
// test installs, builds and tests them, so that `go test ./sdk` is all that it takes. It
// must know nothing of the service's code.
package sdk

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestJavaScript builds the JavaScript SDK and runs its tests. They also fail when its
// generated files are not those of the service.
func TestJavaScript(t *testing.T) {
	if testing.Short() {
		t.Skip("installs npm packages and builds the service; left out with -short")
	}

	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the JavaScript SDK needs %s: %v", program, err)
		}
	}

	binary := serviceBinary(t)

	lock, err := os.Open("js/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()

	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatalf("wait for another npm ci: %v", err)
	}

	if !installed(lock) {
		run(t, binary, "js", "npm", "ci")
	}

	run(t, binary, "js", "npm", "run", "build")
	run(t, binary, "js", "npm", "test")
}

// TestPython runs the tests of the Python SDK with Debian's Python and packages, every
// warning an error. They also fail when its generated files are not those of the service.
func TestPython(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service; left out with -short")
	}

	python := os.Getenv("EVERLOOP_PYTHON")
	if python == "" {
		python = "/usr/bin/python3" // another one in PATH lacks Debian's packages
	}

	binary := serviceBinary(t)

	run(t, binary, "python", python, "-W", "error", "-B", "scripts/generate.py", "--check")
	run(t, binary, "python", python, "-W", "error", "-B", "-m", "unittest", "discover", "-t", ".", "-s", "tests")
}

// installed: npm writes this file last.
func installed(lock *os.File) bool {
	wanted, err := lock.Stat()
	if err != nil {
		return false
	}

	made, err := os.Stat("js/node_modules/.package-lock.json")

	return err == nil && !made.ModTime().Before(wanted.ModTime())
}

// serviceBinary is the program that EVERLOOP_BIN names; without it, it is built.
func serviceBinary(t *testing.T) string {
	t.Helper()

	if path := os.Getenv("EVERLOOP_BIN"); path != "" {
		return path
	}

	path := filepath.Join(t.TempDir(), "everloop")
	if out, err := exec.Command("go", "build", "-o", path, "everloop/cmd/everloop").CombinedOutput(); err != nil {
		t.Fatalf("build the service: %v\n%s", err, out)
	}

	return path
}

func run(t *testing.T, binary, dir, name string, args ...string) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()

	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir

	cmd.Env = append(os.Environ(), "EVERLOOP_BIN="+binary)

	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
