package transfer

import (
	"context"
	"os"

	"everloop/domain/transfer"
)

// Config is the configuration, for tests that change a part of it.
func (d *Service) Config() *Config { return &d.cfg }

// Fetch gives tests the copy of an archive on the disk.
func (d *Service) Fetch(ctx context.Context, in transfer.Import) (*os.File, int64, error) {
	return d.fetch(ctx, in)
}
