package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/infra/mcp"
	"everloop/infra/metrics"
	"everloop/service/dagruns"
	"everloop/service/schedules"
	"everloop/service/work"
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
	triggerDays = 30  // deliveries of triggers that have an outcome
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
	followEvery    = 2 * time.Second // Schedules that are changed in Temporal
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
	pruneEvery     = 10 * time.Minute
	expireEvery    = 5 * time.Minute
	versionEvery   = 10 * time.Second
	moveEvery      = 10 * time.Second
)

// newMaintenance puts the reconciler and the periodic jobs together.
func (b *backend) newMaintenance(
	finish func(context.Context, contract.FinishChatIn) (contract.FinishChatOut, error), counts *metrics.Worker,
	versions *work.Versions, scheduled *schedules.Service, dags *dagruns.Service,
) (*work.Runner, error) {
	reconciler := work.NewReconciler(work.ReconcilerConfig{
		Chats: b.store.ChatStore(), Runs: b.Runs, Finish: finish, Found: counts.Found, Logger: b.logger,
	})

	store := work.NewStore(b.DB.DB)
	checker := work.NewChecker(work.CheckerConfig{
		Store: store, Runs: b.Runs, Kinds: b.workKinds(scheduled, dags), Found: counts.Found, Logger: b.logger,
	})
	publish := func(ctx context.Context) error {
		published, err := b.store.PublishLeft(ctx, publishAge)
		for range published {
			counts.Found("unpublished")
		}

		return err
	}
	expiry := work.ExpireSessions(b.store.SessionStore(), b.sessionDeleter(), b.settings.ages(), b.logger)
	escalations := work.Prune(work.Retention{Of: "escalations of questions", Prune: b.DB.EscalateQuestions})
	spool := func(context.Context) error { return b.transfers.ClearSpool() }

	return work.NewRunner(b.DB.Lead, "everloop/maintenance", []work.Job{
		{Name: "signals of sessions", Every: wakeEvery, Run: work.All(reconciler.WakeSessions, reconciler.RepeatStops)},
		{Name: "publish events", Every: publishEvery, Run: publish},
		{Name: "runs of chats", Every: reconcileEvery, Run: work.All(reconciler.CheckRuns, reconciler.CheckSubAgents)},
		{Name: "open work", Every: reconcileEvery, Run: work.All(checker.Check, b.DB.EndCompactionsOfChats)},
		{Name: "waiters of chats", Every: scheduleEvery, Run: b.waiters.Repair},
		{Name: "scheduled tasks", Every: followEvery, Run: scheduled.Reconcile},
		{Name: "work of closed accounts", Every: reconcileEvery, Run: work.StopClosedSessions(store, b.chats.Stop)},
		{Name: "questions", Every: questionEvery, Run: work.All(b.chats.ExpireQuestions, escalations)},
		{Name: "issue runs", Every: scheduleEvery, Run: b.board.Repair},
		{Name: "questions of issue runs", Every: askEvery, Run: b.board.Ask},
		{Name: "background tasks", Every: reconcileEvery, Run: b.tasks.Repair},
		{Name: "archives", Every: archiveEvery, Run: b.archive.ArchiveDue},
		{Name: "unused objects", Every: partsEvery, Run: work.All(b.archive.ArchiveParts, b.apps.Clear, dags.ClearFiles)},
		{Name: "replays", Every: archiveEvery, Run: b.replays.Repair},
		{Name: "imports", Every: archiveEvery, Run: b.transfers.Repair},
		{Name: "exports that were broken off", Every: archiveEvery, Run: spool, Local: true},
		{Name: "follow the worker version", Every: versionEvery, Run: versions.Follow, Local: true},
		{Name: "move runs off replaced worker versions", Every: moveEvery, Run: versions.MoveRuns},
		{Name: "delete unused sessions", Every: expireEvery, Run: expiry},
		{Name: "retention", Every: pruneEvery, Run: work.Prune(b.retentions()...)},
	}, counts.JobFailed, b.logger)
}

// retentions returns the table of the rows that are removed after their time.
func (b *backend) retentions() []work.Retention {
	return []work.Retention{
		{Of: "idempotency keys", Prune: b.accounts.PruneIdempotency},
		{Of: "runs of DAGs", Prune: dagruns.NewStore(b.DB.DB).PruneDAGRuns, Batch: 20}, // each has up to some thousand nodes
		{Of: "the inbox", Prune: b.DB.PruneInbox},
		{Of: "counts of lost runs", Prune: work.NewStore(b.DB.DB).PruneRestarts},
		{Of: "compactions", Prune: b.DB.PruneCompactions},
		{Of: "crowded triggers", Prune: b.triggers.PruneCrowdedDeliveries},
		{Of: "bodies of deliveries of triggers", Prune: b.triggers.PruneBodies},
		{Of: "crowded webhooks", Prune: b.webhooks.PruneCrowdedDeliveries},
		work.Kept("the audit log", days(auditDays), b.accounts.PruneAudit),
		work.Kept("deliveries of triggers", days(triggerDays), b.triggers.PruneDeliveries),
		work.Kept("webhook deliveries", days(webhookDays), b.webhooks.PruneDeliveries),
		work.Kept("the usage of deleted sessions", days(usageDays), b.accounts.PruneUsage),
		work.Kept("history operations", days(historyDays), b.history.PruneHistoryOperations),
	}
}

// newEdgeJobs returns the jobs of the role that clients are connected to: they run while
// no worker does.
func (b *backend) newEdgeJobs(signIn signIn) (*work.Runner, error) {
	logged := func(string) {} // by the runner

	return work.NewRunner(b.DB.Lead, "everloop/edge", append(signIn.jobs(), work.Job{
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

// sessionDeleter returns the deleter of sessions.
func (b *backend) sessionDeleter() *work.SessionDeleter {
	return work.NewSessionDeleter(work.SessionDeleterConfig{
		Chats: b.store.ChatStore(), Sessions: b.store.SessionStore(), Signals: b.Signals, StopTasks: b.tasks.StopAll,
		Start: b.Runs.StartDeletion, Logger: b.logger,
	})
}

// deletions returns the activities that remove the content of deleted sessions.
func (b *backend) deletions() *work.Deletions {
	return &work.Deletions{
		Sessions: b.store.SessionStore(), Runs: b.Runs, Log: b.Log, OpenMoves: b.history.RunningHistory, EndMoves: b.history.EndHistory,
		StopServers: mcp.Remote{Conn: b.NATS}.SessionDeleted, RemoveFiles: b.workspace.Remove, DeleteObjects: b.Objects.DeletePrefix,
	}
}
