package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkPrivate refuses a view in which commands would see a private directory of the
// service: directories are compared by the file system, so that links and
// bind mounts do not hide it.
func (v hostView) checkPrivate(private []string) error {
	for _, dir := range private {
		for _, shown := range v.dirs {
			overlap, err := overlaps(dir, shown)
			if err != nil {
				return fmt.Errorf("sandbox: compare %s with %s: %w", dir, shown, err)
			}

			if overlap {
				return fmt.Errorf("sandbox: %s holds secrets of the service and overlaps %s, which commands can read: move one of them "+
					"(DATA_DIR, KEY_DIR, SANDBOX_READ_ONLY)", dir, shown)
			}
		}
	}

	return nil
}

// overlaps reports whether one of two directories contains the other, or is the same. A path that
// does not exist yet is compared as text.
func overlaps(a, b string) (bool, error) {
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		inside, err := liesIn(pair[0], pair[1])
		if inside || err != nil {
			return inside, err
		}
	}

	return false, nil
}

func liesIn(path, dir string) (bool, error) {
	of, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	path, err = existing(path)
	if err != nil {
		return false, err
	}

	for {
		info, err := os.Stat(path)
		if err != nil {
			return false, err
		}

		if os.SameFile(info, of) {
			return true, nil
		}

		if path == filepath.Dir(path) {
			return false, nil
		}

		path = filepath.Dir(path)
	}
}

// existing returns the deepest part of a path that exists, without links.
func existing(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}

	for {
		real, err := filepath.EvalSymlinks(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return real, err
		}

		path = filepath.Dir(path)
	}
}
