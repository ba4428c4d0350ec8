package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/api"
	"everloop/api/access"
	"everloop/api/account"
	"everloop/api/files"
	"everloop/api/library"
	apiproduction "everloop/api/production"
	"everloop/api/session"
	"everloop/api/sessiondetail"
	"everloop/api/system"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/skill"
	"everloop/infra/objects"
	"everloop/infra/postgres"
	"everloop/infra/postgres/conversation"
	"everloop/infra/secrets"
	"everloop/infra/skillregistry"
	"everloop/infra/snapshots"
	"everloop/infra/solutions"
	"everloop/infra/tokens"
	"everloop/infra/workspace"
	"everloop/infra/workspace/sessionfiles"
	"everloop/internal/testkit"
	"everloop/service/accounts"
	"everloop/service/agents"
	"everloop/service/annotations"
	"everloop/service/board"
	"everloop/service/compute"
	"everloop/service/dagruns"
	nodefiles "everloop/service/files"
	"everloop/service/memories"
	"everloop/service/production"
	"everloop/service/schedules"
	"everloop/service/skills"
	"everloop/service/targets"
	"everloop/service/toolservers"
	"everloop/service/triggers"
	"everloop/service/webhooks"
)

// world is the interface on its own port, with real records and files, and
// three people who use it.
type world struct {
	t       *testing.T
	url     string
	db      *postgres.DB
	log     *syncBuffer
	chats   *fakeChats
	streams *streams
	turns   *turns
	tasks   *tasks
	models  *models
	deleted *deleter
	lookers *lookers
	down    map[string]error
	files   nodefiles.Carrier

	ann, bob, root string // their keys
	annID          string
}

// parts are what the interface is built of.
type parts struct {
	api.Config
	api.Areas

	db    *postgres.DB
	store *postgres.Store
}

// newWorld starts the interface; change may set what a test needs otherwise.
func newWorld(t *testing.T, change ...func(*parts)) *world {
	t.Helper()
	return newWorldOn(t, func(l net.Listener) net.Listener { return l }, change...)
}

