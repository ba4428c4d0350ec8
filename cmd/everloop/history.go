package main

import (
	"context"
	"os"
	"path/filepath"

	"everloop/domain"
	"everloop/history"
	"everloop/infra/appcopies"
	"everloop/infra/snapshots"
	"everloop/infra/snapshots/workspaces"
	"everloop/infra/toolbox"
	"everloop/publish"
)

// newHistory puts together what captures and restores the files of sessions. One
// of a process serves the doors and the worker, so that each sees what the other
// has in hand.
func (b *backend) newHistory() error {
	spool := filepath.Join(b.settings.DataDir, "spool")
	if err := os.MkdirAll(spool, 0o700); err != nil {
		return err
	}
	store := snapshots.New(snapshots.Config{Objects: b.objects, SpoolDir: spool, Logger: b.logger})
	files := workspaces.Files{Store: store, Roots: toolbox.Files{Store: b.workspace}}
	b.apps = &publish.Desk{Records: b.db, Copies: appcopies.Copies{Store: store, Workspaces: b.workspace}, Logger: b.logger}
	b.captures = &history.Capturer{Records: b.db, Files: files, Process: domain.NewID(), Logger: b.logger}
	b.history = &history.Desk{Records: b.journal, Captures: b.captures, Files: files, Runs: b.runs, Logger: b.logger}
	return nil
}

// standing counts what a session's standing instructions take of each prompt.
type standing struct{ contexts }

// Standing implements history.Tokens. Skills are offered by a tool, so they count
// as one.
func (s standing) Standing(ctx context.Context, session domain.Session) (system, tools int, model string, err error) {
	stats, err := s.ContextStats(ctx, session)
	for _, category := range stats.Categories {
		switch category.Name {
		case "system_prompt":
			system = int(category.Tokens)
		case "tools", "skills":
			tools += int(category.Tokens)
		}
	}
	return system, tools, stats.Model, err
}
