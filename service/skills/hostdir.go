//go:build linux

package skills

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"everloop/internal/skillpack"
)

// hostFiles lists the regular files of a package on the host. Links are left
// out. look names the state of the files: it is equal when nothing was changed.
func hostFiles(dir string) (files []skillpack.File, look string, err error) {
	var state strings.Builder

	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		if d.IsDir() || !d.Type().IsRegular() {
			return nil
		}

		info, err := d.Info()
		if err != nil {
			return err
		}

		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}

		if len(files) > skillpack.MaxFiles {
			return fs.SkipAll // it is refused for their number
		}

		mode := fs.FileMode(0o644)
		if info.Mode()&0o111 != 0 {
			mode = 0o755
		}

		files = append(files, skillpack.File{
			Path: filepath.ToSlash(rel), Size: info.Size(), Mode: mode,
			Open: func() (io.ReadCloser, error) { return os.Open(path) },
		})
		state.WriteString(rel + "\x00" + info.ModTime().String() + "\x00")

		return nil
	})

	return files, state.String(), err
}
