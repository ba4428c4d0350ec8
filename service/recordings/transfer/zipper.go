package transfer

import (
	"archive/zip"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"time"
)

// zipper writes members and returns what was in them.
type zipper struct {
	out  *zip.Writer
	made time.Time // what each member is dated
}

func newZipper(w io.Writer) *zipper { return &zipper{zip.NewWriter(w), time.Now()} }

// close frees a zipper that was not finished; the archive has no end then.
func (z *zipper) close() { z.out = nil }

func (z *zipper) finish() error { return z.out.Close() }

// written is what became of a member.
type written struct {
	size int64
	sum  string
}

const (
	// Smaller members may be compressed as far as they can be.
	ratioFrom = 1 << 20
	// Members that would shrink further are stored as they are, so that what is
	// written here is never taken for a bomb when it is read.
	maxRatio = 100
)

// notOpened is the error of a content that could not be opened: nothing was
// written yet.
type notOpened struct{ error }

func (e notOpened) Unwrap() error { return e.error }

// add writes a member whose content open gives; it may be opened twice.
func (z *zipper) add(ctx context.Context, name string, mode uint32, size int64, open func() (io.ReadCloser, error)) (written, error) {
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: z.made}

	if mode == 0 {
		mode = 0o644
	}

	header.SetMode(fs.FileMode(mode & 0o777))

	if size > ratioFrom {
		small, err := shrinksTooFar(ctx, open)
		if err != nil {
			return written{}, err
		}

		if small {
			header.Method = zip.Store
		}
	}

	content, err := open()
	if err != nil {
		return written{}, notOpened{err}
	}
	defer content.Close()

	out, err := z.out.CreateHeader(header)
	if err != nil {
		return written{}, err
	}

	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, hash), &untilDone{ctx, content})

	return written{n, hex.EncodeToString(hash.Sum(nil))}, err
}

// directory writes an empty directory.
func (z *zipper) directory(name string) error {
	_, err := z.out.CreateHeader(&zip.FileHeader{Name: name + "/", Modified: z.made})
	return err
}

// shrinksTooFar compresses a content to nowhere.
func shrinksTooFar(ctx context.Context, open func() (io.ReadCloser, error)) (bool, error) {
	content, err := open()
	if err != nil {
		return false, notOpened{err}
	}
	defer content.Close()

	var packed counter

	pack, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		return false, err
	}

	n, err := io.Copy(pack, &untilDone{ctx, content})
	if err != nil {
		return false, err
	}

	return n/maxRatio > int64(packed), pack.Close()
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// untilDone ends a long copy with its context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}

	return u.r.Read(p)
}
