package main

import (
	"context"
	"time"

	sdkworker "go.temporal.io/sdk/worker"

	"everloop/activities"
	"everloop/activities/tools"
	"everloop/inbox"
	"everloop/infra/metrics"
	"everloop/infra/sandbox"
	"everloop/infra/toolbox"
	"everloop/worker"
)

// work is the worker: it carries out chats, and mends what crashes left behind.
type work struct {
	worker  sdkworker.Worker
	sandbox *sandbox.Sandbox
	janitor *inbox.Janitor

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
	registry, err := tools.New(tools.Deps{
		Workspaces: files, Sandbox: shell, Reads: b.db.FileReads(), Tasks: b.db, Background: b.taskDesk(),
	})
	if err != nil {
		box.Close()
		return nil, err
	}
	registry.Provide(tools.NewMemoryTool(b.db))
	counts := metrics.NewWork(b.metrics)
	acts := &activities.Activities{
		Chats: b.journal, Turns: b.journal, Ledger: b.journal, Log: b.log, Stops: b.signals, Models: b.models,
		Images: b.objects, Tools: registry, Workspaces: files, Profiles: profiles{}, Metrics: counts, Logger: b.logger,
	}
	tasks := &activities.Tasks{
		Records: b.journal, Stops: b.signals, Sandbox: shell, Workspaces: files, Roots: files, Logger: b.logger,
	}
	desk := newDesk(b)
	return &work{
		sandbox: box, activities: acts,
		worker: worker.New(b.temporal, acts, tasks, worker.Options{StopTimeout: s.StopTimeout}),
		janitor: &inbox.Janitor{
			Records: b.db, Journal: b.journal, Runs: b.runs, Finisher: acts, Purger: newPurger(b, desk),
			Tasks: b.taskDesk(), Keys: b.db, Logger: b.logger,
			Found: counts.Found,
		},
	}, nil
}

// serve works until ctx ends, then drains: running tools are given StopTimeout.
func (w *work) serve(ctx context.Context) error {
	if err := w.worker.Start(); err != nil {
		return err
	}
	w.janitor.Run(ctx)
	w.worker.Stop()
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	w.activities.Drain(leave)
	w.sandbox.Close()
	return nil
}
