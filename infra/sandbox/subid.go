//go:build linux

package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// DefaultUserBase is the first host user of commands when none is configured: above
// the ranges of subordinate users (useradd assigns up to 600,100,000) and of containers
// (systemd assigns up to 1,879,048,191).
const DefaultUserBase = 1_900_000_000

// LastUser is the highest host user that a session can get.
const LastUser = 2_147_000_000

// checkSubordinate refuses users that a local user may take on in a user namespace of
// their own: they could read sessions' files and end their commands.
func checkSubordinate(base int) error {
	for _, path := range []string{"/etc/subuid", "/etc/subgid"} {
		if err := checkSubordinateFile(path, base-maxPrivate, LastUser); err != nil {
			return err
		}
	}

	return nil
}

// checkSubordinateFile searches a line "name:first:count" that includes one of the ids
// from first to last.
func checkSubordinateFile(path string, first, last int) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}

	defer func() { _ = f.Close() }()

	for scan := bufio.NewScanner(f); scan.Scan(); {
		fields := strings.Split(strings.TrimSpace(scan.Text()), ":")
		if len(fields) != 3 {
			continue
		}

		start, err := strconv.Atoi(fields[1])

		count, err2 := strconv.Atoi(fields[2])
		if err != nil || err2 != nil || count <= 0 {
			continue
		}

		if start <= last && start+count-1 >= first {
			return fmt.Errorf("sandbox: %s gives the ids from %d on to %s, who could act as the user of a session: "+
				"change that file", path, start, fields[0])
		}
	}

	return nil
}
