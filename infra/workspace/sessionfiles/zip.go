//go:build linux

package sessionfiles

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/flate"

	"everloop/domain"
	"everloop/infra/workspace"
)

// Zip returns a function that writes a directory as a ZIP archive while it reads
// it, so that any size needs little memory. Names are relative to the directory.
// Links are not followed: those that lead to something in the directory are
// stored as links, all others are left out, as are pipes, sockets and devices. It
// fails with too_many_entries when there is more than an archive takes.
func (f Files) Zip(ctx context.Context, session domain.Session, dir string) (write func(context.Context, io.Writer) error, err error) {
	var base string

	err = f.in(ctx, session, func(w *workspace.Workspace) error {
		if err := w.CheckDir(dir); err != nil {
			return err
		}

		if base, err = w.Resolve(dir); err != nil {
			return err
		}

		return countEntries(ctx, w, base)
	})
	if err != nil {
		return nil, err
	}

	return func(ctx context.Context, out io.Writer) error {
		return f.in(ctx, session, func(w *workspace.Workspace) error {
			z := zip.NewWriter(out)
			z.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
				return flate.NewWriter(out, flate.BestSpeed)
			})

			pack := &packer{ctx: ctx, w: w, z: z, base: base, left: 2 * maxZipEntries}
			if err := w.Walk(ctx, base, pack.visit); err != nil {
				return err
			}

			return z.Close()
		})
	}, nil
}

// maxZipEntries bounds an archive, whose list of contents is kept in memory until its
// end.
const maxZipEntries = 200_000

func tooMany() error {
	return domain.Newf(domain.TooLarge, workspace.CodeTooManyEntries, "the directory has more than %d files and directories", maxZipEntries)
}

// countEntries refuses a directory that holds too much, while there is still a status
// to say so.
func countEntries(ctx context.Context, w *workspace.Workspace, dir string) error {
	seen := 0

	return w.Walk(ctx, dir, func(workspace.Info) error {
		if seen++; seen > maxZipEntries {
			return tooMany()
		}

		return nil
	})
}

// plain takes what some unpackers would read as a separator out of a name. What
// stands for it looks the same.
var plain = strings.NewReplacer(`\`, "\uff3c")

// packer writes the entries of one directory.
type packer struct {
	ctx  context.Context
	w    *workspace.Workspace
	z    *zip.Writer
	base string
	left int // entries that it still takes: a command may be adding some
}

func (p *packer) visit(i workspace.Info) error {
	if p.left--; p.left < 0 {
		return tooMany()
	}

	name := i.Path
	if p.base != "." {
		name = strings.TrimPrefix(strings.TrimPrefix(name, p.base), "/")
	}

	if name == "" || name == "." {
		return nil
	}

	header := &zip.FileHeader{Name: plain.Replace(name), Modified: i.ModTime, Method: zip.Deflate}
	header.SetMode(i.Mode)

	switch i.Type {
	case workspace.Directory:
		header.Name += "/"
		header.Method = zip.Store
		header.SetMode(i.Mode | fs.ModeDir)
		_, err := p.z.CreateHeader(header)

		return err
	case workspace.Link:
		if !workspace.StaysBelow(name, i.Target) {
			return nil
		}

		header.Method = zip.Store
		header.SetMode(0o777 | fs.ModeSymlink)

		out, err := p.z.CreateHeader(header)
		if err != nil {
			return err
		}

		_, err = io.WriteString(out, i.Target)

		return err
	case workspace.File:
		return p.file(i, header)
	default:
		return nil
	}
}

func (p *packer) file(i workspace.Info, header *zip.FileHeader) error {
	file, opened, err := p.w.Open(i.Path)
	if err != nil {
		if _, ordinary := errors.AsType[*domain.Error](err); ordinary {
			return nil // it is gone, or something else, since the look
		}

		return err
	}
	defer func() { _ = file.Close() }()

	out, err := p.z.CreateHeader(header)
	if err != nil {
		return err
	}
	// A command may be writing to it, and never end.
	if _, err := io.Copy(out, io.LimitReader(inTime{p.ctx, file}, opened.Size)); err != nil {
		return fmt.Errorf("pack a file: %w", err)
	}

	return nil
}

// inTime ends a long read with its context.
type inTime struct {
	ctx context.Context
	r   io.Reader
}

func (t inTime) Read(b []byte) (int, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}

	return t.r.Read(b)
}
