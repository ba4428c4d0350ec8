package app

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"sync"

	"everloop/domain"
	"everloop/infra/metrics"
	"everloop/infra/temporal"
	"everloop/internal/buildid"
	"everloop/internal/release"
	"everloop/service/work"
)

// versionSettings say of which build a worker is, and how a new build takes over. The
// zero value is a worker without a version.
type versionSettings struct {
	// BuildID is the name of the worker's build: the version and a hash of the program.
	BuildID string `kong:"-"`

	Versioning      string `name:"versioning" default:"auto" enum:"auto,manual,off" env:"WORKER_VERSIONING" help:"Chats stay with workers of their build, where the Temporal server can do that. auto: a new build gets new chats as soon as a worker of it runs; manual: when 'everloop deploy promote' is run; off: workers have no version."`
	ExitWhenDrained bool   `name:"exit-when-drained" help:"Exit once another build has replaced this one and no chat needs it any more."`
}

// buildNames are what Temporal, its queries and log lines take without quoting.
var buildNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$`)

// complete checks the settings and names the build.
func (s *versionSettings) complete() (err error) {
	if s.BuildID == "" {
		s.BuildID, err = buildid.Of(release.Version)
		return err
	}

	if !buildNames.MatchString(s.BuildID) {
		return errors.New("a build must have up to 100 letters, digits, dots, dashes, underscores and plus signs, and begin with " +
			"a letter or a digit")
	}

	return nil
}

// supported leaves the version out where the settings or the server want none.
func (s versionSettings) supported(ctx context.Context, deployment temporal.Deployment) (versionSettings, error) {
	if s.Versioning == "off" {
		return versionSettings{}, nil
	}

	refusal, err := deployment.Refusal(ctx)
	if err != nil {
		return s, err
	}

	if refusal != nil {
		slog.Warn("the Temporal server has no worker deployments, running without a worker version", "error", refusal)
		return versionSettings{}, nil
	}

	return s, nil
}

// deployment reaches the worker deployment of the service.
func (b *backend) deployment() temporal.Deployment {
	return temporal.Deployment{Client: b.Temporal, Namespace: b.settings.TemporalNamespace}
}

// newVersions follows the build of this process's worker. The channel is closed when
// the build is drained and the worker is to end then.
func (b *backend) newVersions(build versionSettings) (*work.Versions, <-chan struct{}, error) {
	drained := make(chan struct{})
	report := func(domain.WorkerVersionStatus) {}

	if build.BuildID != "" {
		shown := metrics.NewWorkerVersion(b.metrics, build.BuildID)
		end := sync.OnceFunc(func() { close(drained) })
		report = func(status domain.WorkerVersionStatus) {
			shown.Set(string(status))

			if status == domain.VersionDrained && build.ExitWhenDrained {
				end()
			}
		}
	}

	versions, err := work.NewVersions(work.VersionsConfig{
		Deployment: b.deployment(), BuildID: build.BuildID, Promote: build.Versioning == "auto", Report: report, Logger: b.logger,
	})

	return versions, drained, err
}
