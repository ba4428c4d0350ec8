package skillpack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"everloop/internal/safezip"
)

// File is one file of a package to read.
type File struct {
	Path string // relative to the package's directory, with slashes
	Size int64  // bytes
	Mode fs.FileMode
	Open func() (io.ReadCloser, error)
}

// Pack is a validated package.
type Pack struct {
	Document
	Files  []File // sorted by path
	Size   int64  // bytes of all files
	Digest string // see Digest
}

// Inspect reads a whole package: it parses SKILL.md, checks the limits and computes the digest.
// An invalid package is an *Error or a *safezip.Error; any other error is a read error.
func Inspect(ctx context.Context, files []File) (Pack, error) {
	p := Pack{Files: withoutLitter(files)}
	renamed := p.nameDocument()

	slices.SortFunc(p.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })

	if err := p.checkFiles(); err != nil {
		return Pack{}, err
	}

	i := slices.IndexFunc(p.Files, func(f File) bool { return f.Path == DocumentName })
	if i < 0 {
		return Pack{}, failf("the package has no %s", DocumentName)
	}

	content, err := readAll(p.Files[i], MaxDocument)
	if err != nil {
		return Pack{}, err
	}

	if p.Document, err = Parse(content); err != nil {
		return Pack{}, err
	}

	if renamed != "" {
		p.warn(renamed + " is taken as " + DocumentName)
	}

	p.Digest, p.Size, err = Digest(ctx, p.Files)

	return p, err
}

// withoutLitter removes metadata files of operating systems.
func withoutLitter(files []File) []File {
	return slices.DeleteFunc(slices.Clone(files), func(f File) bool {
		switch base := path.Base(f.Path); strings.ToLower(base) {
		case ".ds_store", "thumbs.db", "desktop.ini":
			return true
		default:
			return strings.HasPrefix(base, "._") || slices.Contains(strings.Split(path.Dir(f.Path), "/"), "__MACOSX")
		}
	})
}

// nameDocument corrects the case of the document's name. It returns the previous name.
func (p *Pack) nameDocument() (was string) {
	if slices.ContainsFunc(p.Files, func(f File) bool { return f.Path == DocumentName }) {
		return ""
	}

	for i, f := range p.Files {
		if strings.EqualFold(f.Path, DocumentName) {
			p.Files[i].Path = DocumentName
			return f.Path
		}
	}

	return ""
}

// checkFiles validates the paths, number and sizes of the files.
func (p *Pack) checkFiles() error {
	if len(p.Files) > MaxFiles {
		return failf("the package has more than %d files", MaxFiles)
	}

	var (
		wrong problems
		size  int64
	)

	for i, f := range p.Files {
		if problem := safezip.CheckName(f.Path); problem != "" {
			wrong.addf("%s %s", shown(f.Path), problem)
		}
		// In sorted order, a file and a path below it need not be adjacent.
		below := func(other File) bool { return strings.HasPrefix(other.Path, f.Path+"/") }
		if i > 0 && p.Files[i-1].Path == f.Path {
			wrong.addf("%s is duplicated", shown(f.Path))
		} else if slices.ContainsFunc(p.Files[i+1:], below) {
			wrong.addf("%s is a file and a directory", shown(f.Path))
		}

		size += f.Size
	}

	if size > MaxBytes {
		wrong.addf("the package is larger than %d bytes", MaxBytes)
	}

	return wrong.err()
}

func readAll(f File, limit int64) ([]byte, error) {
	content, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer content.Close()

	data, err := io.ReadAll(io.LimitReader(content, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = failf("%s is larger than %d bytes", f.Path, limit)
	}

	return data, err
}

// Digest returns the digest of a package's content: sha256: and the SHA-256, in hex, over all
// files in the byte order of their paths, each as its path, a zero byte, its length in bytes as a
// decimal number, a zero byte, and its content. Modes and times are not included. It also returns
// the total size of the files, which must not exceed MaxBytes.
func Digest(ctx context.Context, files []File) (digest string, size int64, err error) {
	h := sha256.New()

	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return "", 0, err
		}

		n, err := hashFile(h, f)
		if err != nil {
			return "", 0, err
		}

		if size += n; size > MaxBytes {
			return "", 0, failf("the package is larger than %d bytes", MaxBytes)
		}
	}

	return "sha256:" + hex.EncodeToString(h.Sum(nil)), size, nil
}

// ErrChanged reports that a file changed while it was read.
var ErrChanged = errors.New("a file of the package changed while it was read")

func hashFile(h io.Writer, f File) (int64, error) {
	content, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer content.Close()

	fmt.Fprintf(h, "%s\x00%d\x00", f.Path, f.Size)

	n, err := io.Copy(h, io.LimitReader(content, f.Size+1))
	if err == nil && n != f.Size {
		err = fmt.Errorf("%w: %s", ErrChanged, f.Path)
	}

	return n, err
}

// InMemory returns a file of a package with a given content.
func InMemory(name string, content []byte) File {
	mode := fs.FileMode(0o644)
	if bytes.HasPrefix(content, []byte("#!")) {
		mode = 0o755
	}

	return File{
		Path: name, Size: int64(len(content)), Mode: mode,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	}
}

// Unwrap removes a single top-level directory around a package: SKILL.md is in it and not at the
// root. It returns the directory's name; empty: none.
func Unwrap(files []File) (unwrapped []File, dir string) {
	files = withoutLitter(files)
	for _, f := range files {
		top, _, below := strings.Cut(f.Path, "/")
		if !below || dir != "" && top != dir {
			return files, ""
		}

		dir = top
	}

	if !slices.ContainsFunc(files, func(f File) bool { return strings.EqualFold(f.Path, path.Join(dir, DocumentName)) }) {
		return files, ""
	}

	unwrapped = slices.Clone(files)
	for i := range unwrapped {
		unwrapped[i].Path = strings.TrimPrefix(unwrapped[i].Path, dir+"/")
	}

	return unwrapped, dir
}

// FromZIP reads a package from a ZIP archive of size bytes within the limits of
// safezip.SkillPackage, with SKILL.md at its root or in one top-level directory. r must stay
// usable while the files are read.
func FromZIP(ctx context.Context, r io.ReaderAt, size int64) (Pack, error) {
	archive, err := safezip.Open(r, size, safezip.SkillPackage)
	if err != nil {
		return Pack{}, err
	}

	files := make([]File, len(archive.Files))
	for i, f := range archive.Files {
		files[i] = File{Path: f.Name, Size: f.Size, Mode: f.Mode, Open: f.Open}
	}

	files, _ = Unwrap(files)

	return Inspect(ctx, files)
}
