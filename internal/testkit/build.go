package testkit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// buildProgram builds cmd/everloop into the user's cache directory and returns its path. Test
// binaries run concurrently: under a lock one builds and the others wait. Go's build cache makes
// a repeated build cheap.
func buildProgram() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}

	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache directory (or set EVERLOOP_BIN to a built everloop): %w", err)
	}
	// Several checkouts can be tested concurrently.
	sum := sha256.Sum256([]byte(root))

	dir := filepath.Join(cache, "everloop", fmt.Sprintf("testkit-%x", sum[:6]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}

	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()

	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}

	program := filepath.Join(dir, "everloop")
	cmd := exec.Command("go", "build", "-o", program, "./cmd/everloop")
	cmd.Dir = root

	var output bytes.Buffer

	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build cmd/everloop (set EVERLOOP_BIN to use a built one): %w\n%s", err, output.String())
	}

	return program, nil
}

// moduleRoot returns the directory of the go.mod above the working directory, which is the
// package under test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}

	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}

		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory: set EVERLOOP_BIN to a built everloop")
		}

		dir = filepath.Dir(dir)
	}
}
