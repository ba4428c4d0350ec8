package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"

	"everloop/domain"
	"everloop/domain/transfer"
)

// fetch copies an uploaded archive to a file without a name, of which nothing is left
// when the process ends, however it does. The caller closes it.
func (d *Service) fetch(ctx context.Context, in transfer.Import) (content *os.File, size int64, err error) {
	if err := os.MkdirAll(d.cfg.Spool, 0o700); err != nil {
		return nil, 0, err
	}

	content, err = os.CreateTemp(d.cfg.Spool, spoolPattern)
	if err != nil {
		return nil, 0, err
	}

	err = os.Remove(content.Name())
	for n := 0; err == nil && n < len(in.Parts); n++ {
		size, err = d.fetchPart(ctx, in, n, content, size)
	}

	if err != nil {
		return nil, 0, errors.Join(err, content.Close())
	}

	return content, size, nil
}

func (d *Service) fetchPart(ctx context.Context, in transfer.Import, n int, to *os.File, at int64) (end int64, err error) {
	if err := domain.DiskFull(d.cfg.Room); err != nil {
		return at, err
	}

	part, err := d.cfg.Objects.Get(ctx, uploadPart(in.SessionID, n))
	if err != nil && domain.AsError(err).Kind == domain.NotFound || err == nil && int64(len(part)) != in.Parts[n] {
		return at, fmt.Errorf("part %d of the archive is missing or was changed", n)
	}

	if err != nil {
		return at, err
	}

	written, err := to.WriteAt(part, at)

	return at + int64(written), err
}
