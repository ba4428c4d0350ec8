package domain

import (
	"io"
	"io/fs"
	"time"
)

// CarriedFile is an entry of a workspace or of a snapshot to copy elsewhere: a directory, a
// link or a regular file by its Mode.
type CarriedFile struct {
	Path    string // relative to the workspace
	Mode    fs.FileMode
	ModTime time.Time
	Size    int64  // bytes, of a file
	Target  string // of a link
	// Identity is equal for equal contents of one source's files; empty: unknown.
	Identity string
	Open     func() (io.ReadCloser, error) // of a file
}
