package main

import (
	"everloop/domain"
	"everloop/infra/postgres"
)

// profiles gives each session the service's profile as its own setup changes it.
type profiles struct{}

// Profile implements activities.Profiles.
func (profiles) Profile(session domain.Session) domain.Profile {
	return domain.Profile{MaxSteps: postgres.MaxSteps, Compaction: domain.DefaultCompaction}.With(session.Setup)
}
