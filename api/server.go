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

	"everloop/api/httpx"
	"everloop/api/openapi"
	"everloop/auth"
	"everloop/domain"
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
	Messages       Messages
	Chats          Chats
	Streams        Streams
	Tasks          Tasks
	Workspaces     Workspaces
	Images         Images
	Models         Models
	Speech         Speech // nil: no model for speech is configured
	Deleter        Deleter
	Compactor      Compactor
	Contexts       Contexts
	Tokens         Tokens
	ModelFinder    ModelFinder
	Memories       Memories
	Annotations    Annotations
	History        History
	Solutions      Solutions
	Skills         Skills
	Budgets        Budgets
	Usages         Usages
	EnvBuckets     EnvBuckets
	Administration Administration
	Diagnostics    Diagnostics
	Registry       Registry
	Apps           Apps
	AppRecords     AppRecords
	Compute        ComputeEnvironment
	Runs           OperatorRuns
	Inbox          Inbox
	GIS            func(ctx context.Context) domain.GISStatus
	UserSettings   UserSettings
	NetworkRules   NetworkRules
	ProdSolutions  ProdSolutions
	Production     Production
	Schedules      Schedules
	Agents         Agents
	Webhooks       Webhooks
	Answers        Answers
	DAGRuns        DAGRuns
	DAGRunRecords  DAGRunRecords
	Boards         Boards
	Board          Board
	Instances      InstanceReader
	Replays        Replays
	Shares         Shares
	ExtraInfos     ExtraInfos
	Transfers      Transfers
	// Profile says how the agent of a session is set up.
	Profile    func(domain.Session) domain.Profile
	RoleRights RoleRights
	MCP        MCPServers
	MCPWorkers MCPWorkers
	Readiness  Readiness // nil: always ready
	// Rights carries changes of rights to open streams here and in other processes;
	// nil: to those of this interface alone.
	Rights *auth.Changes

	Version     Version
	Client      ClientConfig
	Setup       SessionSetup    // what every session is set up with
	Hosts       hosts.List      // names that requests may name besides those that hosts.List allows
	Origins     []string        // origins that browsers may call from, as https://desktop.example
	Limiter     *auth.Limiter   // shared with the other edge; nil: no limit
	MaxBody     int             // bytes of a request that are read at all; 0: 17 MB
	BodyBudget  int64           // bytes of all bodies that are in memory at once; 0: no bound
	Proxies     clients.Proxies // whose X-Forwarded-For is believed
	Logger      *slog.Logger    // nil: the default one
	Metrics     *prometheus.Registry
	Tracer      trace.Tracer  // of requests; nil: they are not traced
	StreamPulse time.Duration // between keep-alive comments on a stream; 0: 15 s
}

// area is a group of operations on one kind of resource, with the ports that they use.
type area interface {
	register(r *httpx.Server)
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
		Context: cfg.Context, Auth: cfg.Auth, Auditor: cfg.Auditor, Idempotency: cfg.Store, Limiter: cfg.Limiter, Rights: cfg.Rights,
		Hosts: cfg.Hosts, Origins: cfg.Origins, Proxies: cfg.Proxies, MaxBody: cfg.MaxBody, BodyBudget: cfg.BodyBudget,
		StreamPulse: cfg.StreamPulse, Logger: cfg.Logger, Metrics: cfg.Metrics, Tracer: cfg.Tracer,
	}, openapi.Frame(cfg.Version.Version))
	for _, area := range areas(cfg, server) {
		area.register(server)
	}

	openapi.Complete(server.API.OpenAPI())

	return server
}

// areas gives each area its ports. Of routes that match the same path, the one that
// is registered first answers.
func areas(cfg Config, server *httpx.Server) []area {
	access := access{cfg.Store, cfg.Auditor}
	following := follower{server.Streams, cfg.Streams, cfg.Auth, cfg.Store}
	transcripts := transcripts{cfg.Messages, cfg.Logger}
	files := fileEvents{cfg.Store, cfg.Logger}
	roles := roleCheck{cfg.Solutions, cfg.RoleRights}
	servers := toolServers{cfg.MCP, cfg.Profile}
	views := sessionViews{
		toolServers: servers, context: cfg.Context, setup: cfg.Setup, profile: cfg.Profile, modelFinder: cfg.ModelFinder,
		solutions: cfg.Solutions, skills: cfg.Skills, logger: cfg.Logger,
	}

	return []area{
		&metaAPI{cfg.Version, cfg.Client, cfg.Setup.DefaultModel, cfg.Models, cfg.ModelFinder, cfg.Readiness, cfg.Metrics},
		&speechAPI{cfg.Speech, semaphore.NewWeighted(maxTranscriptions)},
		&meAPI{},
		&sessionsAPI{access: access, roleCheck: roles, sessionViews: views, deleter: cfg.Deleter, rights: cfg.Rights},
		&messagesAPI{access, transcripts},
		&filesAPI{access, files, cfg.Workspaces, cfg.Logger},
		&attachmentsAPI{access, cfg.Images},
		&chatAPI{access, following, cfg.Chats},
		&eventsAPI{access, following},
		&tasksAPI{access, cfg.Tasks, cfg.Store},
		&contextAPI{access, cfg.Compactor, cfg.Contexts, cfg.Tokens, cfg.ModelFinder},
		&keysAPI{cfg.Store, cfg.Rights},
		&memoriesAPI{cfg.Memories},
		&annotationsAPI{access, cfg.Annotations},
		&toolServersAPI{access, servers, cfg.MCPWorkers, cfg.Auditor, cfg.Logger},
		&historyAPI{access, cfg.History},
		&solutionsAPI{cfg.Solutions, cfg.RoleRights},
		&skillsAPI{access, files, cfg.Skills},
		&budgetsAPI{cfg.Budgets},
		&usageAPI{access, cfg.Usages},
		&envBucketsAPI{cfg.EnvBuckets},
		&networkRulesAPI{cfg.NetworkRules},
		&prodSolutionsAPI{access, cfg.ProdSolutions, cfg.Production},
		&dagRunsAPI{&prodSolutionsAPI{access, cfg.ProdSolutions, cfg.Production}, cfg.DAGRuns, cfg.DAGRunRecords, cfg.Auth, server.Streams},
		&schedulesAPI{cfg.Schedules},
		&agentsAPI{cfg.Agents, cfg.Solutions, cfg.RoleRights},
		&agentInstancesAPI{cfg.Agents},
		&webhooksAPI{cfg.Webhooks},
		&prodWorkspacesAPI{access, roles, views, cfg.Boards, cfg.Board, cfg.Instances, cfg.Deleter, cfg.Rights},
		&issuesAPI{cfg.Boards, cfg.Board},
		&diagnosticsAPI{cfg.Diagnostics, server.Streams},
		&registryAPI{cfg.Registry, cfg.GIS},
		&appsAPI{access, cfg.Apps, cfg.AppRecords},
		&computeAPI{cfg.Compute},
		&runsAPI{cfg.Runs, cfg.Inbox, cfg.Answers},
		&administrationAPI{cfg.Administration, cfg.Rights},
		&preferencesAPI{cfg.UserSettings},
		&usersAPI{cfg.Store, cfg.Rights, cfg.MCPWorkers, cfg.Logger},
		&replayAPI{access, cfg.Replays},
		&shareAPI{access, transcripts, cfg.Shares, cfg.Images, cfg.EnvBuckets, cfg.Client.PublicSharingEnabled},
		&extraInfoAPI{access, cfg.ExtraInfos},
		&transferAPI{access, roles, views, cfg.Transfers, cfg.Logger},
		&documentAPI{},
	}
}
