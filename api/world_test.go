package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/api"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/postgres"
	"everloop/infra/workspace"
	"everloop/infra/workspace/sessionfiles"
	"everloop/internal/testkit"
)

// world is the interface on a port of its own, with real records and files, and
// three people who use it.
type world struct {
	t       *testing.T
	url     string
	db      *postgres.DB
	log     *syncBuffer
	desk    *desk
	streams *streams
	turns   *turns
	tasks   *tasks
	models  *models
	deleted *deleter
	down    map[string]error

	ann, bob, root string // their keys
	annID          string
}

// newWorld starts the interface; change may set what a test needs otherwise.
func newWorld(t *testing.T, change ...func(*api.Config)) *world {
	t.Helper()
	db, err := postgres.Open(t.Context(), testkit.Postgres(t), postgres.Options{MaxConns: 8})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	w := &world{
		t: t, db: db, log: &syncBuffer{}, desk: &desk{}, turns: &turns{}, tasks: &tasks{}, models: &models{}, deleted: &deleter{},
		streams: newStreams(), down: map[string]error{},
	}
	logger := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	authenticator := auth.New(db, auth.Options{Logger: logger})
	t.Cleanup(authenticator.Close)
	ctx, shutDown := context.WithCancel(context.Background())
	cfg := api.Config{
		Context: ctx, Auth: authenticator, Store: postgres.NewJournal(db, nowhere{}, logger), Messages: w.turns, Desk: w.desk,
		Streams: w.streams.subscribe, Tasks: w.tasks, Workspaces: sessionfiles.Files{Store: workspace.New(t.TempDir())},
		Models: w.models, Deleter: w.deleted, Logger: logger,
		Readiness: func(context.Context) map[string]error { return w.down },
		Version:   api.Version{Version: "2026.11.21", MinSDK: "1"},
		Setup:     api.SessionSetup{DefaultModel: "m-1", Tools: []string{"Bash", "Read"}, MaxSteps: 200, CompactAtPct: 80, CompactKeepLast: 4},
	}
	for _, c := range change {
		c(&cfg)
	}
	app := api.New(cfg)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- app.Listener(listener) }()
	t.Cleanup(func() {
		shutDown()
		require.NoError(t, app.ShutdownWithTimeout(10*time.Second))
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
	_, _, err := w.db.CreateUser(w.t.Context(), user, key, hash[:])
	require.NoError(w.t, err)
	return user.ID, plaintext
}

// restricted gives ann a key with scopes.
func (w *world) restricted(scopes ...string) string {
	w.t.Helper()
	key, plaintext, hash := auth.NewKey(w.annID, "restricted")
	key.Scopes = scopes
	_, err := w.db.CreateKey(w.t.Context(), key, hash[:])
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
	return reply{w.t, response.StatusCode, response.Header, string(text)}
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

// fields are the places that a 422 names.
func (r reply) fields() []string {
	r.t.Helper()
	var out []string
	for _, f := range r.problem(422)["errors"].([]any) {
		out = append(out, f.(map[string]any)["location"].(string))
	}
	return out
}

// nowhere is an event log that forgets.
type nowhere struct{}

func (nowhere) Publish(context.Context, domain.Event) (uint64, error) { return 1, nil }
func (nowhere) Find(context.Context, string, uint64, string) (uint64, bool, error) {
	return 0, false, nil
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// desk remembers what it was sent; the same client_message_id is the same chat.
type desk struct {
	mu    sync.Mutex
	sent  []domain.Send
	known map[string]domain.SendAck
	stop  []bool
	err   error
	then  func(domain.SendAck) // after a message was taken
}

func (d *desk) Send(_ context.Context, _ domain.Caller, send domain.Send) (domain.SendAck, error) {
	d.mu.Lock()
	if d.err != nil {
		defer d.mu.Unlock()
		return domain.SendAck{}, d.err
	}
	if ack, ok := d.known[send.ClientMessageID]; ok {
		defer d.mu.Unlock()
		ack.Duplicate = true
		return ack, nil
	}
	d.sent = append(d.sent, send)
	ack := domain.SendAck{ChatID: domain.NewID(), TurnID: domain.NewID(), DeliveryApplied: domain.DeliverRun}
	if send.ClientMessageID != "" {
		if d.known == nil {
			d.known = map[string]domain.SendAck{}
		}
		d.known[send.ClientMessageID] = ack
	}
	then := d.then
	d.mu.Unlock()
	if then != nil {
		then(ack)
	}
	return ack, nil
}

func (d *desk) Answer(_ context.Context, _ domain.Caller, _ string, answer domain.Answer) (domain.AnswerAck, error) {
	return domain.AnswerAck{Resolved: answer.ToolCallID == "open", QuestionID: "q", ChatID: "c"}, nil
}

func (d *desk) Stop(_ context.Context, _ domain.Caller, _ string, andQueue bool) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop = append(d.stop, andQueue)
	return true, nil
}

func (d *desk) messages() []domain.Send {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]domain.Send(nil), d.sent...)
}

