package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"

	"everloop/activities/background"
	"everloop/domain"
	"everloop/infra/mcp"
	"everloop/infra/metrics"
	"everloop/service/chat"
	"everloop/service/maintenance"
)

// retentionSettings define how long sessions are kept that have no activity.
type retentionSettings struct {
	ChatDays int `name:"retention-chat-days" default:"0" env:"RETENTION_CHAT_DAYS" help:"Days without activity after which a session is deleted that no run made; 0: never."`
	RunDays  int `name:"retention-run-days" default:"0" env:"RETENTION_RUN_DAYS" help:"The same for sessions of scheduled runs, of nodes of DAGs and of issues."`
}

// Days for which records of the past are kept.
const (
	auditDays   = 365 // entries of the audit log
	usageDays   = 800 // usage of deleted sessions: two years can be compared
	webhookDays = 30  // deliveries of webhooks that have ended
	historyDays = 30  // rewinds, branch switches and what-ifs that have ended
)

// maxDays bounds the settings, so that no time overflows.
const maxDays = 36500

func (s retentionSettings) check() error {
	var faults []error

	for variable, days := range map[string]int{"RETENTION_CHAT_DAYS": s.ChatDays, "RETENTION_RUN_DAYS": s.RunDays} {
		if days < 0 || days > maxDays {
			faults = append(faults, fmt.Errorf("%s must be from 0 to %d", variable, maxDays))
		}
	}

	return errors.Join(faults...)
}

