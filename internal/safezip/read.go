package safezip

import (
	"errors"
	"io"
)

// Open opens the file's content. The reader returns exactly Size bytes with a verified checksum,
// or an *Error of reason ContentDamaged.
func (f *File) Open() (io.ReadCloser, error) {
	content, err := f.member.Open()
	if err != nil {
		return nil, f.damaged(err)
	}

	return &reader{file: f, content: content, left: f.Size}, nil
}

// ReadAll returns the content of a file of at most limit bytes.
func (f *File) ReadAll(limit int64) ([]byte, error) {
	if f.Size > limit {
		return nil, refuse(Expands, f.Name, "is larger than %d bytes", limit)
	}

	content, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer content.Close()

	data := make([]byte, f.Size)
	if _, err := io.ReadFull(content, data); err != nil {
		return nil, f.damaged(err)
	}

	var more [1]byte // EOF verifies the checksum
	if _, err := content.Read(more[:]); err != io.EOF {
		return nil, f.damaged(err)
	}

	return data, nil
}

func (f *File) damaged(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}

	e := refuse(ContentDamaged, f.Name, "is damaged")
	e.Err = err

	return e
}

// reader verifies the length of the content against the directory.
type reader struct {
	file    *File
	content io.ReadCloser
	left    int64
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.content.Read(p)

	r.left -= int64(n)
	switch {
	case r.left < 0:
		return 0, r.file.damaged(errors.New("there is more than the directory says"))
	case err == io.EOF && r.left > 0:
		return n, r.file.damaged(io.ErrUnexpectedEOF)
	case err != nil && err != io.EOF:
		return n, r.file.damaged(err)
	}

	return n, err
}

func (r *reader) Close() error { return r.content.Close() }

// bounded fails when the central directory is too large: its number of members may exceed the
// stated one, and each uses memory.
type bounded struct {
	r      io.ReaderAt
	left   int64
	opened bool // the directory was read: files have their own limits
}

var errDirectory = errors.New("the directory of the archive is too large")

// directoryBytes returns the maximum size of the central directory within the limits: the search
// for its end, and a few hundred bytes per member.
func directoryBytes(limits Limits) int64 {
	if limits.Files == 0 {
		return 64 << 20
	}

	return 256<<10 + 512*int64(limits.Files)
}

func (b *bounded) ReadAt(p []byte, off int64) (int, error) {
	if !b.opened {
		if b.left -= int64(len(p)); b.left < 0 {
			return 0, errDirectory
		}
	}

	return b.r.ReadAt(p, off)
}
