package app

import (
	"context"

	"everloop/activities/prompt"
	"everloop/api"
	apiaccess "everloop/api/access"
	"everloop/api/account"
	"everloop/api/files"
	"everloop/api/library"
	"everloop/api/production"
	"everloop/api/session"
	"everloop/api/sessiondetail"
	"everloop/api/system"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/mcp"
	"everloop/infra/skillregistry"
	"everloop/infra/workspace/sessionfiles"
	"everloop/internal/release"
	"everloop/realtime"
	"everloop/service/chat"
	"everloop/service/compute"
)

// edgeServices are the services that the areas of the REST interface share with the other
// parts of the API server.
type edgeServices struct {
	auditor     *auth.Auditor
	chats       *chat.Service
	contexts    contexts
	shown       shownTools
	signIn      signIn
	toolServers mcp.Remote
	hub         *realtime.Hub
}

// newAreas builds the areas of the REST interface, with the services that only they call.
func (b *backend) newAreas(ctx context.Context, in edgeServices) (areas api.Areas, err error) {
	s := b.settings

	scheduled, err := b.newSchedules(in.chats)
	if err != nil {
		return areas, err
	}

	board, err := b.newBoard(in.chats)
	if err != nil {
		return areas, err
	}

	compute, err := b.newCompute(in.toolServers)
	if err != nil {
		return areas, err
	}

	prod, err := b.newProduction(in.shown.registry, in.shown.skills)
	if err != nil {
		return areas, err
	}

	dags, err := b.newDAGRuns(in.chats, prod)
	if err != nil {
		return areas, err
	}

	operated := b.newOperator(in.chats, scheduled, board)
	deleter := b.sessionDeleter()

	sessions := apiaccess.Sessions{Store: b.store, Auditor: in.auditor}
	roles := apiaccess.RoleCheck{Solutions: b.solutions, RoleRights: b.DB}
	changes := apiaccess.FileEvents{Store: b.store, Logger: b.logger}
	servers := sessiondetail.ToolServers{Servers: b.toolServers(), Profile: b.Profile}
	views := sessiondetail.SessionViews{
		ToolServers: servers, Context: ctx, Profile: b.Profile, ModelFinder: b.models, Solutions: b.solutions,
		Skills: in.shown.skills, Logger: b.logger,
		Setup: sessiondetail.SessionSetup{
			DefaultModel: s.Model, Tools: b.toolNames(in.shown.registry),
			PromptDigest: prompt.Digest, SandboxImage: s.SandboxImage, Network: s.SandboxNetwork,
		},
	}
	follow := func(ctx context.Context, sessionID domain.SessionID, after *uint64) (session.Subscription, error) {
		return in.hub.Follow(ctx, sessionID, after)
	}
	client := s.clientConfig()

	return api.Areas{
		System: system.API{
			Version: system.Version{Version: release.Version, MinSDK: release.MinSDK}, Client: client, DefaultModel: s.Model,
			Models: b.models, ModelFinder: b.models, Speech: b.speechPort(), Readiness: b.ready, Diagnostics: b,
			Compute: compute, Runs: operated, Inbox: b.DB, Answers: in.chats,
		},
		Session: session.API{
			Sessions: sessions, Roles: roles, Views: views, Deleter: deleter, Chats: in.chats, Messages: b.DB, Images: b.Objects,
			Streams: follow, Tasks: b.tasks, TaskLists: b.store, Compactor: b.compactions, Contexts: in.contexts, Tokens: b.tokens,
			Annotations: b.DB, Solutions: b.DB, History: pastOf{b.history, in.contexts}, Replays: b.replays, ExtraInfos: b.DB, Transfers: transfers{b.transfers},
			Shares: b.DB, EnvBuckets: b.buckets, Sharing: client.PublicSharingEnabled,
		},
		Files: files.API{
			Sessions: sessions, Changes: changes, Workspaces: sessionfiles.Files{Store: b.workspace}, Checkpoints: b.history,
			Apps: b.apps, AppRecords: b.DB,
		},
		Account: account.API{
			Sessions: sessions, Keys: b.store, Users: b.store, Budgets: b.DB, Usages: b.DB, EnvBuckets: b.buckets, NetworkRules: b.DB,
			Administration: administration{b.DB, in.signIn}, UserSettings: b.DB, Workers: in.toolServers,
		},
		Library: library.API{
			Sessions: sessions, Changes: changes, Roles: roles, Servers: servers, Workers: in.toolServers,
			Memories: b.DB, Skills: in.shown.skills, Registry: skillregistry.New(s.RegistryURL), GIS: b.gis,
		},
		Production: production.API{
			Sessions: sessions, Roles: roles, Views: views, Deleter: deleter,
			ProdSolutions: b.DB, Production: prod, DAGRuns: dags, DAGRunRecords: b.DB,
			Schedules: scheduled, Agents: b.agents, Instances: b.agents, Webhooks: b.webhooks, Boards: b.DB, Board: board,
		},
	}, nil
}

// newCompute builds the service of compute environments.
func (b *backend) newCompute(toolServers mcp.Remote) (*compute.Service, error) {
	return compute.New(compute.Config{Store: b.DB, Tasks: b.tasks, ToolServers: toolServers, Version: b.settings.computeVersion()})
}
