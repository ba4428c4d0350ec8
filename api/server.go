// Package api is the REST edge: it parses requests, calls a port, and answers.
// Its types are the contract: validation and the OpenAPI document come from them.
// It must not know an engine; everything it needs is a port in this package, and
// the wiring supplies it. One file is one resource area, with one struct that holds
// the ports of the area; an operation is one literal in that file. What surrounds
// every operation is in httpx, the document in openapi.
package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"everloop/api/access"
	"everloop/api/account"
	"everloop/api/files"
	"everloop/api/httpx"
	"everloop/api/library"
	"everloop/api/openapi"
	"everloop/api/production"
	"everloop/api/session"
	"everloop/api/sessiondetail"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/skill"
	"everloop/internal/clients"
	"everloop/internal/hosts"
)

// Config is what the interface is made of. The ports are required unless they
// say otherwise.
type Config struct {
	// Context ends the streams when it ends: pass the one that a shutdown cancels.
	Context context.Context

	Auth           *auth.Authenticator
	Auditor        *auth.Auditor // nil: nothing is recorded
	Store          Store
	Messages       session.Messages
	Chats          session.Chats
	Streams        session.Streams
	Tasks          session.Tasks
	Workspaces     files.Workspaces
	Images         session.Images
	Models         Models
	Speech         Speech // nil: no model for speech is configured
	Deleter        access.Deleter
	Compactor      session.Compactor
	Contexts       session.Contexts
	Tokens         session.Tokens
	ModelFinder    sessiondetail.ModelFinder
	Memories       library.Memories
	Annotations    session.Annotations
	History        session.History
	Checkpoints    files.Checkpoints
	Solutions      access.Solutions
	Skills         library.Skills
	Budgets        account.Budgets
	Usages         account.Usages
	EnvBuckets     access.EnvBuckets
	Administration account.Administration
	Diagnostics    Diagnostics
	Registry       library.Registry
	Apps           files.Apps
	AppRecords     files.AppRecords
	Compute        ComputeEnvironment
	Runs           OperatorRuns
	Inbox          Inbox
	GIS            func(ctx context.Context) skill.GISStatus
	UserSettings   account.UserSettings
	NetworkRules   account.NetworkRules
	ProdSolutions  production.ProdSolutions
	Production     production.Production
	Schedules      production.Schedules
	Agents         production.Agents
	Webhooks       production.Webhooks
	Answers        Answers
	DAGRuns        production.DAGRuns
	DAGRunRecords  production.DAGRunRecords
	Boards         production.Boards
	Board          production.Board
	Instances      production.InstanceReader
	Replays        session.Replays
	Shares         session.Shares
	ExtraInfos     session.ExtraInfos
	Transfers      session.Transfers
	// Profile says how the agent of a session is set up.
	Profile    func(domain.Session) domain.Profile
	RoleRights access.RoleRights
	MCP        sessiondetail.MCPServers
	MCPWorkers sessiondetail.MCPWorkers
	Readiness  Readiness // nil: always ready
	// Room fails while there is no room for temporary files; nil: there is always.
	Room func() error
	// Rights carries changes of rights to open streams here and in other processes;
	// nil: to those of this interface alone.
	Rights *auth.Changes

	Holder      string // see httpx.Config.Holder
	Version     Version
	Client      ClientConfig
	Setup       sessiondetail.SessionSetup // what every session is set up with
	Hosts       hosts.List                 // names that requests may name besides those that hosts.List allows
	Origins     []string                   // origins that browsers may call from, as https://desktop.example
	Limiter     *auth.Limiter              // shared with the other edge; nil: no limit
	MaxBody     int                        // bytes of a request that are read at all; 0: 17 MB
	BodyBudget  int64                      // bytes of all bodies that are in memory at once; 0: no bound
	Proxies     clients.Proxies            // whose X-Forwarded-For is believed
	Logger      *slog.Logger               // nil: the default one
	Metrics     *prometheus.Registry
	Tracer      trace.Tracer  // of requests; nil: they are not traced
	StreamPulse time.Duration // between keep-alive comments on a stream; 0: 15 s
}

