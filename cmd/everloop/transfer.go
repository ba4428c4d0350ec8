package main

import (
	"context"
	"path/filepath"
	"time"

	"everloop/activities"
	"everloop/api"
	"everloop/archive"
	"everloop/domain"
	"everloop/inbox"
	"everloop/infra/carry"
	"everloop/infra/snapshots"
	"everloop/replay"
	"everloop/transfer"
)

// sharingSettings are about what leaves the installation without credentials.
type sharingSettings struct {
	PublicSharing bool `default:"true" negatable:"" env:"PUBLIC_SHARING" help:"Let owners make public, read-only links to their sessions."`
}

// carrier brings files of sessions elsewhere.
func (b *backend) carrier() carry.Carrier {
	return carry.Carrier{
		Workspaces: b.workspace,
		Snapshots:  snapshots.New(snapshots.Config{Objects: b.objects, SpoolDir: filepath.Join(b.settings.DataDir, "spool"), Logger: b.logger}),
	}
}

// archive keeps events for longer than the log does.
func (b *backend) archive() *archive.Archive {
	return &archive.Archive{Records: b.db, Log: b.log, Objects: b.objects, Logger: b.logger}
}

// replayDesk makes and changes replays, for the API and for the worker.
func (b *backend) replayDesk() *replay.Desk {
	return &replay.Desk{
		Records: b.journal, Events: b.archive(), Objects: b.objects, Files: b.carrier(), Runs: b.runs, Logger: b.logger,
	}
}

// sweepEvery is how often the worker looks for chats to archive and for what
// crashes left of replays and imports.
const sweepEvery = 5 * time.Second

// sweeps is the mending that may take long.
func (b *backend) sweeps() *inbox.Sweeps {
	return &inbox.Sweeps{Every: sweepEvery, Logger: b.logger, Work: []inbox.Sweep{
		{Name: "archive", Run: b.archive().Sweep},
		{Name: "replays", Run: b.replayDesk().Sweep},
		{Name: "imports", Run: b.transferDesk().Sweep},
	}}
}

// transferDesk exports and imports sessions.
func (b *backend) transferDesk() *transfer.Desk {
	return &transfer.Desk{
		Records: b.db, Events: b.archive(), Objects: b.objects, Files: b.carrier(), Known: b.known, Version: version,
		Spool: filepath.Join(b.settings.DataDir, "spool"),
	}
}

// known says whether this installation has what a session names. A model is
// believed when the gateway cannot be asked.
func (b *backend) known(ctx context.Context, kind, name string) bool {
	switch kind {
	case "model":
		_, err := b.models.Resolve(ctx, name)
		return !domain.HasCode(err, domain.CodeUnknownModel)
	case "solution":
		_, err := b.solutions.Get(name)
		return err == nil
	}
	return true
}

// transfers gives the API its own type for an export.
type transfers struct{ *transfer.Desk }

// Export implements api.Transfers.
func (t transfers) Export(ctx context.Context, session domain.Session, parts domain.ExportParts) (api.SessionExport, error) {
	return t.Desk.Export(ctx, session, parts)
}

// replays play recorded sessions.
func (b *backend) replays() *activities.Replays {
	return &activities.Replays{Records: b.journal, Scripts: b.replayDesk(), Logger: b.logger}
}
