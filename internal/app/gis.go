package app

import (
	"context"
	"time"

	"everloop/domain/skill"
	"everloop/internal/envtable"
)

// gisTimeout bounds how long a status waits for the map service.
const gisTimeout = 3 * time.Second

// gis looks whether the configured map service answers.
func (b *backend) gis(ctx context.Context) skill.GISStatus {
	status := skill.GISStatus{
		Enabled:   b.settings.GISMapURL != "",
		Source:    envtable.Masked("GIS_MAP_URL", b.settings.GISMapURL),
		UpdatedAt: time.Now().UTC(),
	}
	if status.Enabled {
		ctx, cancel := context.WithTimeout(ctx, gisTimeout)
		defer cancel()

		status.Healthy = offers(ctx, b.settings.GISMapURL) == nil
	}

	return status
}
