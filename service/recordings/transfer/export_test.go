package transfer

import (
	"context"
	"os"

	"everloop/domain"
	"everloop/domain/transfer"
)

// Config returns the configuration, for tests that change a part of it.
func (d *Service) Config() *Config { return &d.cfg }

// LoseStartAnswer makes starts of imports that are stored fail as when their answer is lost.
func (d *Service) LoseStartAnswer() {
	stored := d.startImport
	d.startImport = func(ctx context.Context, in transfer.ImportRequest, sum []byte) (domain.SessionID, error) {
		if _, err := stored(ctx, in, sum); err != nil {
			return "", err
		}

		return "", domain.Newf(domain.Unavailable, "dependency_unavailable", "the connection was lost")
	}
}

// Fetch gives tests the copy of an archive on the disk.
func (d *Service) Fetch(ctx context.Context, in transfer.Import) (*os.File, int64, error) {
	return d.fetch(ctx, in)
}
