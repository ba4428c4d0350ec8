package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"everloop/domain"
	"everloop/internal/durable"
)

// Deployment is the worker deployment of the service: it routes runs to builds of the workers.
type Deployment struct {
	Client    client.Client
	Namespace string // the client's; empty: everloop
	Name      string // of the deployment and of its task queue; empty: durable.Queue
}

// workerSilence is the maximum time between polls of a running worker: a poll waits for up to a
// minute.
const workerSilence = 75 * time.Second

// Limits of moving runs: the maximum per call, and the concurrency.
const (
	maxMoves   = 1000
	movesPage  = 200
	movesAside = 8
)

func (d Deployment) name() string { return cmp.Or(d.Name, durable.Queue) }

func (d Deployment) namespace() string { return cmp.Or(d.Namespace, defaultNamespace) }

// Refusal returns the reason why the server has no worker deployments; nil: it has. The error
// reports an unavailable server.
func (d Deployment) Refusal(ctx context.Context) (refusal, err error) {
	_, err = d.describe(ctx)
	switch err.(type) {
	case nil, *serviceerror.NotFound, *serviceerror.ResourceExhausted: // supported, but busy
		return nil, nil
	case *serviceerror.Unimplemented, *serviceerror.PermissionDenied:
		return err, nil
	default:
		return nil, fmt.Errorf("ask Temporal for its worker deployments: %w", err)
	}
}

func (d Deployment) describe(ctx context.Context) (*deploymentpb.WorkerDeploymentInfo, error) {
	answer, err := d.Client.WorkflowService().DescribeWorkerDeployment(ctx, &workflowservice.DescribeWorkerDeploymentRequest{
		Namespace: d.namespace(), DeploymentName: d.name(),
	})

	return answer.GetWorkerDeploymentInfo(), err
}

// Look describes the deployment. Until a worker with a version has joined, it contains at most
// the version of unversioned workers.
func (d Deployment) Look(ctx context.Context) (domain.WorkerDeployment, error) {
	out := domain.WorkerDeployment{Name: d.name(), Versions: []domain.WorkerVersion{}}

	info, err := d.describe(ctx)
	switch err.(type) {
	case nil, *serviceerror.NotFound, *serviceerror.Unimplemented, *serviceerror.PermissionDenied:
	default:
		return out, err
	}

	workers, err := d.workers(ctx)
	if err != nil {
		return out, err
	}

	routing := info.GetRoutingConfig()
	out.Current, out.Ramping = routing.GetCurrentDeploymentVersion().GetBuildId(), routing.GetRampingDeploymentVersion().GetBuildId()
	out.RampPercent = routing.GetRampingVersionPercentage()

	for _, version := range info.GetVersionSummaries() {
		build := version.GetDeploymentVersion().GetBuildId()
		out.Versions = append(out.Versions, domain.WorkerVersion{
			BuildID: build, Status: statusOf(version, out), Workers: len(workers[build]),
			Activated: version.GetFirstActivationTime().IsValid(), CreatedAt: version.GetCreateTime().AsTime(),
		})
	}

	slices.SortFunc(out.Versions, func(a, b domain.WorkerVersion) int { return b.CreatedAt.Compare(a.CreatedAt) })

	if plain := len(workers[""]); plain > 0 {
		out.Versions = append(out.Versions, unversioned(plain, out.Current == ""))
	}

	return out, nil
}

// unversioned returns the version of workers without one.
func unversioned(workers int, current bool) domain.WorkerVersion {
	status := domain.VersionInactive
	if current {
		status = domain.VersionCurrent
	}

	return domain.WorkerVersion{Status: status, Workers: workers, Activated: true}
}

func statusOf(
	version *deploymentpb.WorkerDeploymentInfo_WorkerDeploymentVersionSummary,
	in domain.WorkerDeployment,
) domain.WorkerVersionStatus {
	build := version.GetDeploymentVersion().GetBuildId()
	switch {
	case build == in.Current:
		return domain.VersionCurrent
	case build == in.Ramping:
		return domain.VersionRamping
	}

	switch version.GetDrainageInfo().GetStatus() {
	case enumspb.VERSION_DRAINAGE_STATUS_DRAINING:
		return domain.VersionDraining
	case enumspb.VERSION_DRAINAGE_STATUS_DRAINED:
		return domain.VersionDrained
	default:
		return domain.VersionInactive
	}
}

