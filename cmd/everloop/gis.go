package main

import (
	"context"
	"log/slog"
	"time"

	"everloop/api"
	"everloop/domain"
	"everloop/infra/skills"
	"everloop/internal/envtable"
)

// registryViews is the registry as clients look at it, also where none is
// configured.
func registryViews(url string, logger *slog.Logger) api.Registry {
	return skills.NewRegistry(url, logger)
}

// gisTimeout bounds how long a status waits for the map service.
const gisTimeout = 3 * time.Second

// gis looks whether the configured map service answers.
func (b *backend) gis(ctx context.Context) domain.GISStatus {
	status := domain.GISStatus{Enabled: b.settings.GISMapURL != "", Source: envtable.Masked("GIS_MAP_URL", b.settings.GISMapURL), UpdatedAt: time.Now().UTC()}
	if status.Enabled {
		ctx, cancel := context.WithTimeout(ctx, gisTimeout)
		defer cancel()
		status.Healthy = answers(ctx, b.settings.GISMapURL) == nil
	}
	return status
}
