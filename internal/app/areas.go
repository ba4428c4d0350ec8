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
	"everloop/infra/postgres/conversation"
	"everloop/infra/skillregistry"
	"everloop/infra/workspace/sessionfiles"
	"everloop/internal/release"
	"everloop/realtime"
	"everloop/service/annotations"
	"everloop/service/compute"
)

// edgeServices are the services that the areas of the REST interface share with the other
// parts of the API server.
type edgeServices struct {
	auditor     *auth.Auditor
	contexts    contexts
	shown       shownTools
	signIn      signIn
	toolServers mcp.Remote
	hub         *realtime.Hub
}

// newAreas builds the areas of the REST interface, with the services that only they call.
func (b *backend) newAreas(ctx context.Context, in edgeServices) (areas api.Areas, err error) {
	s := b.settings

	compute, err := b.newCompute(in.toolServers)
	if err != nil {
		return areas, err
	}

	documents := in.shown.documents

	dags, err := b.newDAGRuns(documents)
	if err != nil {
		return areas, err
	}

	scheduled, err := b.newSchedules(dags)
	if err != nil {
		return areas, err
	}

	operated := b.newOperator(scheduled, dags)
	deleter := b.sessionDeleter()

	rows := b.store.SessionStore()
	people := b.accounts
	reader := apiaccess.Sessions{Store: rows, Auditor: in.auditor}
	roles := apiaccess.RoleCheck{Solutions: b.solutions, RoleRights: people}
	changes := apiaccess.FileEvents{Store: rows, Logger: b.logger}
	servers := sessiondetail.ToolServers{Servers: b.toolServers, Profile: b.Profile}
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
			Models: b.models, Speech: b.speechPort(), Readiness: b.ready, Configuration: b.Configuration, Checks: b.Checks,
			Compute: compute, Runs: operated, Inbox: conversation.NewBase(b.DB.DB), Answer: b.chats.AnswerQuestion,
		},
		Session: session.API{
			Sessions: reader, Roles: roles, Views: views, Deleter: deleter.DeleteSession, Chats: b.chats, Messages: b.DB,
			Image: b.Objects.Image, Streams: follow, Tasks: b.tasks, Compactor: b.compactions, Tokens: b.tokens,
			ContextStats: in.contexts.ContextStats, CountCompactions: b.DB.CountCompactions,
			Annotations: annotations.New(b.DB.DB), ProdSolution: documents.ProdSolution, History: pastOf{b.history, in.contexts},
			Replays: b.replays, Transfers: transfers{b.transfers}, Shares: b.DB, EnvBuckets: b.buckets,
			Sharing: client.PublicSharingEnabled,
		},
		Files: files.API{
			Sessions: reader, Changes: changes, Workspaces: sessionfiles.Files{Store: b.workspace}, OpenFile: b.history.OpenFile,
			Apps: b.apps,
		},
		Account: account.API{
			Sessions: reader, Accounts: people, EnvBuckets: b.buckets, Workers: in.toolServers,
			TokenStates: administration{people, in.signIn}.TokenStates,
		},
		Library: library.API{
			Sessions: reader, Changes: changes, Roles: roles, Servers: servers, Workers: in.toolServers,
			Memories: b.memories, Skills: in.shown.skills, Registry: skillregistry.New(s.RegistryURL), GIS: b.gis,
		},
		Production: production.API{
			Sessions:      reader,
			Roles:         roles,
			Views:         views,
			Deleter:       deleter.DeleteSession,
			Production:    documents,
			DAGRuns:       dags,
			DAGRunRecords: dags,
			Schedules:     scheduled,
			Agents:        b.agents,
			Triggers:      b.triggers.With(b.newTargets(dags)),
			Webhooks:      b.webhooks,
			Boards:        b.board,
			Board:         b.board,
		},
	}, nil
}

// newCompute builds the service of compute environments.
func (b *backend) newCompute(toolServers mcp.Remote) (*compute.Service, error) {
	return compute.New(compute.Config{Store: b.DB, Tasks: b.tasks, ToolServers: toolServers, Version: b.settings.computeVersion()})
}
