package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/activities"
	"everloop/api"
	"everloop/auth"
	"everloop/domain"
	"everloop/inbox"
	"everloop/infra/mcp"
	"everloop/infra/postgres"
	"everloop/infra/temporal"
	"everloop/infra/workspace/sessionfiles"
	"everloop/realtime"
	"everloop/realtime/sio"
)

// agent is the agent's two doors, REST and Socket.IO, on one address.
type agent struct {
	app     *fiber.App
	sockets *sio.Server
	auth    *auth.Authenticator
	hub     *realtime.Hub
	stop    context.CancelFunc
	done    chan error
}

// newAgent puts the doors together. ready adds what this role has to wait for.
func newAgent(ctx context.Context, b *backend) (*agent, error) {
	s := b.settings
	ctx, stop := context.WithCancel(ctx)
	a := &agent{stop: stop, done: make(chan error, 1), auth: auth.New(b.db, auth.Options{Logger: b.logger})}
	a.hub = realtime.NewHub(realtime.HubConfig{Log: b.log, State: b.db, Logger: b.logger})
	desk := newDesk(b)
	access := access{db: b.db, auth: a.auth}
	protocol := realtime.NewProtocol(realtime.ProtocolConfig{Hub: a.hub, Sessions: access, Desk: desk, Logger: b.logger})
	registry, skills, err := b.shownTools()
	if err != nil {
		return nil, err
	}
	b.history.Tokens = standing{b.contexts(registry)}
	toolServers := mcp.Remote{Conn: b.nats}
	a.app = api.New(api.Config{
		Context: ctx, Logger: b.logger, Metrics: b.metrics, Readiness: b.ready,
		Auth: a.auth, Origins: s.AllowedOrigins, RateLimit: api.RateLimit{PerMinute: s.RateLimit},
		Version: api.Version{Version: version, MinSDK: minSDK},
		Client:  api.ClientConfig{PublicSharingEnabled: s.PublicSharing, MemoryEnabled: true, GISMapURL: s.GISMapURL},
		Setup: api.SessionSetup{
			DefaultModel: s.Model, Tools: b.toolNames(registry),
			PromptDigest: activities.PromptDigest, SandboxImage: "host",
		},

		Store: b.journal, Messages: b.db, Desk: desk, Inbox: b.db, Budgets: b.db, Deleter: newPurger(b, desk),
		Streams: func(ctx context.Context, sessionID string, after *uint64) (api.Subscription, error) {
			return a.hub.Follow(ctx, sessionID, after)
		},
		RightsChanged: protocol.SessionChanged,
		Profile:       b.Profile, Solutions: b.solutions, RoleRights: b.db,
		Models: b.models, ModelFinder: b.models, Tokens: b.tokens, Contexts: b.contexts(registry), Compactor: b.compactions(),

		Workspaces: sessionfiles.Files{Store: b.workspace, Limit: s.WorkspaceBytes}, Images: b.objects,
		Tasks:   b.taskDesk(),
		History: b.history, Replays: b.replayDesk(), Transfers: transfers{b.transferDesk()}, Shares: b.db, ExtraInfos: b.db,
		Apps: b.apps, AppRecords: b.db,
		Skills: skills, Memories: b.db, MCP: b.toolServers(), MCPWorkers: toolServers,

		UserSettings: b.db, EnvBuckets: b.buckets,
		Compute:        &inbox.Compute{Records: b.db, Tasks: b.taskDesk(), ToolServers: toolServers, Version: version},
		Administration: b.db, Diagnostics: b, Runs: temporal.Operator{Client: b.temporal, Chats: desk},
		Registry: registryViews(s.RegistryURL, b.logger), GIS: b.gis,
	})
	a.sockets = sio.New(sio.Options{
		Authenticate: access.handshake, Handler: protocol.SocketHandler(), AllowedOrigins: s.AllowedOrigins, Log: b.logger,
	})
	a.sockets.Mount(a.app)
	go func() { a.done <- a.hub.Run(ctx) }()
	go func() { _ = protocol.Run(ctx) }()
	return a, nil
}

// minSDK is the lowest protocol level that a client must speak.
const minSDK = "2611.0.0"

func newDesk(b *backend) *inbox.Desk {
	return &inbox.Desk{Records: b.journal, Runs: b.runs, Bus: b.signals, Models: b.models, Images: b.objects, History: b.history, Compactions: b.compactions(), Logger: b.logger}
}

func newPurger(b *backend, desk *inbox.Desk) *inbox.Purger {
	return &inbox.Purger{
		Records: b.db, Runs: b.runs, Log: b.log, Files: b.workspace, Objects: b.objects, Tasks: b.taskDesk(), Desk: desk, Logger: b.logger,
		ToolServers: mcp.Remote{Conn: b.nats},
	}
}

// serve answers on the listener until ctx ends, then lets go of every client.
func (a *agent) serve(ctx context.Context, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- a.app.Listener(listener) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	case err = <-a.done:
		if err == nil {
			err = errors.New("the event hub ended")
		}
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	a.stop()
	closing := a.sockets.Close(leave)
	shutdown := a.app.ShutdownWithContext(leave)
	a.auth.Close()
	if errors.Is(shutdown, context.DeadlineExceeded) {
		shutdown = nil // clients that hold on are cut off with the process
	}
	return errors.Join(err, closing, shutdown)
}

// access says who may do what, for the Socket.IO door.
type access struct {
	db   *postgres.DB
	auth *auth.Authenticator
}

const sessionCookie = "everloop_session"

// handshake authenticates a connection by its token, or by its cookie.
func (a access) handshake(ctx context.Context, token string, r *http.Request) (any, error) {
	credentials := auth.Credentials{Bearer: token}
	if cookie, err := r.Cookie(sessionCookie); err == nil && token == "" {
		credentials.Cookie = cookie.Value
	}
	caller, err := a.auth.Authenticate(ctx, credentials)
	if err != nil {
		if e := domain.AsError(err); e.Kind != domain.Unauthenticated {
			return nil, &sio.Refusal{Code: e.Code, Retryable: e.Retryable()}
		}
		return nil, err
	}
	return caller, nil
}

// Role implements realtime.Sessions.
func (a access) Role(ctx context.Context, caller domain.Caller, sessionID string) (domain.ViewerRole, error) {
	_, role, err := a.db.ReadSession(ctx, caller.User, sessionID)
	return role, err
}

// Alive implements realtime.Sessions.
func (a access) Alive(ctx context.Context, caller domain.Caller) (bool, error) {
	return a.auth.Alive(ctx, caller), nil
}
