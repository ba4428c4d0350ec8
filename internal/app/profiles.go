package app

import (
	"everloop/domain"
)

// Profile returns the service's profile as the session's
// solution and the session itself change it.
func (b *backend) Profile(session domain.Session) domain.Profile {
	return b.solutions.Profile(domain.Profile{
		MaxSteps: b.settings.MaxSteps, StuckAfter: domain.StuckAfter, Compaction: domain.DefaultCompaction,
		OwnerCallsPerDay: userCallsPerDay,
	}, session)
}
