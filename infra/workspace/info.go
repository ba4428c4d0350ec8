//go:build linux

package workspace

import (
	"fmt"
	"io/fs"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/internal/sharedfs"
)

// Type is the type of an entry.
type Type string

// Types of entries.
const (
	File      Type = "file"
	Directory Type = "directory"
	Link      Type = "link"
	Other     Type = "other" // pipe, socket, device
)

// Info describes an entry, a link as itself.
type Info struct {
	Name    string
	Path    string // relative to the workspace; "." is its root
	Type    Type
	Size    int64       // bytes; of a link, the length of its target
	Mode    fs.FileMode // permission bits only
	ModTime time.Time
	Target  string // of a link, unresolved
	// Identity for snapshots and ETag: while all four and Size are equal, a file is unchanged,
	// within the resolution of the clock.
	Device, Inode uint64
	Changed       time.Time // inode change time, which a command cannot set
	Replaced      bool      // of a write: a file existed before
	blocks        int64     // disk usage in blocks of 512 bytes
}

// ETag returns a strong validator in the format of HTTP, including quotes.
func (i Info) ETag() string {
	return fmt.Sprintf(`"%x-%x-%x-%x"`, i.Inode, i.Size, i.ModTime.UnixNano(), i.Changed.UnixNano())
}

func infoOf(rel string, st *unix.Stat_t) Info {
	i := Info{
		Name: path.Base(rel), Path: rel, Size: st.Size, Mode: fs.FileMode(st.Mode & 0o777), Type: Other,
		ModTime: time.Unix(st.Mtim.Unix()), Changed: time.Unix(st.Ctim.Unix()), Device: uint64(st.Dev), Inode: st.Ino, blocks: st.Blocks,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		i.Type = File
	case unix.S_IFDIR:
		i.Type = Directory
	case unix.S_IFLNK:
		i.Type = Link
	}

	return i
}

// regular returns an error for entries that are not regular files.
func regular(rel string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return explain(rel, unix.EISDIR)
	}

	return domain.Newf(domain.Invalid, CodeNotRegular, "%s is not a regular file", rel)
}

// infoAt returns the Info of a name in an open directory.
func infoAt(dir int, name, rel string) (Info, error) {
	var st unix.Stat_t
	if err := sharedfs.Stat(dir, name, &st, false); err != nil {
		return Info{}, err
	}

	i := infoOf(rel, &st)
	if i.Type == Link {
		buf := make([]byte, unix.PathMax)
		if n, err := unix.Readlinkat(dir, name, buf); err == nil {
			i.Target = string(buf[:n])
		}
	}

	return i, nil
}
