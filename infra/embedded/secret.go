package embedded

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// randomSecret returns 24 random bytes in hexadecimal.
func randomSecret() string {
	var b [24]byte

	_, _ = rand.Read(b[:]) // never fails: crypto/rand aborts the process instead

	return hex.EncodeToString(b[:])
}

// loadSecret returns the secret in path, or creates it. The file has mode 0600 and is created
// atomically.
func loadSecret(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err == nil {
		if secret := strings.TrimSpace(string(content)); secret != "" {
			return secret, nil
		}

		return "", fmt.Errorf("secret file %s is empty: restore it, or remove the directory it belongs to", path)
	}

	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}

	secret := randomSecret()

	return secret, writeFileAtomic(path, []byte(secret+"\n"), 0o600)
}

// writeFileAtomic replaces the content of path atomically and durably.
func writeFileAtomic(path string, content []byte, mode os.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())

	_, err = temp.Write(content)

	err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close())
	if err != nil {
		return err
	}

	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}

	return syncPath(filepath.Dir(path))
}

// syncPath flushes a file or a directory.
func syncPath(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)

	if err := unix.Fsync(fd); err != nil {
		return &os.PathError{Op: "fsync", Path: path, Err: err}
	}

	return nil
}
