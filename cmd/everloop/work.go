package main

import (
	"context"
	"time"

	sdkworker "go.temporal.io/sdk/worker"

	"everloop/activities"
	"everloop/activities/tools"
	"everloop/history"
	"everloop/inbox"
	"everloop/infra/mcp"
	"everloop/infra/metrics"
	"everloop/infra/sandbox"
	"everloop/infra/toolbox"
	"everloop/worker"
)

// work is the worker: it carries out chats, and mends what crashes left behind.
type work struct {
	worker  sdkworker.Worker
	sandbox *sandbox.Sandbox
	servers *mcp.Manager
	janitor *inbox.Janitor
	history *history.Desk
	sweeps  *inbox.Sweeps

	activities *activities.Activities
}

// drainTimeout bounds how long the outcomes of tools that a shutdown killed are
// waited for.
const drainTimeout = 5 * time.Second

// newWork starts the sandbox and puts the worker together.
func newWork(ctx context.Context, b *backend) (*work, error) {
	s := b.settings
	box, err := sandbox.New(ctx, sandbox.Config{
		MinLevel: sandbox.Level(s.SandboxMinLevel), Unsafe: s.SandboxUnsafe, ReadOnly: s.SandboxReadOnly,
	})
	if err != nil {
		return nil, err
	}
	files := toolbox.Files{Store: b.workspace, OneUser: !box.DedicatedUsers()}
	shell := toolbox.Shell{Sandbox: box, Limits: sandbox.Limits{
		Memory: s.SandboxMemory, Processes: s.SandboxProcs, Workspace: s.WorkspaceBytes,
	}}
	deps := tools.Deps{
		Workspaces: files, Sandbox: shell, Reads: b.db.FileReads(), Tasks: b.db, Background: b.taskDesk(),
	}
	registry, err := b.newTools(deps)
	if err != nil {
		box.Close()
		return nil, err
	}
	agents, err := tools.NewAgents(deps)
	if err != nil {
		box.Close()
		return nil, err
	}
	registry.Provide(agents)
	registry.Provide(tools.NewMemoryTool(b.db))
	if _, err := b.newSkills(registry, files.OneUser); err != nil {
		box.Close()
		return nil, err
	}
	servers, err := b.newToolServers(ctx, registry, files, shell)
	if err != nil {
		box.Close()
		return nil, err
	}
	counts := metrics.NewWork(b.metrics)
	acts := &activities.Activities{
		Chats: b.journal, Turns: b.journal, Ledger: b.journal, Log: b.log, Stops: b.signals, Models: b.models,
		Agents: agents, Forks: b.journal, ForkLimits: s.forkLimits(),
		Images: b.objects, Tools: registry, Workspaces: files, Profiles: b, Captures: b.captures, Environment: b.buckets, Metrics: counts, Logger: b.logger,
		Compactions: b.journal, Tokens: b.tokens, Memories: recalled{b.db},
	}
	tasks := &activities.Tasks{
		Records: b.journal, Stops: b.signals, Sandbox: shell, Workspaces: files, Roots: files, Environment: b.buckets, Logger: b.logger,
	}
	desk := newDesk(b)
	serves := worker.New(b.temporal, acts, tasks, worker.Options{StopTimeout: s.StopTimeout})
	worker.RegisterReplays(serves, b.replays())
	return &work{
		sandbox: box, servers: servers, activities: acts, history: b.history, sweeps: b.sweeps(),
		worker: serves,
		janitor: &inbox.Janitor{
			Records: b.db, Journal: b.journal, Runs: b.runs, Finisher: acts, Purger: newPurger(b, desk),
			Tasks: b.taskDesk(), Compact: b.compactions(), Keys: b.db, Logger: b.logger,
			Found: counts.Found,
		},
	}, nil
}

// serve works until ctx ends, then drains: running tools are given StopTimeout.
func (w *work) serve(ctx context.Context) error {
	if err := w.worker.Start(); err != nil {
		return err
	}
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		w.sweeps.Run(ctx)
	}()
	go w.history.Run(ctx)
	w.janitor.Run(ctx)
	<-swept
	w.worker.Stop()
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	w.activities.Drain(leave)
	w.history.Captures.Drain(leave)
	w.servers.Close()
	w.sandbox.Close()
	return nil
}