// area is a group of operations on one kind of resource, with the ports that they use.
type area interface {
	Register(r *httpx.Server)
}

// New makes the REST interface as a Fiber application, on which the wiring may
// mount further transports before it listens.
func New(cfg Config) *fiber.App {
	if cfg.Context == nil {
		cfg.Context = context.Background()
	}

	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}

	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}

	if cfg.Rights == nil {
		cfg.Rights = auth.NewChanges(nil, cfg.Logger)
	}

	cfg.Rights.Watch(cfg.Auth.Forget)

	return newServer(cfg).App
}

// newServer registers every operation and completes the document of them.
func newServer(cfg Config) *httpx.Server {
	server := httpx.NewServer(httpx.Config{
		Context:     cfg.Context,
		Auth:        cfg.Auth,
		Auditor:     cfg.Auditor,
		Idempotency: cfg.Store,
		Holder:      cfg.Holder,
		Limiter:     cfg.Limiter,
		Rights:      cfg.Rights,
		Hosts:       cfg.Hosts,
		Origins:     cfg.Origins,
		Proxies:     cfg.Proxies,
		MaxBody:     cfg.MaxBody,
		BodyBudget:  cfg.BodyBudget,
		StreamPulse: cfg.StreamPulse,
		Logger:      cfg.Logger,
		Metrics:     cfg.Metrics,
		Tracer:      cfg.Tracer,
	}, openapi.Frame(cfg.Version.Version))
	for _, area := range areas(cfg, server) {
		area.Register(server)
	}

	openapi.Complete(server.API.OpenAPI())

	return server
}

