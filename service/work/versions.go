package work

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"everloop/domain"
	"everloop/internal/retry"
)

// Deployment is what is needed of Temporal's worker deployment.
type Deployment interface {
	Look(ctx context.Context) (domain.WorkerDeployment, error)
	// Promote makes a build the current one; empty: workers without a version.
	Promote(ctx context.Context, buildID string) error
	// MoveRuns lets runs that are pinned to a build continue with the current one: all,
	// or those that wait for input. It returns how many.
	MoveRuns(ctx context.Context, buildID string, waiting bool) (int, error)
}

// Versions makes the build of this process's worker the current one when that is due,
// and moves runs off builds that were replaced. While one build runs there is nothing
// to do.
type Versions struct {
	cfg VersionsConfig

	// Builds that have no workers, since when. The two jobs run side by side.
	current, replaced absences

	status domain.WorkerVersionStatus // as it was reported last
}

// VersionsConfig is what NewVersions needs.
type VersionsConfig struct {
	Deployment Deployment
	BuildID    string // of this process's worker; empty: it has no version
	// Promote makes a build that was never current the current one as soon as its
	// worker runs. Without it that is left to an operator, unless the current build
	// has no workers.
	Promote bool
	// Report receives the status of the build, at each change. Unset: it is only logged.
	Report func(status domain.WorkerVersionStatus)
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// NewVersions checks its configuration.
func NewVersions(cfg VersionsConfig) (*Versions, error) {
	if cfg.Deployment == nil || cfg.Logger == nil {
		return nil, errors.New("work: versions need a deployment and a logger")
	}

	if cfg.Now == nil {
		cfg.Now = time.Now
	}

	if cfg.Report == nil {
		cfg.Report = func(domain.WorkerVersionStatus) {}
	}

	return &Versions{cfg: cfg, current: absences{}, replaced: absences{}}, nil
}

// How long a build must have been seen without workers before another one replaces it,
// and before its runs are moved. After a restart of Temporal each build has none for
// some seconds: a build that was replaced by mistake would change who gets new chats,
// while a run that was moved by mistake continues just as well.
const (
	replacedAfter = time.Minute
	movedAfter    = 10 * time.Second
)

// absences are builds without workers, by the time that they were seen so first.
type absences map[string]time.Time

// gone reports whether a build has had no workers for so long.
func (a absences) gone(version domain.WorkerVersion, now time.Time, least time.Duration) bool {
	if version.Workers > 0 {
		delete(a, version.BuildID)
		return false
	}

	since, seen := a[version.BuildID]
	if !seen {
		a[version.BuildID] = now
		return false
	}

	return now.Sub(since) >= least
}

// Pauses while a worker that has just started waits until Temporal knows its build.
const (
	joinEvery = 250 * time.Millisecond
	joinFor   = time.Minute
)

// Join makes the build current, if that is due, as soon as Temporal knows it. It
// returns when that is settled, after a minute, or when ctx ends; Follow continues.
func (v *Versions) Join(ctx context.Context) {
	if v.cfg.BuildID == "" {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, joinFor)
	defer cancel()

	for {
		joined, err := v.follow(ctx)
		if joined || ctx.Err() != nil {
			return
		}

		if err != nil {
			v.cfg.Logger.Debug("failed to join the worker deployment, retrying", "build_id", v.cfg.BuildID, "error", err)
		}

		if !retry.Wait(ctx, joinEvery) {
			v.cfg.Logger.Warn("failed to join the worker deployment in time, retrying later", "build_id", v.cfg.BuildID, "error", err)
			return
		}
	}
}

// Follow makes the build of this process's worker current when that is due, and
// reports what became of it.
func (v *Versions) Follow(ctx context.Context) error {
	_, err := v.follow(ctx)
	return err
}

// follow also reports whether Temporal knows the build.
func (v *Versions) follow(ctx context.Context) (joined bool, err error) {
	deployment, err := v.cfg.Deployment.Look(ctx)
	if err != nil {
		return false, err
	}

	own, known := deployment.Version(v.cfg.BuildID)
	if !known {
		return false, nil // it polls in a moment
	}

	if v.due(deployment, own) {
		if err := v.cfg.Deployment.Promote(ctx, v.cfg.BuildID); err != nil {
			return false, err
		}

		v.cfg.Logger.Info("worker version is current now", "build_id", named(v.cfg.BuildID), "previous", named(deployment.Current))

		own.Status = domain.VersionCurrent
	}

	v.report(own.Status)

	return true, nil
}

// due reports whether the build is to become the current one: it is new, or the
// current one has no workers.
func (v *Versions) due(deployment domain.WorkerDeployment, own domain.WorkerVersion) bool {
	if deployment.Current == own.BuildID {
		return false
	}

	current, _ := deployment.Version(deployment.Current)

	gone := v.current.gone(current, v.cfg.Now(), replacedAfter)
	switch {
	case gone:
		return true
	case own.BuildID == "" || own.Activated:
		return false
	case deployment.Fresh() && current.Workers == 0:
		return true
	default:
		return v.cfg.Promote
	}
}

// report logs a new status and passes it on.
func (v *Versions) report(status domain.WorkerVersionStatus) {
	if status == v.status {
		return
	}

	v.status = status
	if v.cfg.BuildID != "" {
		text := "worker version has a new status"
		if status == domain.VersionDrained {
			text = "worker version is drained, its workers may be stopped"
		}

		v.cfg.Logger.Info(text, "build_id", v.cfg.BuildID, "status", status)
	}

	v.cfg.Report(status)
}

// MoveRuns lets runs continue with the current build that would hold up a replaced one:
// those that wait for input, and all of a build that has no workers any more.
func (v *Versions) MoveRuns(ctx context.Context) error {
	deployment, err := v.cfg.Deployment.Look(ctx)
	if err != nil {
		return err
	}

	var faults []error

	for _, version := range deployment.Versions {
		if version.Status != domain.VersionDraining {
			continue
		}

		waiting := !v.replaced.gone(version, v.cfg.Now(), movedAfter)
		moved, err := v.cfg.Deployment.MoveRuns(ctx, version.BuildID, waiting)
		faults = append(faults, err)

		if moved > 0 {
			v.cfg.Logger.Info("moved runs to the current worker version", "runs", moved, "waiting_for_input", waiting,
				"from", version.BuildID, "to", named(deployment.Current))
		}
	}

	return errors.Join(faults...)
}

// named writes a build for the log.
func named(buildID string) string {
	if buildID == "" {
		return "unversioned"
	}

	return buildID
}
