package domain

import (
	"slices"
	"time"
)

// WorkerVersionStatus is the work that Temporal dispatches to the workers of one build.
type WorkerVersionStatus string

// The statuses of a worker version.
const (
	VersionCurrent  WorkerVersionStatus = "current"  // new runs, and open ones that are not pinned
	VersionRamping  WorkerVersionStatus = "ramping"  // a share of these
	VersionInactive WorkerVersionStatus = "inactive" // none: it was never current
	VersionDraining WorkerVersionStatus = "draining" // runs that are pinned to it
	VersionDrained  WorkerVersionStatus = "drained"  // none: its workers can be stopped
)

// WorkerVersion is one build of the workers.
type WorkerVersion struct {
	BuildID   string              `json:"build_id"` // empty: workers without a version
	Status    WorkerVersionStatus `json:"status"`
	Workers   int                 `json:"workers"`   // processes that poll for work
	Activated bool                `json:"activated"` // it is or was current or ramping
	CreatedAt time.Time           `json:"created_at"`
}

// WorkerDeployment maps builds of the workers to the runs that they receive.
type WorkerDeployment struct {
	Name        string          `json:"name"`
	Current     string          `json:"current"` // a build; empty: workers without a version
	Ramping     string          `json:"ramping"` // a build; empty: none
	RampPercent float32         `json:"ramp_percent"`
	Versions    []WorkerVersion `json:"versions"` // newest first; includes the version of workers without one, while there are any
}

// Version returns a build; false: it is unknown to Temporal.
func (d WorkerDeployment) Version(buildID string) (WorkerVersion, bool) {
	i := slices.IndexFunc(d.Versions, func(v WorkerVersion) bool { return v.BuildID == buildID })
	if i < 0 {
		return WorkerVersion{BuildID: buildID}, false
	}

	return d.Versions[i], true
}

// Fresh reports whether no build has ever been current.
func (d WorkerDeployment) Fresh() bool {
	return d.Current == "" && !slices.ContainsFunc(d.Versions, func(v WorkerVersion) bool { return v.BuildID != "" && v.Activated })
}
