package systemtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"everloop/activities/tools"
	"everloop/activities/tools/agents"
	"everloop/activities/tools/builtin"
	"everloop/companions/mock"
	"everloop/domain"
	"everloop/domain/modelretry"
	"everloop/infra/events"
	"everloop/infra/metrics"
	"everloop/infra/model"
	"everloop/infra/objects"
	"everloop/infra/postgres"
	"everloop/infra/secrets"
	"everloop/infra/snapshots"
	"everloop/infra/temporal"
	"everloop/infra/tokens"
	"everloop/infra/toolbox"
	"everloop/infra/tracing"
	"everloop/infra/workspace"
	"everloop/internal/diskspace"
	"everloop/internal/testkit"
	"everloop/service/accounts"
	prodagents "everloop/service/agents"
	"everloop/service/chat"
	"everloop/service/files"
	"everloop/service/history"
	"everloop/service/recordings"
	"everloop/service/tasks"
	"everloop/service/work"
	"everloop/worker"
)

// patience is how long a test waits for what is to come: as long as a slow
// machine may need for a chat of many steps.
const patience = 5 * time.Minute

// stack is the service without its edges: database, event log, workflows, a worker and a
// scripted model, on real engines.
type stack struct {
	checked sync.Map // by session, the seq up to which its events were checked against their schema
	t       *testing.T
	db      *postgres.DB
	journal *postgres.Store
	log     *events.Log
	chats   *chat.Service
	agents  *prodagents.Service // set by newBoard
	logger  *slog.Logger

	chatConfig chat.Config // of chats; see configure
	compacting *chat.Compactions
	model      *mock.Service
	caller     domain.Caller

	callsPerDay atomic.Int64 // of a user; 0: no limit
	client      client.Client
	queue       string
	acts        worker.Chats
	tasks       *tasks.Service
	runner      *tasks.Runner
	worker      sdkworker.Worker
	runs        temporal.Runs
	bus         *events.Signals
	dir         string        // of the sessions' workspaces
	files       files.Carrier // of the sessions' workspaces
	objects     *objects.Store

	reconciler *work.Reconciler
	waiters    *work.Waiters

	mu          sync.Mutex
	found       []string
	marks       func(context.Context) context.Context // of workers that start later; see worker.Options.Context
	stopTimeout time.Duration                         // of workers that start later; 0: a second
}

func newStack(t *testing.T) *stack {
	t.Helper()
	return newStackBehind(t, func(mock http.Handler) http.Handler { return mock })
}

// newStackBehind puts something between the service and the scripted model.
func newStackBehind(t *testing.T, front func(mock http.Handler) http.Handler) *stack {
	t.Helper()
	return newStackOn(t, front, testkit.Events(t), nil, nil)
}

// newStackOn is newStackBehind with NATS at a URL, and shows a tracer the statements
// that are sent to PostgreSQL; nil: they are not collected. Where traces are given, it is traced.
func newStackOn(
	t *testing.T, front func(mock http.Handler) http.Handler, natsURL string, tracer pgx.QueryTracer, traces *tracing.Tracing,
) *stack {
	t.Helper()

	options := postgres.Options{MaxConns: 8, Tracer: tracer} // all tests share one server
	if tracer != nil {
		options.LeaseConns = 1 // as in the service: their statements are not shown
	}

	return newStackOver(t, testkit.OpenDatabase(t, options), front, natsURL, traces)
}