// streams is one log of events for all sessions.
type streams struct {
	mu      sync.Mutex
	events  []domain.LoggedEvent
	changed chan struct{} // closed and replaced at every event
	open    int
	broken  bool
}

func newStreams() *streams { return &streams{changed: make(chan struct{})} }

func (s *streams) publish(name, chatID, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq := uint64(len(s.events) + 1)
	s.events = append(s.events, domain.LoggedEvent{
		Event: domain.Event{SessionID: "s", Name: name, ChatID: chatID, At: time.Now(), Data: json.RawMessage(data)}, Seq: seq, PrevSeq: seq - 1,
	})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *streams) subscribe(_ context.Context, _ string, after *uint64) (api.Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	sub := &subscription{log: s, at: uint64(len(s.events))}
	if after != nil {
		sub.at = min(*after, sub.at)
	}
	return sub, nil
}

func (s *streams) subscribers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

type subscription struct {
	log  *streams
	at   uint64
	once sync.Once
}

func (s *subscription) Next(ctx context.Context) (domain.LoggedEvent, error) {
	for {
		s.log.mu.Lock()
		if s.log.broken {
			s.log.mu.Unlock()
			return domain.LoggedEvent{}, errors.New("fell behind")
		}
		if s.at < uint64(len(s.log.events)) {
			e := s.log.events[s.at]
			s.at++
			s.log.mu.Unlock()
			return e, nil
		}
		changed := s.log.changed
		s.log.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return domain.LoggedEvent{}, ctx.Err()
		}
	}
}

func (s *subscription) Position() uint64 { return s.at }

func (s *subscription) Close() {
	s.once.Do(func() {
		s.log.mu.Lock()
		defer s.log.mu.Unlock()
		s.log.open--
	})
}

// turns makes up a history of any length. It stops at a gate, when it has one,
// before the turn of that number.
type turns struct {
	count  int
	failAt int // 0: never
	gateAt int
	gate   chan struct{}
	asked  struct {
		after *int64
		limit int
	}
}

func (m *turns) Messages(ctx context.Context, _ string, after *int64, limit int, yield func(domain.Turn) error) error {
	m.asked.after, m.asked.limit = after, limit
	for i := range m.count {
		if m.failAt > 0 && i+1 == m.failAt {
			return errors.New("the records broke")
		}
		if m.gate != nil && i == m.gateAt {
			select {
			case <-m.gate:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		turn := domain.Turn{ID: domain.NewID(), Sequence: int64(i), Kind: domain.KindMessage, LoopID: domain.RootLoop, Role: domain.RoleUser,
			Blocks: []domain.Block{{Type: domain.BlockText, Content: "text of a turn that is about as long as turns are at the least"}}}
		if err := yield(turn); err != nil {
			return err
		}
	}
	return nil
}

type tasks struct{ tail int }

func (k *tasks) one(id string) (domain.BackgroundTask, error) {
	if id != "task-1" {
		return domain.BackgroundTask{}, domain.Newf(domain.NotFound, "task_not_found", "task %s does not exist", id)
	}
	return domain.BackgroundTask{TaskID: id, Kind: domain.TaskShell, Status: domain.TaskRunning}, nil
}

func (k *tasks) List(context.Context, string) ([]domain.BackgroundTask, error) {
	t, err := k.one("task-1")
	return []domain.BackgroundTask{t}, err
}

func (k *tasks) Output(_ context.Context, _, id string, tail int) (domain.TaskOutput, error) {
	k.tail = tail
	_, err := k.one(id)
	return domain.TaskOutput{TaskID: id, Status: domain.TaskRunning, Tail: tail}, err
}

func (k *tasks) Stop(_ context.Context, _, id string) (domain.BackgroundTask, error) {
	return k.one(id)
}

type models struct{ err error }

func (m *models) Models(context.Context) ([]domain.Model, error) {
	return []domain.Model{{ID: "m-1", ContextWindow: 128000, Modalities: []string{"text"}}}, m.err
}

type deleter struct {
	mu  sync.Mutex
	ids []string
}

func (d *deleter) DeleteSession(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids = append(d.ids, id)
	return nil
}