// newWorldOn is newWorld with a listener that on makes of the plain one.
func newWorldOn(t *testing.T, on func(net.Listener) net.Listener, change ...func(*parts)) *world {
	t.Helper()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 8})
	bucket := testkit.Objects(t)
	stored, err := objects.Open(t.Context(), objects.Config{
		Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	require.NoError(t, err)

	workspaces := workspace.New(t.TempDir())
	w := &world{
		t:  t,
		db: db,
		files: nodefiles.Carrier{
			Workspaces: workspaces, Snapshots: snapshots.New(snapshots.Config{Objects: stored, SpoolDir: t.TempDir()}),
		},
		log:     &syncBuffer{},
		chats:   &fakeChats{},
		turns:   &turns{},
		tasks:   &tasks{},
		models:  &models{},
		deleted: &deleter{},
		lookers: &lookers{},
		streams: newStreams(),
		down:    map[string]error{},
	}
	logger := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	users := accounts.New(db.DB)
	authenticator := auth.New(users, auth.Options{Logger: logger})
	t.Cleanup(authenticator.Close)

	ctx, shutDown := context.WithCancel(context.Background())
	box, err := secrets.NewBox(boxKey)
	require.NoError(t, err)
	solved, err := solutions.Load("")
	require.NoError(t, err)
	environments, err := compute.New(compute.Config{Store: db, Tasks: &stopper{}, ToolServers: &stopper{}, Version: "1"})
	require.NoError(t, err)
	skilled, err := skills.New(skills.Config{Dir: t.TempDir(), Workspaces: workspaces, Store: skills.NewStore(db.DB), Logger: logger})
	require.NoError(t, err)
	prod := production.New(production.Deps{
		DB: db.DB, Agents: agents.NewStore(db.DB), Skills: skilled, NodeTools: nodeTools,
	})
	agentService := agents.New(agents.Deps{
		DB: db.DB, Solutions: solved, Models: w.models, StartTask: noEngine{}.StartTask, Logger: logger,
	})
	hooks := webhooks.New(webhooks.Deps{DB: db.DB, Box: box, Logger: logger})
	dags, err := dagruns.New(
		dagruns.Deps{
			DB:          db.DB,
			Sessions:    db,
			Files:       w.files,
			Runs:        noEngine{},
			Chats:       w.chats,
			Production:  prod,
			Agents:      agentService,
			Events:      noEngine{},
			Logger:      logger,
			CodeTimeout: 1,
		},
	)
	require.NoError(t, err)
	issues := board.New(board.Deps{
		DB:           db.DB,
		StartRun:     noEngine{}.StartIssueRun,
		NotifyWaiter: noEngine{}.NotifyWaiter,
		Chats:        w.chats,
		Agents:       agentService,
		Logger:       logger,
	})
	startable := targets.New(targets.Deps{Chats: w.chats, Agents: agentService, DAGs: dags, Board: issues})
	triggered := triggers.New(triggers.Deps{
		DB: db.DB, Box: box, StartDelivery: noEngine{}.StartTrigger, Logger: logger,
	}).With(startable)
	scheduled, err := schedules.New(
		schedules.Config{
			Store: db, Engine: noEngine{}, Chats: w.chats, Models: w.models, Agents: agentService, Logger: logger,
			Targets: startable,
		},
	)
	require.NoError(t, err)

	store := postgres.NewStore(db, nowhere{}, logger)
	auditor := auth.NewAuditor(users, logger, nil)
	vault := toolservers.New(db.DB, box)
	buckets := secrets.Buckets{Store: users, Box: box}
	profile := func(s domain.Session) domain.Profile {
		return solved.Profile(domain.Profile{MaxSteps: 200, Compaction: domain.DefaultCompaction}, s)
	}
	rows := store.SessionStore()
	people := users
	reader := access.Sessions{Store: rows, Auditor: auditor}
	roles := access.RoleCheck{Solutions: solved, RoleRights: people}
	changes := access.FileEvents{Store: rows, Logger: logger}
	servers := sessiondetail.ToolServers{Servers: vault, Profile: profile}
	views := sessiondetail.SessionViews{
		ToolServers: servers, Context: ctx, Profile: profile, ModelFinder: w.models, Solutions: solved, Skills: skilled, Logger: logger,
		Setup: sessiondetail.SessionSetup{
			DefaultModel: "m-1",
			Network:      domain.NetworkRules,
			PromptDigest: func(mode domain.Mode, p domain.Profile) string { return string(mode) + ":" + p.Instructions },
			Tools: func(_ context.Context, session domain.Session) []string {
				return slices.DeleteFunc(
					[]string{"Bash", "Read"},
					func(tool string) bool { return slices.Contains(session.DisableTools, tool) },
				)
			},
		},
	}
	cfg := parts{
		db: db, store: store,
		Config: api.Config{Context: ctx, Version: "2026.11.21", Auth: authenticator, Auditor: auditor, Idempotency: users, Logger: logger},
	}
	cfg.System = system.API{
		Version: system.Version{Version: "2026.11.21", MinSDK: "1"}, Client: system.ClientConfig{PublicSharingEnabled: true},
		DefaultModel: "m-1", Models: w.models, Speech: &parrot{},
		Configuration: diagnostics{}.Configuration, Checks: diagnostics{}.Checks,
		Readiness: func(context.Context) map[string]error { return w.down },
		Compute:   environments, Runs: &engine{ended: map[string]string{}}, Inbox: conversation.NewBase(db.DB),
		Answer: w.chats.AnswerQuestion,
	}
	cfg.Session = session.API{
		Sessions:         reader,
		Roles:            roles,
		Views:            views,
		Deleter:          w.deleted.DeleteSession,
		Chats:            w.chats,
		Messages:         w.turns,
		Image:            oneImage,
		Streams:          w.streams.subscribe,
		Tasks:            w.tasks,
		Compactor:        contexts{},
		ContextStats:     contexts{}.ContextStats,
		CountCompactions: db.CountCompactions,
		Tokens:           tokens.New(nil, nil),
		Annotations: annotations.New(
			db.DB,
		),
		ProdSolution: prod.ProdSolution,
		History:      past{},
		Replays:      played{},
		Transfers:    carried{},
		Shares:       shown{},
		EnvBuckets:   buckets,
		Sharing:      true,
	}
	cfg.Files = files.API{
		Sessions: reader, Changes: changes, Workspaces: sessionfiles.Files{Store: workspaces}, OpenFile: past{}.OpenFile, Apps: site{},
	}
	cfg.Account = account.API{
		Sessions: reader, Accounts: people, EnvBuckets: buckets, Workers: w.lookers, TokenStates: people.TokenStates,
	}
	cfg.Library = library.API{
		Sessions: reader,
		Changes:  changes,
		Roles:    roles,
		Servers:  servers,
		Workers:  w.lookers,
		Memories: memories.New(db.DB),
		Skills:   skilled,
		Registry: skillregistry.New(registryOf(t)),
		GIS:      func(context.Context) skill.GISStatus { return skill.GISStatus{Enabled: true, UpdatedAt: time.Now()} },
	}
	cfg.Production = apiproduction.API{
		Sessions:      reader,
		Roles:         roles,
		Views:         views,
		Deleter:       w.deleted.DeleteSession,
		Production:    prod,
		DAGRuns:       dags,
		DAGRunRecords: dags,
		Schedules:     scheduled,
		Agents:        agentService,
		Triggers:      triggered,
		Webhooks:      hooks,
		Boards:        issues,
		Board:         issues,
	}

	for _, c := range change {
		c(&cfg)
	}

	app := api.New(cfg.Config, cfg.Areas)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	served := make(chan error, 1)
	go func() { served <- app.Listener(on(listener)) }()

	t.Cleanup(func() {
		shutDown()
		require.NoError(t, app.ShutdownWithTimeout(5*time.Minute))
		require.NoError(t, <-served)
	})

	w.url = "http://" + listener.Addr().String()
	w.annID, w.ann = w.person("ann", false)
	_, w.bob = w.person("bob", false)
	_, w.root = w.person("root", true)

	return w
}

func (w *world) person(name string, administrator bool) (id, plaintext string) {
	w.t.Helper()

	user := domain.User{ID: domain.NewID(), Username: name, Administrator: administrator}
	key, plaintext, hash := auth.NewKey(user.ID, "first")
	_, _, err := accounts.New(w.db.DB).CreateUser(w.t.Context(), user, key, hash[:])
	require.NoError(w.t, err)

	return user.ID, plaintext
}

// restricted gives ann a key with scopes.
func (w *world) restricted(scopes ...string) string {
	w.t.Helper()
	key, plaintext, hash := auth.NewKey(w.annID, "restricted")
	key.Scopes = scopes
	_, err := accounts.New(w.db.DB).CreateKey(w.t.Context(), key, hash[:])
	require.NoError(w.t, err)

	return plaintext
}

// session makes a session of ann's.
func (w *world) session(body string) string {
	w.t.Helper()
	r := w.do(http.MethodPost, "/api/sessions", w.ann, body)
	require.Equal(w.t, 200, r.status, r.text)

	return r.json()["session_id"].(string)
}

// reply is an answer, read whole.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	text   string
}