// newStackOver is newStackOn with an open database.
func newStackOver(
	t *testing.T, db *postgres.DB, front func(mock http.Handler) http.Handler, natsURL string, traces *tracing.Tracing,
) *stack {
	t.Helper()
	ctx := t.Context()
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := &stack{t: t, logger: logger, queue: testkit.Prefix(t)}

	nc, err := nats.Connect(natsURL, nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	prefix := testkit.Prefix(t)
	s.log, err = events.Open(ctx, nc, events.Config{Stream: prefix, SubjectPrefix: prefix})
	require.NoError(t, err)
	signals, err := events.OpenSignals(ctx, nc)
	require.NoError(t, err)
	t.Cleanup(signals.Close)

	s.db, s.journal = db, postgres.NewStore(db, s.log, logger)
	go s.journal.Run(ctx)

	bucket := testkit.Objects(t)
	store, err := objects.Open(
		ctx,
		objects.Config{Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey},
	)
	require.NoError(t, err)

	s.model = mock.New(mock.Config{KeepRequests: true})
	server := httptest.NewServer(front(s.model.Handler()))
	t.Cleanup(server.Close)
	models := model.New(model.Config{BaseURL: server.URL, Limits: db, Tracing: traces})

	temporalOptions := testkit.Temporal(t)
	temporalOptions.Interceptors, err = traces.Interceptors()
	require.NoError(t, err)
	s.client, err = temporal.Dial(ctx, temporalOptions, logger)
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	runs := temporal.Runs{
		Client: s.client, Queue: s.queue, Namespace: temporalOptions.Namespace, Subjects: work.NewStore(db.DB),
	}

	s.dir = t.TempDir()
	workspaces := toolbox.Files{Store: workspace.New(s.dir)}
	s.objects = store
	s.files = files.Carrier{
		Workspaces: workspaces.Store,
		Snapshots:  snapshots.New(snapshots.Config{Objects: store, SpoolDir: t.TempDir(), Logger: logger}),
	}
	s.tasks = tasks.New(tasks.Deps{
		DB: db.DB, Outbox: s.journal.Outbox, Chats: s.journal.ChatStore(), Runs: runs, Signals: signals, Workspaces: noFiles{},
		Logger: logger,
	})
	s.runner = &tasks.Runner{
		Store:      s.tasks.Store,
		Signals:    signals,
		Sandbox:    plainShell{},
		Workspaces: toolbox.Files{Store: workspace.New(t.TempDir())},
		Root:       workspaces.Root,
		Env:        secrets.Buckets{Store: accounts.New(db.DB)}.ToolEnv,
		Logger:     logger,
	}
	registry, err := builtin.New(tools.Deps{Sandbox: plainShell{}, Background: s.tasks})
	require.NoError(t, err)
	types, err := agents.NewAgents(tools.Deps{Workspaces: noFiles{}, Background: s.tasks})
	require.NoError(t, err)
	registry.Provide(types)
	s.acts = worker.NewChats(worker.ChatConfig{
		Conversation: s.journal.ChatStore(),
		Transcripts:  s.journal.Transcripts(),
		Failovers:    db.Failovers,
		Log:          s.log,
		Signals:      signals,
		Objects:      store,
		Models:       models,
		Tokens:       tokens.New(db, logger),
		Recall:       recalled,
		Tools:        registry,
		Agents:       types,
		Root:         workspaces.Root,
		Profile:      s.Profile,
		Env:          secrets.Buckets{Store: accounts.New(s.journal.DB), Recent: secrets.NewRecent()}.ToolEnv,
		Retry:        modelretry.Default,
		ForkLimits:   domain.DefaultForkLimits,
		NoFastPaths:  noFastPaths(t),
		Metrics:      metrics.NewWorker(metrics.New()),
		Tracing:      traces,
		Logger:       logger,
	})
	s.startWorker()
	t.Cleanup(func() { s.worker.Stop() })

	s.compacting, err = chat.NewCompactions(chat.CompactionsConfig{Store: db, Runs: runs, Logger: logger})
	require.NoError(t, err)

	s.chatConfig = chat.Config{
		Store:       s.journal,
		Runs:        runs,
		Bus:         signals,
		Models:      models,
		Images:      store,
		History:     noHistory{},
		Logger:      logger,
		Compactions: s.compacting,
	}
	s.configure(func(*chat.Config) {})
	s.runs, s.bus = runs, signals
	s.waiters = work.NewWaiters(db.DB, runs, logger)
	s.journal.OnChatEnded(s.waiters.Signal)
	s.reconcile()
	s.caller.User = testkit.User(t, db, "tester")

	return s
}

// reconcile makes the reconciler, on s.runs.
func (s *stack) reconcile() {
	s.t.Helper()

	s.reconciler = work.NewReconciler(work.ReconcilerConfig{
		Chats: s.journal.ChatStore(), Runs: s.runs, Finish: s.acts.Chat.FinishChat, Logger: s.logger, Found: s.note,
	})
}

// check returns a check of open work of some kinds whose pauses pass so many times faster.
func (s *stack) check(speed time.Duration, kinds ...work.Kind) func(ctx context.Context) error {
	s.t.Helper()

	began := time.Now()

	return work.NewChecker(work.CheckerConfig{
		Store: work.NewStore(s.db.DB), Runs: s.runs, Kinds: kinds, Found: s.note, Logger: s.logger,
		Now: func() time.Time { return began.Add(speed * time.Since(began)) },
	}).Check
}

// compactionKind returns the compactions that clients have requested, as a kind of open work.
func (s *stack) compactionKind() work.Kind { return work.Compactions(work.NewStore(s.db.DB), s.runs) }

// deleter returns the deleter of sessions; start starts the workflow that removes one.
func (s *stack) deleter(start func(ctx context.Context, session domain.DeletedSession) error) *work.SessionDeleter {
	return work.NewSessionDeleter(work.SessionDeleterConfig{
		Chats: s.journal.ChatStore(), Sessions: s.journal.SessionStore(), Signals: s.bus, StopTasks: s.tasks.StopAll, Start: start,
		Logger: s.logger,
	})
}

// removal registers the activities that remove the content of deleted sessions.
func (s *stack) removal(servers, files func(context.Context, domain.SessionID) error, objects func(context.Context, string) error) {
	moves := s.history()
	deletions := &work.Deletions{
		Sessions: s.journal.SessionStore(), Runs: s.runs, Log: s.log, OpenMoves: moves.RunningHistory, EndMoves: moves.EndHistory,
		StopServers: servers, RemoveFiles: files, DeleteObjects: objects,
	}
	deletions.Register(s.worker)
}

// note keeps a finding.
func (s *stack) note(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.found = append(s.found, kind)
}

// impatient takes runs for stuck within seconds.
func (s *stack) impatient() {
	s.t.Helper()
	s.runs.Stuck = temporal.StuckAfter{Attempts: 2, Age: time.Second}
	s.reconcile()
}

// configure changes the configuration of the chat service.
func (s *stack) configure(change func(*chat.Config)) {
	s.t.Helper()
	change(&s.chatConfig)

	var err error

	s.chats, err = chat.New(s.chatConfig)
	require.NoError(s.t, err)
}

// history returns the stored operations on histories.
func (s *stack) history() *history.Store { return history.NewStore(s.journal.DB, s.journal.Outbox) }

// recorded returns the dependencies of recordings of the stack's sessions.
func (s *stack) recorded(
	log recordings.Log, objects recordings.Objects, files recordings.Files, runs recordings.Runs,
) recordings.Deps {
	return recordings.Deps{
		DB: s.journal.DB, Outbox: s.journal.Outbox, Log: log, Objects: objects, Files: files, Runs: runs, Logger: s.logger,
	}
}

// noHistory refuses every what-if.
type noHistory struct{}

func (noHistory) Whatif(context.Context, domain.User, domain.Send) (domain.SendAck, error) {
	return domain.SendAck{}, errors.New("this stack has no history")
}

// noFastPaths turns the fast paths of a step off in half of the tests, chosen by their
// names, so that both ways are tested. Histories are recorded with them.
func noFastPaths(t *testing.T) bool {
	if os.Getenv("EVERLOOP_RECORD") != "" {
		return false
	}

	hash := fnv.New32a()
	hash.Write([]byte(t.Name()))

	return hash.Sum32()%2 == 0
}

// Profile returns how the agent of a session is set up: as the session says.
func (s *stack) Profile(session domain.Session) domain.Profile {
	return domain.Profile{
		MaxSteps: 200, StuckAfter: domain.StuckAfter, Compaction: domain.DefaultCompaction, OwnerCallsPerDay: s.callsPerDay.Load(),
	}.With(session.Setup)
}

// retry sets the retry policy of model calls.
func (s *stack) retry(policy modelretry.Policy) {
	s.acts.Model.Retry, s.acts.Compaction.Retry = policy, policy
}

// useTools replaces the tools of all chats.
func (s *stack) useTools(registry *tools.Registry) {
	s.acts.Chat.Tools, s.acts.Tools.Tools, s.acts.Model.Plans.Tools, s.acts.Compaction.Tools = registry, registry, registry, registry
}

func (s *stack) startWorker() {
	s.worker = worker.New(
		s.client,
		s.acts,
		worker.Options{Queue: s.queue, StopTimeout: cmp.Or(s.stopTimeout, time.Second), Context: s.marks},
	)
	s.runner.Register(s.worker)
	require.NoError(s.t, s.worker.Start())
}

// requireClass holds what a session was made for, by which its retention goes.
func (s *stack) requireClass(want domain.SessionClass, id domain.SessionID) {
	s.t.Helper()

	var class domain.SessionClass
	require.NoError(s.t, s.journal.Pool.QueryRow(s.t.Context(), `SELECT class FROM sessions WHERE id = $1`, id).Scan(&class))
	require.Equal(s.t, want, class)
}

func (s *stack) session() domain.SessionID {
	s.t.Helper()
	made, err := s.journal.CreateSession(s.t.Context(), s.caller.User.ID, domain.NewSession{})
	require.NoError(s.t, err)

	return made.ID
}

func (s *stack) send(sessionID domain.SessionID, message string) domain.SendAck {
	s.t.Helper()
	ack, err := s.chats.Send(s.t.Context(), s.caller, domain.Send{
		SessionID: sessionID, Message: []domain.ContentPart{{Type: "text", Text: message}},
		Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
	})
	require.NoError(s.t, err)

	return ack
}

// events returns all events of the session so far. A log that does not answer in its
// time is asked again: this machine may be slow.
func (s *stack) events(sessionID domain.SessionID) (all []domain.LoggedEvent) {
	s.t.Helper()
	require.NoError(s.t, s.journal.Flush(context.Background()))

	read := func() error {
		all = nil

		last, err := s.log.Last(context.Background(), sessionID)
		if err != nil {
			return err
		}

		return s.log.Read(context.Background(), sessionID, 0, last, func(e domain.LoggedEvent) error {
			all = append(all, e)
			return nil
		})
	}

	err := read()
	for tries := 0; err != nil && domain.AsError(err).Kind == domain.Unavailable && tries < 10; tries++ {
		err = read()
	}

	require.NoError(s.t, err)
	s.holdToSchema(sessionID, all)

	return all
}

// await waits for an event of the session that fits and gives all until then.
func (s *stack) await(sessionID domain.SessionID, name string, fits func(data map[string]any) bool) []domain.LoggedEvent {
	s.t.Helper()

	var seen []domain.LoggedEvent

	require.Eventually(s.t, func() bool {
		seen = s.events(sessionID)

		return slices.ContainsFunc(seen, func(e domain.LoggedEvent) bool {
			return e.Name == name && (fits == nil || fits(fields(e)))
		})
	}, patience, 10*time.Millisecond, "no %s came", name)

	return seen
}

func (s *stack) awaitEnd(sessionID domain.SessionID, chatID domain.ChatID) map[string]any {
	s.t.Helper()

	var end map[string]any

	s.await(sessionID, domain.EventChatEnd, func(data map[string]any) bool {
		end = data
		return data["chat_id"] == string(chatID)
	})

	return end
}

// awaitEndInLog waits for the end of a chat by the event log alone, without a
// statement to PostgreSQL.
func (s *stack) awaitEndInLog(sessionID domain.SessionID, chatID domain.ChatID) {
	s.t.Helper()

	var after uint64

	ended := false

	require.Eventually(s.t, func() bool {
		last, err := s.log.Last(context.Background(), sessionID)
		if err == nil && last > after {
			err = s.log.Read(context.Background(), sessionID, after, last, func(e domain.LoggedEvent) error {
				after = e.Seq
				ended = ended || e.Name == domain.EventChatEnd && e.ChatID == chatID

				return nil
			})
		}

		return err == nil && ended
	}, patience, 10*time.Millisecond, "no chat:end came")
}

func (s *stack) messages(sessionID domain.SessionID) []domain.Turn {
	s.t.Helper()

	var turns []domain.Turn

	require.NoError(s.t, s.journal.Messages(s.t.Context(), sessionID, nil, 0, func(turn domain.Turn) error {
		turns = append(turns, turn)
		return nil
	}))

	return turns
}

func fields(e domain.LoggedEvent) map[string]any {
	var data map[string]any
	if err := json.Unmarshal(e.Wire(), &data); err != nil {
		panic(err)
	}

	return data
}

func script(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}

	return "[[script]]" + string(raw) + "[[/script]]"
}

