package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Unused returns an error if another process uses a data directory.
func Unused(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, lockName)); errors.Is(err, os.ErrNotExist) {
		return nil
	}

	lock, err := lockDir(dir)
	if err != nil {
		return err
	}

	return lock.release()
}

// AttachPostgres returns the connection string of a database of the server that another
// process runs on a data directory.
func AttachPostgres(dir, database string) (string, error) {
	dir = filepath.Join(dir, "postgres")

	password, err := os.ReadFile(filepath.Join(dir, "app-password"))
	if err != nil {
		return "", fmt.Errorf("find the running PostgreSQL: %w", err)
	}

	content, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return "", fmt.Errorf("find the running PostgreSQL: %w", err)
	}

	const portLine = 3

	lines := strings.Split(string(content), "\n")
	if len(lines) <= portLine {
		return "", errors.New("find the running PostgreSQL: it has not started yet")
	}

	port, err := strconv.Atoi(strings.TrimSpace(lines[portLine]))
	if err != nil {
		return "", fmt.Errorf("find the running PostgreSQL: its port is not a number: %w", err)
	}

	p := &Postgres{port: port}

	return p.tcpURL(url.UserPassword(applicationRole, strings.TrimSpace(string(password))), database), nil
}

// AttachObjects serves the objects of a data directory concurrently with its running server. It
// is for reading; see [StartObjects] about the working directory.
func AttachObjects(ctx context.Context, dir string, logger *slog.Logger) (*Objects, error) {
	return StartObjects(ctx, filepath.Join(dir, "objects"), ObjectsConfig{}, logger)
}