func (r reply) json() map[string]any {
	r.t.Helper()

	var v map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(r.text), &v), r.text)

	return v
}

// with changes a request before it is sent.
type with func(*http.Request)

func header(name, value string) with {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func (w *world) request(method, path, key, body string, changes ...with) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader([]byte(body)))
	require.NoError(w.t, err)

	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}

	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}

	for _, c := range changes {
		c(r)
	}

	return r
}

func (w *world) do(method, path, key, body string, changes ...with) reply {
	w.t.Helper()
	response, err := http.DefaultTransport.RoundTrip(w.request(method, path, key, body, changes...))
	require.NoError(w.t, err)

	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	require.NoError(w.t, err)
	require.NotEmpty(w.t, response.Header.Get("X-Request-Id"), "every answer names its request")
	got := reply{w.t, response.StatusCode, response.Header, string(text)}
	got.hold(method, path)

	return got
}

// problem checks the shape that every error has, and gives its code.
func (r reply) problem(status int) map[string]any {
	r.t.Helper()
	require.Equal(r.t, status, r.status, r.text)
	require.Equal(r.t, "application/problem+json", r.header.Get("Content-Type"), r.text)
	p := r.json()
	require.Equal(r.t, "about:blank", p["type"])
	require.Equal(r.t, http.StatusText(status), p["title"])
	require.EqualValues(r.t, status, p["status"])
	require.NotEmpty(r.t, p["detail"])
	require.Regexp(r.t, `^[a-z][a-z0-9_]*$`, p["code"])
	require.Equal(r.t, r.header.Get("X-Request-Id"), p["request_id"])
	require.IsType(r.t, true, p["retryable"])

	if status == 401 {
		require.Equal(r.t, "Bearer", r.header.Get("WWW-Authenticate"))
	}

	return p
}

func (r reply) code(status int, code string) {
	r.t.Helper()
	require.Equal(r.t, code, r.problem(status)["code"])
}

// fields returns the places that a 422 names.
func (r reply) fields() []string {
	r.t.Helper()

	var out []string

	problem := r.problem(422)
	for _, f := range problem["errors"].([]any) {
		out = append(out, f.(map[string]any)["location"].(string))
	}

	if place, _, named := strings.Cut(problem["detail"].(string), ": "); named && strings.HasPrefix(place, "body.") {
		require.Contains(r.t, out, place, "the detail names a field that the errors do not")
	}

	require.NotContains(r.t, r.text, "2006-01-02", "a layout of Go says nothing to a client")

	return out
}

// picture names the one picture that every session's messages hold here.
const picture = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func oneImage(_ context.Context, _ domain.SessionID, name string) ([]byte, string, error) {
	if name != picture {
		return nil, "", domain.Newf(domain.NotFound, "object_not_found", "the object does not exist")
	}

	return []byte("\x89PNG\r\n"), "image/png", nil
}
