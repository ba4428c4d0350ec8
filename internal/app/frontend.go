package app

import (
	"errors"

	"everloop/api/system"
	"everloop/internal/app/flags"
)

// frontendSettings are what GET /api/config gives to front ends, in addition to what
// other settings say.
type frontendSettings struct {
	ErrorTrackingDSN string `name:"error-tracking-dsn" env:"ERROR_TRACKING_DSN" help:"Error-tracking DSN for front ends; off when unset."`
	AnalyticsKey     string `env:"ANALYTICS_KEY" help:"Analytics key for front ends."`
	AnalyticsHost    string `env:"ANALYTICS_HOST" help:"Analytics host for front ends; off when unset."`
	speechSettings   `embed:""`
	GISMapURL        string `name:"gis-map-url" env:"GIS_MAP_URL" help:"Address of a map service for front ends; none when unset."`
	ServiceOSPath    string `name:"service-os-path" env:"SERVICE_OS_PATH" help:"Path or address of the service's own desktop, for front ends."`
	MemoryEnabled    bool   `default:"true" negatable:"" env:"MEMORY_ENABLED" help:"Let sessions recall and write memories."`
}

func (s frontendSettings) check() error {
	var faults []error

	for variable, address := range map[string]string{
		"GIS_MAP_URL": s.GISMapURL, "ERROR_TRACKING_DSN": s.ErrorTrackingDSN, "ANALYTICS_HOST": s.AnalyticsHost,
	} {
		if address != "" && !flags.IsWeb(address) {
			faults = append(faults, errors.New(variable+" must start with http:// or https://"))
		}
	}

	return errors.Join(faults...)
}

// clientConfig returns what front ends get.
func (s *settings) clientConfig() system.ClientConfig {
	config := system.ClientConfig{
		ErrorTrackingDSN: s.ErrorTrackingDSN, AnalyticsKey: s.AnalyticsKey, AnalyticsHost: s.AnalyticsHost,
		ASREnabled: s.ASRModel != "", GISMapURL: s.GISMapURL, ServiceOSPath: s.ServiceOSPath,
		PublicSharingEnabled: s.PublicSharing, MemoryEnabled: s.MemoryEnabled,
	}
	if config.ASREnabled {
		config.ASRProvider = s.ASRProvider
	}

	return config
}
