package app

import (
	"context"
	"os"
	"path/filepath"

	"everloop/api/session"
	"everloop/domain"
	domaintransfer "everloop/domain/transfer"
	"everloop/infra/snapshots"
	"everloop/infra/toolbox"
	"everloop/internal/app/flags"
	"everloop/internal/release"
	"everloop/service/agents"
	"everloop/service/apps"
	"everloop/service/board"
	"everloop/service/chat"
	"everloop/service/files"
	"everloop/service/history"
	"everloop/service/memories"
	"everloop/service/recordings"
	"everloop/service/recordings/replay"
	"everloop/service/recordings/transfer"
	"everloop/service/tasks"
	"everloop/service/toolservers"
	"everloop/service/triggers"
	"everloop/service/webhooks"
)

// services are the application's services that both edges and the worker use. A
// process has one of each, so that the API and the worker of one process share what
// they have in progress.
type services struct {
	agents      *agents.Service
	apps        *apps.Service
	archive     *recordings.Service
	board       *board.Service
	chats       *chat.Service
	history     *history.Service
	memories    *memories.Store
	compactions *chat.Compactions
	replays     *replay.Service
	tasks       *tasks.Service
	toolServers *toolservers.Store
	transfers   *transfer.Service
	triggers    *triggers.Service
	webhooks    *webhooks.Service
	carrier     files.Carrier
}

// newServices builds the services on the engines.
func (b *backend) newServices() (s services, err error) {
	spool := filepath.Join(b.settings.DataDir, "spool")
	if err := os.MkdirAll(spool, 0o700); err != nil {
		return s, err
	}

	store := snapshots.New(snapshots.Config{Objects: b.Objects, SpoolDir: spool, Reserve: flags.Reserve, Logger: b.logger})
	sessionFiles := files.Checkpoints{Store: store, Roots: toolbox.Files{Store: b.workspace}}
	s.carrier = files.Carrier{Workspaces: b.workspace, Snapshots: store}

	s.memories, s.toolServers = memories.New(b.DB.DB), toolservers.New(b.DB.DB, b.buckets.Box)
	s.agents = agents.New(agents.Deps{
		DB: b.DB.DB, Solutions: b.solutions, Models: b.models, StartTask: b.Runs.StartTask, Logger: b.logger,
	})

	guard, err := b.settings.webhookGuard(b.settings.ownAddresses())
	if err != nil {
		return s, err
	}

	s.webhooks = webhooks.New(webhooks.Deps{DB: b.DB.DB, Box: b.buckets.Box, Guard: guard, Logger: b.logger})

	if s.apps, err = apps.New(apps.Config{
		Store: apps.NewStore(b.DB.DB), Copies: files.AppCopies{Store: store, Workspaces: b.workspace}, Logger: b.logger,
		Budget: flags.MaxUserCheckpoints,
	}); err != nil {
		return s, err
	}

	recorded := recordings.Deps{
		DB: b.DB.DB, Outbox: b.store.Outbox, Log: b.Log, Objects: b.Objects, Files: s.carrier, Runs: b.Runs, Logger: b.logger,
	}
	if s.archive, err = recordings.New(recorded); err != nil {
		return s, err
	}

	if s.replays, err = replay.New(recorded, s.archive); err != nil {
		return s, err
	}

	if s.transfers, err = transfer.New(transfer.Config{
		Deps: recorded, Archive: s.archive, Known: b.known, Roles: b.accounts.AllowedRoles, Memories: s.memories.SessionMemories,
		Version: release.Version, Spool: spool, WorkspaceBytes: b.settings.WorkspaceBytes, Room: flags.CheckReserve(b.settings.DataDir),
	}); err != nil {
		return s, err
	}

	if s.history, err = history.New(history.Config{
		Store: history.NewStore(b.DB.DB, b.store.Outbox), Files: sessionFiles, Runs: b.Runs, Process: domain.NewID(), Logger: b.logger,
		Budget: history.Budget{Session: flags.MaxSessionCheckpoints, Owner: flags.MaxUserCheckpoints},
	}); err != nil {
		return s, err
	}

	if s.compactions, err = chat.NewCompactions(chat.CompactionsConfig{Store: b.DB, Runs: b.Runs, Logger: b.logger}); err != nil {
		return s, err
	}

	if s.chats, err = b.newChats(s); err != nil {
		return s, err
	}

	s.board = board.New(board.Deps{
		DB: b.DB.DB, StartRun: b.Runs.StartIssueRun, NotifyWaiter: b.Runs.NotifyWaiter, Chats: s.chats, Agents: s.agents, Logger: b.logger,
	})

	s.triggers = triggers.New(triggers.Deps{
		DB: b.DB.DB, Box: b.buckets.Box, StartDelivery: b.Runs.StartTrigger, Logger: b.logger,
	})

	b.DB.OnDelivery(s.triggers.FollowRun)

	s.tasks = tasks.New(tasks.Deps{
		DB: b.DB.DB, Outbox: b.store.Outbox, Chats: b.store.ChatStore(), Runs: b.Runs, Signals: b.Signals,
		Workspaces: toolbox.Files{Store: b.workspace}, Logger: b.logger,
	})

	return s, nil
}

// newChats builds the service that takes messages, answers and stops.
func (b *backend) newChats(s services) (*chat.Service, error) {
	pictures, err := b.newPictures()
	if err != nil {
		return nil, err
	}

	return chat.New(chat.Config{
		Store: b.store, Runs: b.Runs, Bus: b.Signals, Models: b.models, Images: b.Objects, Pictures: pictures, History: s.history,
		Compactions: s.compactions, Logger: b.logger, RecordingBytes: b.recordingBytes(),
	})
}

// known reports whether this installation has what a session names. A model counts as
// known when the gateway cannot be asked.
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
type transfers struct{ *transfer.Service }

// Export implements api.Transfers.
func (t transfers) Export(
	ctx context.Context, callerID string, of domain.Session, parts domaintransfer.ExportParts,
) (session.Export, error) {
	return t.Service.Export(ctx, callerID, of, parts)
}