// ages say after which time without activity sessions of each class end.
func (s retentionSettings) ages() map[domain.SessionClass]time.Duration {
	return map[domain.SessionClass]time.Duration{
		domain.ClassChat: days(s.ChatDays), domain.ClassSchedule: days(s.RunDays),
		domain.ClassDAG: days(s.RunDays), domain.ClassIssue: days(s.RunDays),
	}
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// Intervals of the periodic jobs.
const (
	wakeEvery      = time.Second
	scheduleEvery  = 5 * time.Second
	questionEvery  = time.Second
	askEvery       = 2 * time.Second
	waitingEvery   = 2 * time.Second
	accountEvery   = 2 * time.Second
	workerEvery    = 5 * time.Second
	publishEvery   = time.Second
	publishAge     = 5 * time.Second
	archiveEvery   = 5 * time.Second
	partsEvery     = time.Minute
	reconcileEvery = 10 * time.Second
	// waitingRunsEvery is for runs that wait for chats: nothing suggests that one is lost.
	waitingRunsEvery = 30 * time.Second
	pruneEvery       = 10 * time.Minute
	expireEvery      = 5 * time.Minute
	versionEvery     = 10 * time.Second
	moveEvery        = 10 * time.Second
)

// dagRunBatch is how many runs of DAGs one transaction removes: each has up to some
// thousand nodes.
const dagRunBatch = 20

// newMaintenance puts the reconciler and the periodic jobs together.
func (b *backend) newMaintenance(
	chats maintenance.Finisher, counts *metrics.Worker, versions *maintenance.Versions, schedules *maintenance.Schedules,
	issueRuns *maintenance.IssueRuns,
) (*maintenance.Runner, error) {
	reconciler, err := maintenance.NewReconciler(maintenance.ReconcilerConfig{
		Store: b.store, Runs: b.Runs, Chats: chats, Found: counts.Found, Logger: b.logger,
	})
	if err != nil {
		return nil, err
	}

	waiting, err := b.newChats()
	if err != nil {
		return nil, err
	}

	checks, err := b.workChecks(waiting, counts)
	if err != nil {
		return nil, err
	}

	publish := func(ctx context.Context) error {
		published, err := b.store.PublishLeft(ctx, publishAge)
		for range published {
			counts.Found("unpublished")
		}

		return err
	}
	s := b.settings

	deleter, err := b.sessionDeleter()
	if err != nil {
		return nil, err
	}

	expiry := maintenance.ExpireSessions(b.store, deleter, s.ages(), b.logger)
	spool := func(context.Context) error { return b.transfers.ClearSpool() }

	return maintenance.NewRunner(b.DB, "everloop/maintenance", append(checks, []maintenance.Job{
		{Name: "wake sessions", Every: wakeEvery, Run: reconciler.WakeSessions},
		{Name: "repeat stops", Every: wakeEvery, Run: reconciler.RepeatStops},
		{Name: "publish events", Every: publishEvery, Run: publish},
		{Name: "check runs", Every: reconcileEvery, Run: reconciler.CheckRuns},
		{Name: "check sub-agents", Every: reconcileEvery, Run: reconciler.CheckSubAgents},
		{Name: "waiters of chats", Every: scheduleEvery, Run: b.waiters.Repair},
		{Name: "scheduled tasks", Every: scheduleEvery, Run: schedules.Repair},
		{Name: "work of closed accounts", Every: reconcileEvery, Run: maintenance.StopClosedSessions(b.DB, waiting)},
		{Name: "questions whose time is over", Every: questionEvery, Run: waiting.ExpireQuestions},
		{Name: "escalations of questions", Every: questionEvery, Run: maintenance.Prune(b.DB.EscalateQuestions)},
		{Name: "issue runs", Every: scheduleEvery, Run: issueRuns.Repair},
		{Name: "questions of issue runs", Every: askEvery, Run: issueRuns.Ask},
		{Name: "background tasks", Every: reconcileEvery, Run: b.tasks.Repair},
		{Name: "archives", Every: archiveEvery, Run: b.archive.ArchiveDue},
		{Name: "archive parts", Every: partsEvery, Run: b.archive.ArchiveParts},
		{Name: "replays", Every: archiveEvery, Run: b.replays.Repair},
		{Name: "imports", Every: archiveEvery, Run: b.transfers.Repair},
		{Name: "copies of apps", Every: partsEvery, Run: b.apps.Clear},
		{Name: "exports that were broken off", Every: archiveEvery, Run: spool, Local: true},
		{Name: "follow the worker version", Every: versionEvery, Run: versions.Follow, Local: true},
		{Name: "move runs off replaced worker versions", Every: moveEvery, Run: versions.MoveRuns},

		{Name: "delete unused sessions", Every: expireEvery, Run: expiry},
		{Name: "prune idempotency keys", Every: pruneEvery, Run: maintenance.Prune(b.DB.PruneIdempotency)},
		{Name: "prune runs of DAGs", Every: pruneEvery, Run: maintenance.PruneBy(dagRunBatch, b.DB.PruneDAGRuns)},
		{Name: "prune the inbox", Every: pruneEvery, Run: maintenance.Prune(b.DB.PruneInbox)},
		{Name: "prune counts of lost runs", Every: pruneEvery, Run: maintenance.Prune(b.DB.PruneWorkRestarts)},
		{Name: "prune compactions", Every: pruneEvery, Run: maintenance.Prune(b.DB.PruneCompactions)},
		{Name: "prune the audit log", Every: pruneEvery, Run: maintenance.PruneOlder(days(auditDays), b.DB.PruneAudit)},
		{Name: "prune webhook deliveries", Every: pruneEvery, Run: maintenance.PruneOlder(days(webhookDays), b.webhooks.PruneDeliveries)},
		{Name: "prune crowded webhooks", Every: pruneEvery, Run: maintenance.Prune(b.webhooks.PruneCrowdedDeliveries)},
		{Name: "prune the usage of deleted sessions", Every: pruneEvery, Run: maintenance.PruneOlder(days(usageDays), b.DB.PruneUsage)},
		{
			Name:  "prune history operations",
			Every: pruneEvery,
			Run:   maintenance.PruneOlder(days(historyDays), b.history.PruneHistoryOperations),
		},
	}...), counts.JobFailed, b.logger)
}

// workChecks look for the lost and stuck workflows of work that is no chat.
func (b *backend) workChecks(chats *chat.Service, counts *metrics.Worker) ([]maintenance.Job, error) {
	checker, err := maintenance.NewWorkChecker(
		maintenance.WorkCheckerConfig{Store: b.DB, Runs: b.Runs, Found: counts.Found, Logger: b.logger},
	)
	if err != nil {
		return nil, err
	}

	board, err := b.newBoard(chats)
	if err != nil {
		return nil, err
	}

	tasks, err := b.newSchedules(chats)
	if err != nil {
		return nil, err
	}

	return []maintenance.Job{
		{Name: "check compactions", Every: reconcileEvery, Run: checker.Compactions(b.DB, b.Runs)},
		{Name: "check moves", Every: reconcileEvery, Run: checker.Moves(b.history, b.Runs, b.history)},
		{Name: "check imports", Every: reconcileEvery, Run: checker.Imports(b.DB, b.Runs, b.transfers)},
		{Name: "check deletions", Every: reconcileEvery, Run: checker.Deletions(b.DB, b.Runs)},
		{Name: "check runs of DAGs", Every: reconcileEvery, Run: checker.DAGRuns(b.DB, b.Runs, false)},
		{Name: "check issue runs", Every: reconcileEvery, Run: checker.IssueRuns(b.DB, b.Runs, board, false)},
		{Name: "check scheduled runs", Every: reconcileEvery, Run: checker.ScheduledRuns(b.DB, b.Runs, tasks, false)},
		{Name: "check waiting runs of DAGs", Every: waitingRunsEvery, Run: checker.DAGRuns(b.DB, b.Runs, true)},
		{Name: "check waiting issue runs", Every: waitingRunsEvery, Run: checker.IssueRuns(b.DB, b.Runs, board, true)},
		{Name: "check waiting scheduled runs", Every: waitingRunsEvery, Run: checker.ScheduledRuns(b.DB, b.Runs, tasks, true)},
	}, nil
}

// newEdgeJobs are the jobs of the role that clients are connected to: they run while
// no worker does.
func (b *backend) newEdgeJobs(signIn signIn) (*maintenance.Runner, error) {
	logged := func(string) {} // by the runner

	return maintenance.NewRunner(b.DB, "everloop/edge", append(signIn.jobs(), maintenance.Job{
		Name: "report missing workers", Every: waitingEvery, Run: b.store.ReportWaiting,
	}), logged, b.logger)
}

// reportWorker records every workerEvery that this worker takes work, for as long as
// it reaches Temporal, and at the end that it takes no more. active is how many
// activities it carries out.
func (b *backend) reportWorker(ctx context.Context, active *atomic.Int64) {
	announced := b.settings.workerReport()
	report := func() {
		ctx, cancel := context.WithTimeout(ctx, workerEvery)
		defer cancel()

		_, err := b.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
		if err == nil {
			announced.Used = int(active.Load())
			err = b.DB.ReportWorker(ctx, announced)
		}

		if err != nil && ctx.Err() == nil {
			b.logger.Warn("failed to report that this worker takes work, retrying", "error", err)
		}
	}

	tick := time.NewTicker(workerEvery)
	defer tick.Stop()

	for report(); ; report() {
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}

		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), workerEvery)
		defer cancel()

		if err := b.DB.ReportWorkerStopped(leave, announced.ID); err != nil {
			b.logger.Warn("failed to report that this worker has stopped", "error", err)
		}

		return
	}
}

// sessionDeleter deletes sessions, for the API.
func (b *backend) sessionDeleter() (*maintenance.SessionDeleter, error) {
	return maintenance.NewSessionDeleter(b.store, b.tasks, b.Signals, b.Runs, b.logger)
}

// deletions removes what deleted sessions held.
func (b *backend) deletions() *background.Deletions {
	return &background.Deletions{
		Rows: b.DB, Moves: b.history, Runs: b.Runs, ToolServers: mcp.Remote{Conn: b.NATS}, Files: b.workspace, Objects: b.Objects, Log: b.Log,
	}
}