type obj = map[string]any

// noFiles is a session's workspace that cannot be reached.
type noFiles struct{}

func (noFiles) Open(context.Context, tools.SessionView) (tools.Files, error) {
	return nil, errors.New("there are no files here")
}

type plainWorkspaces struct{ dir string }

func (w plainWorkspaces) Root(context.Context, domain.SessionID, int) (string, error) {
	return w.dir, nil
}

func (w plainWorkspaces) AwaitWrites(context.Context, domain.SessionID, int) error { return nil }

func (w plainWorkspaces) Fits(context.Context, domain.SessionID, int, diskspace.Usage) error {
	return nil
}

// plainShell runs commands without a sandbox: what is tested here is the loop.
type plainShell struct{}

func (plainShell) Run(ctx context.Context, c tools.Command) (tools.Exit, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Session.Root, c.Stdout, c.Stderr

	err := cmd.Start()
	if err == nil {
		if c.Started != nil {
			c.Started(cmd.Process.Pid)
		}

		err = cmd.Wait()
	}

	if ctx.Err() != nil {
		return tools.Exit{}, ctx.Err()
	}

	if exit, ok := err.(*exec.ExitError); ok {
		return tools.Exit{Code: exit.ExitCode()}, nil
	}

	return tools.Exit{}, err
}
