package safezip

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"
	"time"
)

// Archive is an archive with a verified central directory.
type Archive struct {
	// Files are the regular files in the archive's order. The caller creates their parent
	// directories, which need not be members.
	Files []*File
	// Directories are the names of directory members, without their slash.
	Directories []string
	// Expanded is the size of all files together, in bytes.
	Expanded int64
}

// File is one regular file of an archive.
type File struct {
	Name     string      // relative, with slashes; it passed CheckName
	Mode     fs.FileMode // permission bits: 0644, or 0755 for executables
	Size     int64       // bytes, uncompressed; reading verifies it
	Modified time.Time

	member *zip.File
}

// Open checks an archive of size bytes. An error about the archive is an *Error.
// The reader must stay usable while files are read.
func Open(r io.ReaderAt, size int64, limits Limits) (*Archive, error) {
	if limits.Archive > 0 && size > limits.Archive {
		return nil, refuse(TooLarge, "", "the archive is larger than %d bytes", limits.Archive)
	}

	directory := &bounded{r: r, left: directoryBytes(limits)}

	reader, err := zip.NewReader(directory, size)
	switch {
	case errors.Is(err, errDirectory):
		return nil, tooMany(limits)
	case err != nil && !errors.Is(err, zip.ErrInsecurePath): // names are checked later
		return nil, &Error{Reason: NotAnArchive, Text: "this is not a ZIP archive, or it is damaged", Err: err}
	}

	directory.opened = true

	archive, err := check(reader.File, size, limits)
	if err != nil {
		return nil, err
	}

	if err := checkLocal(r, reader.File); err != nil {
		return nil, err
	}

	return archive, nil
}

func tooMany(limits Limits) *Error {
	return refuse(TooManyFiles, "", "the archive has more than %d files", limits.Files)
}

// implied is the maximum number of directories per allowed file: one long name can need two
// thousand.
const implied = 4

// check validates all members of the central directory against the limits and one another, and
// returns the archive.
func check(members []*zip.File, size int64, limits Limits) (*Archive, error) {
	a := &Archive{Files: make([]*File, 0, len(members))}
	names := newNames(limits.FoldNames)

	var compressed uint64

	for _, m := range members {
		name, isDir := strings.CutSuffix(m.Name, "/")
		if name == "." && isDir {
			continue // the root of an archive whose names start with ./
		}

		name = strings.TrimPrefix(name, "./")
		if problem := CheckName(name); problem != "" {
			return nil, refuse(UnsafeName, m.Name, "%s", problem)
		}

		if err := kind(m, isDir); err != nil {
			return nil, err
		}

		if isDir {
			if err := names.directory(name); err != nil {
				return nil, err
			}

			a.Directories = append(a.Directories, name)
		} else {
			if err := names.file(name); err != nil {
				return nil, err
			}

			if err := a.add(m, name, limits); err != nil {
				return nil, err
			}
		}

		if limits.Files > 0 && (len(a.Files) > limits.Files || len(a.Directories) > limits.Files+1) {
			return nil, tooMany(limits)
		}

		if limits.Files > 0 && len(names.dirs) > implied*(limits.Files+1) {
			return nil, tooMany(limits)
		}
		// Members that share their data could make a small archive a zip bomb.
		if compressed += m.CompressedSize64; compressed > uint64(size) {
			return nil, refuse(NotAnArchive, m.Name, "claims more data than the archive has")
		}
	}

	if len(a.Files) == 0 {
		return nil, refuse(NotAnArchive, "", "the archive contains no file")
	}

	return a, nil
}

// kind rejects members that are not plain files or directories, or that cannot be decompressed.
func kind(m *zip.File, isDir bool) error {
	const encrypted = 1

	mode := m.Mode()
	switch {
	case mode&fs.ModeSymlink != 0:
		return refuse(NotRegular, m.Name, "is a link")
	case isDir && (m.UncompressedSize64 > 0 || mode.Type()&^fs.ModeDir != 0):
		return refuse(NotRegular, m.Name, "is neither a file nor a directory")
	case !isDir && !mode.IsRegular():
		return refuse(NotRegular, m.Name, "is not a regular file")
	case m.Flags&encrypted != 0:
		return refuse(CannotUnpack, m.Name, "is encrypted")
	case m.Method != zip.Store && m.Method != zip.Deflate:
		return refuse(CannotUnpack, m.Name, "is compressed by a method that is not supported (%d)", m.Method)
	}

	return nil
}

func (a *Archive) add(m *zip.File, name string, limits Limits) error {
	size := m.UncompressedSize64
	switch {
	case size > math.MaxInt64/2,
		limits.File > 0 && size > uint64(limits.File):
		return refuse(Expands, m.Name, "is too large when it is unpacked")
	case limits.Expanded > 0 && int64(size) > limits.Expanded-a.Expanded,
		a.Expanded > math.MaxInt64/2:
		return refuse(Expands, "", "the archive is larger than %d bytes when it is unpacked", limits.Expanded)
	case limits.Ratio > 0 && size > ratioFrom && size/uint64(limits.Ratio) > m.CompressedSize64:
		return refuse(Expands, m.Name, "is compressed more than %d to 1", limits.Ratio)
	}

	a.Expanded += int64(size)

	file := &File{Name: name, Mode: 0o644, Size: int64(size), Modified: m.Modified, member: m}
	if m.Mode()&0o111 != 0 {
		file.Mode = 0o755
	}

	a.Files = append(a.Files, file)

	return nil
}

// names detects members with conflicting paths.
type names struct {
	fold  bool
	files map[string]bool
	dirs  map[string]bool
}

func newNames(fold bool) *names {
	return &names{fold: fold, files: map[string]bool{}, dirs: map[string]bool{}}
}

func (n *names) key(name string) string {
	if n.fold {
		return folded(name)
	}

	return name
}

func (n *names) file(name string) error {
	key := n.key(name)
	if n.files[key] || n.dirs[key] {
		return refuse(NameTwice, name, "is duplicated")
	}

	n.files[key] = true

	return n.parents(name, key)
}

func (n *names) directory(name string) error {
	key := n.key(name)
	if n.files[key] {
		return refuse(NameTwice, name, "is a file and a directory")
	}

	n.dirs[key] = true

	return n.parents(name, key)
}

// parents records the parent directories of a name, none of which can be a file.
func (n *names) parents(name, key string) error {
	for {
		i := strings.LastIndexByte(key, '/')
		if i < 0 {
			return nil
		}

		key = key[:i]
		if n.files[key] {
			return refuse(NameTwice, name, "lies below a name that is a file")
		}

		if n.dirs[key] {
			return nil
		}

		n.dirs[key] = true
	}
}
