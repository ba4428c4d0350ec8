package app

import (
	"context"
	"sync/atomic"
	"time"

	sdkworker "go.temporal.io/sdk/worker"

	"everloop/activities/background"
	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/infra/mcp"
	"everloop/infra/metrics"
	"everloop/infra/postgres/pg"
	"everloop/infra/sandbox"
	"everloop/infra/toolbox"
	"everloop/internal/lifecycle"
	"everloop/service/history"
	"everloop/service/tasks"
	"everloop/service/work"
	"everloop/worker"
)

// workerRole is the worker: it carries out chats, and repairs what crashes left behind.
type workerRole struct {
	worker  sdkworker.Worker
	sandbox *sandbox.Sandbox
	servers *mcp.Manager
	history *history.Service

	maintenance *work.Runner
	versions    *work.Versions
	drained     <-chan struct{}           // closed when the worker is to end because its build is drained
	report      func(ctx context.Context) // that this worker takes work, until ctx ends
	deliver     func(ctx context.Context) // the events of webhooks, until ctx ends

	chats     worker.Chats
	tasks     *tasks.Runner
	schedules *background.Schedules
}

// drainTimeout bounds how long the outcomes of tools and background tasks that a
// shutdown killed are waited for.
const drainTimeout = 10 * time.Second

// newWork starts the sandbox and puts the worker together.
func newWork(ctx context.Context, b *backend, build versionSettings) (*workerRole, error) {
	s := b.settings

	box, err := sandbox.New(ctx, s.sandboxConfig())
	if err != nil {
		return nil, err
	}

	files := toolbox.Files{Store: b.workspace, OneUser: !box.DedicatedUsers()}
	if box.Measured() {
		b.logger.Warn("no control group holds the limits of commands: they are measured", "sandbox", box.Describe())
	}

	shell := toolbox.Shell{Sandbox: box, Slots: slots(), Limits: sandbox.Limits{
		Memory: s.SandboxMemory, Processes: s.SandboxProcs, Workspace: s.WorkspaceBytes, Inodes: s.WorkspaceInodes,
	}}

	deps := tools.Deps{
		Workspaces: files, Reads: b.DB.FileReads(), Tasks: b.DB, Background: b.tasks,
	}
	if err := b.connectCommands(&shell, &deps, box); err != nil {
		box.Close()
		return nil, err
	}

	deps.Sandbox = shell

	registry, err := b.newTools(deps)
	if err != nil {
		box.Close()
		return nil, err
	}

	types, err := agents.NewAgents(deps)
	if err != nil {
		box.Close()
		return nil, err
	}

	registry.Provide(types)
	b.provideMemory(registry)

	skilled, err := b.newSkills(registry, files.OneUser)
	if err != nil {
		box.Close()
		return nil, err
	}

	documents, err := b.provideAssistance(registry, skilled)
	if err != nil {
		box.Close()
		return nil, err
	}

	servers, err := b.newToolServers(ctx, registry, files, shell)
	if err != nil {
		box.Close()
		return nil, err
	}

	counts := metrics.NewWorker(b.metrics)
	chats := b.newChatSteps(registry, types, files, counts)
	runner := &tasks.Runner{
		Store: b.tasks.Store, Signals: b.Signals, Sandbox: shell, Workspaces: files, Root: files.Root, Env: b.buckets.ToolEnv,
		Logger: b.logger,
	}

	versions, drained, err := b.newVersions(build)
	if err != nil {
		box.Close()
		return nil, err
	}

	dags, err := b.newDAGRuns(documents)
	if err != nil {
		box.Close()
		return nil, err
	}

	scheduled, scheduleRepair, err := b.scheduleWork(b.outcomes(shell, files), dags)
	if err != nil {
		box.Close()
		return nil, err
	}

	maintained, err := b.newMaintenance(chats.Chat.FinishChat, counts, versions, scheduleRepair, dags)
	if err != nil {
		box.Close()
		return nil, err
	}

	var active atomic.Int64

	serves := worker.New(b.Temporal, chats, worker.Options{
		StopTimeout: s.StopTimeout, CachedWorkflows: cachedWorkflows, Context: pg.ForSteps, BuildID: build.BuildID, Active: &active,
	})
	runner.Register(serves)
	b.deletions().Register(serves)
	worker.RegisterSchedules(serves, scheduled)
	dags.Register(serves)
	b.board.Register(serves)
	b.triggers.With(b.newTargets(dags)).Register(serves)
	b.history.Register(serves)
	b.archive.Register(serves)
	b.replays.Register(serves)
	b.transfers.Register(serves)

	return &workerRole{
		sandbox:     box,
		servers:     servers,
		chats:       chats,
		tasks:       runner,
		schedules:   scheduled,
		history:     b.history,
		worker:      serves,
		maintenance: maintained,
		versions:    versions,
		drained:     drained,
		report:      func(ctx context.Context) { b.reportWorker(ctx, &active) },
		deliver:     b.webhooks.Run,
	}, nil
}

// Name implements lifecycle.Service.
func (w *workerRole) Name() string { return "worker" }

// Run takes work until ctx ends, or the worker's build is drained and that was asked
// for. Then running tools are given StopTimeout.
func (w *workerRole) Run(ctx context.Context) error {
	drained := lifecycle.Func("drained build", func(ctx context.Context) error {
		select {
		case <-w.drained:
		case <-ctx.Done():
		}

		return nil
	})

	return lifecycle.Run(ctx, lifecycle.Layer{lifecycle.Func("activities and workflows", w.serve)}, lifecycle.Layer{
		lifecycle.Loop("history repair", w.history.Run), lifecycle.Loop("maintenance", w.maintenance.Run),
		lifecycle.Loop("webhooks", w.deliver),
		lifecycle.Loop("worker report", w.report), lifecycle.Task("worker version", w.versions.Join), drained,
	})
}

// serve runs activities and workflows until ctx ends.
func (w *workerRole) serve(ctx context.Context) error {
	if err := w.worker.Start(); err != nil {
		return err
	}

	<-ctx.Done()
	w.worker.Stop()

	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()

	w.chats.Drain(rest)
	w.tasks.Drain(rest)
	w.schedules.Drain(rest)
	w.history.Drain(rest)
	w.servers.Close()
	w.sandbox.Close()

	return nil
}