// workers returns the processes that poll for workflow tasks, by build.
func (d Deployment) workers(ctx context.Context) (map[string]map[string]bool, error) {
	queue, err := d.Client.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: d.namespace(), TaskQueue: &taskqueuepb.TaskQueue{Name: d.name()}, TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	if err != nil {
		return nil, err
	}

	workers := map[string]map[string]bool{}

	for _, poller := range queue.GetPollers() {
		if time.Since(poller.GetLastAccessTime().AsTime()) > workerSilence {
			continue
		}

		build := ""
		if options := poller.GetDeploymentOptions(); options.GetWorkerVersioningMode() == enumspb.WORKER_VERSIONING_MODE_VERSIONED {
			build = options.GetBuildId()
		}

		if workers[build] == nil {
			workers[build] = map[string]bool{}
		}

		workers[build][poller.GetIdentity()] = true
	}

	return workers, nil
}

// Promote makes a build the current one; the empty one selects unversioned workers. The server
// rejects a build without workers.
func (d Deployment) Promote(ctx context.Context, buildID string) error {
	_, err := d.Client.WorkerDeploymentClient().
		GetHandle(d.name()).
		SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: buildID})

	return err
}

// Ramp routes a share of new runs, and of runs that are not pinned, to a build, in percent; 0
// ends the ramp.
func (d Deployment) Ramp(ctx context.Context, buildID string, percent float32) error {
	if percent == 0 {
		buildID = ""
	}

	_, err := d.Client.WorkerDeploymentClient().GetHandle(d.name()).SetRampingVersion(ctx, client.WorkerDeploymentSetRampingVersionOptions{
		BuildID: buildID, Percentage: percent,
	})

	return err
}

// pinned returns the query for the open runs that only workers of a build can continue.
func (d Deployment) pinned(buildID string) string {
	return fmt.Sprintf(
		"TemporalWorkerDeploymentVersion = '%s:%s' AND TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'",
		d.name(),
		strings.ReplaceAll(buildID, "'", "''"),
	)
}

// CountPinned counts the open runs that only workers of a build can continue. It is eventually
// consistent.
func (d Deployment) CountPinned(ctx context.Context, buildID string) (int64, error) {
	answer, err := d.Client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: d.pinned(buildID)})
	return answer.GetCount(), err
}

// MoveRuns moves runs that are pinned to a build to the current one: all, or only runs that wait
// for input. It moves at most a thousand, and returns the count.
func (d Deployment) MoveRuns(ctx context.Context, buildID string, waiting bool) (int, error) {
	query := d.pinned(buildID)
	if waiting {
		query += fmt.Sprintf(" AND %s = '%s'", durable.ChatStatus.GetName(), domain.FinishAwaitingAnswer)
	}

	var runs []*workflowpb.WorkflowExecutionInfo
	for page := []byte(nil); len(runs) < maxMoves; {
		list, err := d.Client.ListWorkflow(
			ctx,
			&workflowservice.ListWorkflowExecutionsRequest{PageSize: movesPage, NextPageToken: page, Query: query},
		)
		if err != nil {
			return 0, err
		}

		runs = append(runs, list.GetExecutions()...)
		if page = list.GetNextPageToken(); len(page) == 0 {
			break
		}
	}

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(movesAside)

	for _, run := range runs {
		group.Go(func() error { return d.move(ctx, run.GetExecution().GetWorkflowId(), run.GetExecution().GetRunId()) })
	}

	return len(runs), group.Wait()
}

// move moves one run to the current build; a run that has closed in the meantime is skipped.
func (d Deployment) move(ctx context.Context, workflowID, runID string) error {
	_, err := d.Client.UpdateWorkflowExecutionOptions(ctx, client.UpdateWorkflowExecutionOptionsRequest{
		WorkflowId: workflowID, RunId: runID,
		WorkflowExecutionOptionsChanges: client.WorkflowExecutionOptionsChanges{
			VersioningOverride: &client.VersioningOverrideChange{Value: &client.AutoUpgradeVersioningOverride{}},
		},
	})
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}

	return err
}