// areas gives each area its ports. Of routes that match the same path, the one that
// is registered first answers.
func areas(cfg Config, server *httpx.Server) []area {
	sessions := access.Sessions{Store: cfg.Store, Auditor: cfg.Auditor}
	following := session.Follower{Streams: server.Streams, Subscribe: cfg.Streams, Auth: cfg.Auth, Store: cfg.Store}
	written := session.Transcripts{Messages: cfg.Messages, Logger: cfg.Logger}
	changes := access.FileEvents{Store: cfg.Store, Logger: cfg.Logger}
	roles := access.RoleCheck{Solutions: cfg.Solutions, RoleRights: cfg.RoleRights}
	servers := sessiondetail.ToolServers{Servers: cfg.MCP, Profile: cfg.Profile}
	views := sessiondetail.SessionViews{
		ToolServers: servers, Context: cfg.Context, Setup: cfg.Setup, Profile: cfg.Profile, ModelFinder: cfg.ModelFinder,
		Solutions: cfg.Solutions, Skills: cfg.Skills, Logger: cfg.Logger,
	}
	designed := production.ProdSolutionsAPI{
		Sessions: sessions, ProdSolutions: cfg.ProdSolutions, Production: cfg.Production, Runs: cfg.DAGRuns,
	}

	return []area{
		&metaAPI{cfg.Version, cfg.Client, cfg.Setup.DefaultModel, cfg.Models, cfg.ModelFinder, cfg.Readiness, cfg.Metrics},
		&speechAPI{cfg.Speech, semaphore.NewWeighted(maxTranscriptions), &shares{}, cfg.Room},
		&account.MeAPI{},
		&session.SessionsAPI{Sessions: sessions, RoleCheck: roles, SessionViews: views, Deleter: cfg.Deleter, Rights: cfg.Rights},
		&session.MessagesAPI{Sessions: sessions, Transcripts: written},
		&files.WorkspaceAPI{Sessions: sessions, FileEvents: changes, Workspaces: cfg.Workspaces, Logger: cfg.Logger},
		&session.AttachmentsAPI{Sessions: sessions, Images: cfg.Images},
		&session.ChatAPI{Sessions: sessions, Follower: following, Chats: cfg.Chats},
		&session.EventsAPI{Sessions: sessions, Follower: following},
		&session.TasksAPI{Sessions: sessions, Tasks: cfg.Tasks, Store: cfg.Store},
		&session.ContextAPI{
			Sessions: sessions, Compactor: cfg.Compactor, Contexts: cfg.Contexts, Tokens: cfg.Tokens, ModelFinder: cfg.ModelFinder,
		},
		&account.KeysAPI{Store: cfg.Store, Rights: cfg.Rights},
		&library.MemoriesAPI{Memories: cfg.Memories},
		&session.AnnotationsAPI{Sessions: sessions, Annotations: cfg.Annotations, Solutions: cfg.ProdSolutions},
		&library.ToolServersAPI{
			Sessions:    sessions,
			ToolServers: servers,
			Workers:     cfg.MCPWorkers,
			Auditor:     cfg.Auditor,
			Logger:      cfg.Logger,
		},
		&session.HistoryAPI{Sessions: sessions, History: cfg.History},
		&files.CheckpointFilesAPI{Sessions: sessions, Checkpoints: cfg.Checkpoints},
		&library.SolutionsAPI{Solutions: cfg.Solutions, RoleRights: cfg.RoleRights},
		&library.SkillsAPI{Sessions: sessions, FileEvents: changes, Skills: cfg.Skills},
		&account.BudgetsAPI{Budgets: cfg.Budgets},
		&account.UsageAPI{Sessions: sessions, Usages: cfg.Usages},
		&account.EnvBucketsAPI{EnvBuckets: cfg.EnvBuckets},
		&account.NetworkRulesAPI{NetworkRules: cfg.NetworkRules},
		&designed,
		&production.DagRunsAPI{
			Solutions: &designed, Runs: cfg.DAGRuns, Store: cfg.DAGRunRecords, Auth: cfg.Auth, Streams: server.Streams,
		},
		&production.SchedulesAPI{Schedules: cfg.Schedules},
		&production.AgentsAPI{Agents: cfg.Agents, Solutions: cfg.Solutions, RoleRights: cfg.RoleRights},
		&production.AgentInstancesAPI{Agents: cfg.Agents},
		&production.WebhooksAPI{Webhooks: cfg.Webhooks},
		&production.ProdWorkspacesAPI{
			Sessions: sessions, RoleCheck: roles, SessionViews: views, Boards: cfg.Boards, Board: cfg.Board,
			Instances: cfg.Instances, Deleter: cfg.Deleter, Rights: cfg.Rights,
		},
		&production.IssuesAPI{Boards: cfg.Boards, Board: cfg.Board},
		&diagnosticsAPI{cfg.Diagnostics, server.Streams},
		&library.RegistryAPI{Registry: cfg.Registry, Gis: cfg.GIS},
		&files.AppsAPI{Sessions: sessions, Apps: cfg.Apps, AppRecords: cfg.AppRecords},
		&computeAPI{cfg.Compute},
		&runsAPI{cfg.Runs, cfg.Inbox, cfg.Answers},
		&account.AdministrationAPI{Administration: cfg.Administration, Rights: cfg.Rights},
		&account.PreferencesAPI{UserSettings: cfg.UserSettings},
		&account.UsersAPI{Store: cfg.Store, Rights: cfg.Rights, Workers: cfg.MCPWorkers, Logger: cfg.Logger},
		&session.ReplayAPI{Sessions: sessions, Replays: cfg.Replays},
		&session.ShareAPI{
			Sessions: sessions, Transcripts: written, Shares: cfg.Shares, Images: cfg.Images, EnvBuckets: cfg.EnvBuckets,
			Enabled: cfg.Client.PublicSharingEnabled,
		},
		&session.ExtraInfoAPI{Sessions: sessions, ExtraInfos: cfg.ExtraInfos},
		&session.TransferAPI{
			Sessions: sessions, RoleCheck: roles, SessionViews: views, Transfers: cfg.Transfers, Logger: cfg.Logger, Room: cfg.Room,
		},
		&documentAPI{},
	}
}
