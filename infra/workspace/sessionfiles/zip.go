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

// Zip returns a function that streams a directory as a ZIP archive, with memory use independent
// of its size. Names are relative to the directory. Links are not followed: links to targets
// inside the directory are stored as links; other links, pipes, sockets and devices are skipped.
// More than maxZipEntries entries are a too_many_entries error.
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

// maxZipEntries bounds an archive, whose central directory is in memory until the end.
const maxZipEntries = 200_000

func tooMany() error {
	return domain.Newf(domain.TooLarge, workspace.CodeTooManyEntries, "the directory has more than %d files and directories", maxZipEntries)
}

// countEntries rejects a directory with too many entries, before the response's status is sent.
func countEntries(ctx context.Context, w *workspace.Workspace, dir string) error {
	seen := 0

	return w.Walk(ctx, dir, func(workspace.Info) error {
		if seen++; seen > maxZipEntries {
			return tooMany()
		}

		return nil
	})
}

// plain replaces backslashes, which some unpackers treat as separators, by a similar character.
var plain = strings.NewReplacer(`\`, "\uff3c")

// packer writes the entries of one directory.
type packer struct {
	ctx  context.Context
	w    *workspace.Workspace
	z    *zip.Writer
	base string
	left int // remaining entries: a command can add entries during the walk
}

// visit adds one entry of the walk to the archive. Entries that were deleted or replaced since
// the walk saw them are skipped.
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
			return nil // deleted or replaced since the walk saw it
		}

		return err
	}
	defer func() { _ = file.Close() }()

	out, err := p.z.CreateHeader(header)
	if err != nil {
		return err
	}
	// Limit the copy: a command could append to the file endlessly.
	if _, err := io.Copy(out, io.LimitReader(inTime{p.ctx, file}, opened.Size)); err != nil {
		return fmt.Errorf("pack a file: %w", err)
	}

	return nil
}

// inTime is a reader that fails when its context is cancelled.
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
