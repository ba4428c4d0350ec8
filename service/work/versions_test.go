package work_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/service/work"
)

// rollout is a worker deployment in memory.
type rollout struct {
	now      time.Time
	current  string
	versions []domain.WorkerVersion
	moved    map[string]string // build -> which of its runs were moved
}

func (r *rollout) Look(context.Context) (domain.WorkerDeployment, error) {
	return domain.WorkerDeployment{Current: r.current, Versions: r.versions}, nil
}

func (r *rollout) Promote(_ context.Context, buildID string) error {
	r.current = buildID
	return nil
}

func (r *rollout) MoveRuns(_ context.Context, buildID string, waiting bool) (int, error) {
	r.moved[buildID] = "all"
	if waiting {
		r.moved[buildID] = "waiting"
	}

	return 1, nil
}

func (r *rollout) versionsOf(t *testing.T, build string, promote bool, report func(domain.WorkerVersionStatus)) *work.Versions {
	t.Helper()

	r.now, r.moved = time.Now(), map[string]string{}
	v, err := work.NewVersions(work.VersionsConfig{
		Deployment: r,
		BuildID:    build,
		Promote:    promote,
		Report:     report,
		Logger:     slog.New(slog.DiscardHandler),
		Now:        func() time.Time { return r.now },
	})
	require.NoError(t, err)

	return v
}

func build(id string, status domain.WorkerVersionStatus, workers int) domain.WorkerVersion {
	return domain.WorkerVersion{BuildID: id, Status: status, Workers: workers, Activated: status != domain.VersionInactive}
}

func TestVersions_Follow_promotes(t *testing.T) {
	for name, c := range map[string]struct {
		current  string
		versions []domain.WorkerVersion
		build    string
		manual   bool
		want     string // current at once
		later    string // current when nothing has changed for more than a minute
	}{
		"the first build at once": {
			versions: []domain.WorkerVersion{build("a", domain.VersionInactive, 1)}, build: "a", manual: true, want: "a", later: "a",
		},
		"a new build beside the current one": {
			current: "a", versions: []domain.WorkerVersion{build("b", domain.VersionInactive, 1), build("a", domain.VersionCurrent, 2)},
			build: "b", want: "b", later: "b",
		},
		"not a new build that an operator promotes": {
			current: "a", versions: []domain.WorkerVersion{build("b", domain.VersionInactive, 1), build("a", domain.VersionCurrent, 2)},
			build: "b", manual: true, want: "a", later: "a",
		},
		"that build too when the current one has no workers": {
			current: "a", versions: []domain.WorkerVersion{build("b", domain.VersionInactive, 1), build("a", domain.VersionCurrent, 0)},
			build: "b", manual: true, want: "a", later: "b",
		},
		"not a replaced build while the current one has workers": {
			current: "b", versions: []domain.WorkerVersion{build("b", domain.VersionCurrent, 1), build("a", domain.VersionDraining, 1)},
			build: "a", want: "b", later: "b",
		},
		"a replaced build when the current one has no workers": {
			current: "b", versions: []domain.WorkerVersion{build("b", domain.VersionCurrent, 0), build("a", domain.VersionDrained, 1)},
			build: "a", want: "b", later: "a",
		},
		"a new build beside workers without one": {
			versions: []domain.WorkerVersion{build("a", domain.VersionInactive, 1), build("", domain.VersionCurrent, 1)},
			build:    "a", want: "a", later: "a",
		},
		"workers without a version when there are no others": {
			current: "a", versions: []domain.WorkerVersion{build("a", domain.VersionCurrent, 0), build("", domain.VersionInactive, 1)},
			build: "", want: "a", later: "",
		},
		"not workers without a version beside others": {
			current: "a", versions: []domain.WorkerVersion{build("a", domain.VersionCurrent, 1), build("", domain.VersionInactive, 1)},
			build: "", want: "a", later: "a",
		},
		"not a build that Temporal does not know yet": {
			current: "a", versions: []domain.WorkerVersion{build("a", domain.VersionCurrent, 0)}, build: "b", want: "a", later: "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rollout{current: c.current, versions: c.versions}
			v := r.versionsOf(t, c.build, !c.manual, nil)
			require.NoError(t, v.Follow(t.Context()))
			require.Equal(t, c.want, r.current)
			r.now = r.now.Add(61 * time.Second)

			require.NoError(t, v.Follow(t.Context()))
			require.Equal(t, c.later, r.current)
		})
	}
}

func TestVersions_Follow_waitsThroughARestartOfTemporal(t *testing.T) {
	r := &rollout{
		current:  "b",
		versions: []domain.WorkerVersion{build("b", domain.VersionCurrent, 0), build("a", domain.VersionDraining, 1)},
	}
	v := r.versionsOf(t, "a", true, nil)
	require.NoError(t, v.Follow(t.Context()))

	r.now, r.versions[0].Workers = r.now.Add(30*time.Second), 1 // they ask again

	require.NoError(t, v.Follow(t.Context()))

	r.now, r.versions[0].Workers = r.now.Add(31*time.Second), 0

	require.NoError(t, v.Follow(t.Context()))
	require.Equal(t, "b", r.current, "the minute starts again")
}

func TestVersions_Follow_reportsEachStatusOnce(t *testing.T) {
	r := &rollout{
		current:  "b",
		versions: []domain.WorkerVersion{build("b", domain.VersionCurrent, 1), build("a", domain.VersionDraining, 1)},
	}

	var seen []domain.WorkerVersionStatus

	v := r.versionsOf(t, "a", true, func(status domain.WorkerVersionStatus) { seen = append(seen, status) })
	for _, status := range []domain.WorkerVersionStatus{
		domain.VersionDraining, domain.VersionDraining, domain.VersionDrained,
		domain.VersionDrained,
	} {
		r.versions[1].Status = status

		require.NoError(t, v.Follow(t.Context()))
	}

	require.Equal(t, []domain.WorkerVersionStatus{domain.VersionDraining, domain.VersionDrained}, seen)
}

func TestVersions_MoveRuns(t *testing.T) {
	r := &rollout{current: "c", versions: []domain.WorkerVersion{
		build(
			"c",
			domain.VersionCurrent,
			1,
		),
		build("r", domain.VersionRamping, 0),
		build("b", domain.VersionDraining, 1),
		build("a", domain.VersionDraining, 0),
		build("z", domain.VersionDrained, 0),
		build("n", domain.VersionInactive, 1),
	}}
	v := r.versionsOf(t, "c", true, nil)
	require.NoError(t, v.MoveRuns(t.Context()))
	require.Equal(t, map[string]string{"b": "waiting", "a": "waiting"}, r.moved)
	r.now = r.now.Add(11 * time.Second)

	require.NoError(t, v.MoveRuns(t.Context()))
	require.Equal(t, map[string]string{"b": "waiting", "a": "all"}, r.moved)
}
