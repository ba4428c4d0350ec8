package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
	"everloop/infra/netguard"
)

// Waiting for what happens in the background.
const (
	soon = 3 * time.Minute
	tick = 5 * time.Millisecond
)

// fakeStore keeps servers and states in memory.
type fakeStore struct {
	mu      sync.Mutex
	servers []toolserver.Record
	states  map[string]toolserver.Connection
	onRead  func() // called once, between a read of the servers and its answer
	deleted bool   // the session
	// pins are the accepted definitions, by server; nil: every list is the first one. pinFault
	// is returned instead.
	pins     map[string][]toolserver.Pin
	pinFault error
}

func (r *fakeStore) SessionMCPServers(context.Context, domain.SessionID) ([]toolserver.Record, error) {
	r.mu.Lock()
	servers, onRead := r.servers, r.onRead
	r.onRead = nil
	r.mu.Unlock()

	if onRead != nil {
		onRead()
	}

	return servers, nil
}

func (r *fakeStore) MCPSession(_ context.Context, id domain.SessionID) (domain.Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.deleted {
		return domain.Session{}, domain.SessionNotFound(id)
	}

	return domain.Session{ID: id, OwnerID: "ann"}, nil
}

func (r *fakeStore) MCPConnections(context.Context, domain.SessionID) ([]toolserver.Connection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	var list []toolserver.Connection
	for _, s := range r.states {
		list = append(list, s)
	}

	return list, nil
}

func (r *fakeStore) SaveMCPConnection(_ context.Context, c toolserver.Connection) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.states[c.Name] = c

	return nil
}

func (r *fakeStore) PinMCPTools(_ context.Context, server toolserver.Record, list []toolserver.Tool) ([]toolserver.Pin, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.pinFault != nil {
		return nil, r.pinFault
	}

	pins := server.Pins(r.pins[server.ID], list)
	if r.pins != nil && len(r.pins[server.ID]) == 0 {
		r.pins[server.ID] = pins
	}

	return pins, nil
}

func (r *fakeStore) state(name string) toolserver.Connection {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.states[name]
}

func (r *fakeStore) Root(context.Context, domain.SessionID, int) (string, error) {
	return "/nowhere", nil
}

// program is a tool server that runs in this process. It ends when its standard
// input does or when it is killed.
type program func(ctx context.Context, in io.Reader, out, errors io.Writer) error

// launcher starts the program that a command names.
type launcher struct {
	mu       sync.Mutex
	programs map[string]program
	started  []*fakeProcess
	last     Program
}

func (l *launcher) Launch(ctx context.Context, p Program) (Process, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	run := l.programs[p.Argv[0]]
	if run == nil {
		return nil, errors.New("no such program")
	}

	in, stdin := io.Pipe()
	ctx, kill := context.WithCancel(ctx)
	process := &fakeProcess{stdin: stdin, kill: kill, done: make(chan struct{})}
	l.started = append(l.started, process)
	l.last = p

	go func() {
		context.AfterFunc(ctx, func() { _ = in.CloseWithError(errors.New("killed")) })
		err := run(ctx, in, p.Stdout, p.Stderr)
		_ = in.Close()

		process.ending = "its process ended with exit code 0"
		if err != nil {
			process.ending = fmt.Sprintf("its process ended by a signal (%v)", err)
		}

		kill()
		close(process.done)
	}()

	return process, nil
}

// running counts the processes that were started and have not ended.
func (l *launcher) running() (all, alive int) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, p := range l.started {
		select {
		case <-p.done:
		default:
			alive++
		}
	}

	return len(l.started), alive
}

type fakeProcess struct {
	stdin  io.WriteCloser
	kill   context.CancelFunc
	done   chan struct{}
	ending string
}

func (p *fakeProcess) Stdin() io.WriteCloser { return p.stdin }
func (p *fakeProcess) Kill()                 { p.kill() }
func (p *fakeProcess) Done() <-chan struct{} { return p.done }
func (p *fakeProcess) Ending() string        { return p.ending }

// serving runs a server of the SDK as a program.
func serving(server *sdk.Server) program {
	return func(ctx context.Context, in io.Reader, out, _ io.Writer) error {
		return server.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(in), Writer: nopCloser{out}})
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// fake answers requests by hand: a hostile server. An answer of nil is none.
func fake(answer func(method string, id json.RawMessage, params json.RawMessage) []byte) program {
	return func(ctx context.Context, in io.Reader, out, _ io.Writer) error {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 32<<20)

		for lines.Scan() {
			var request struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
				Params json.RawMessage `json:"params"`
			}
			if json.Unmarshal(lines.Bytes(), &request) != nil || request.ID == nil {
				continue
			}

			if reply := answer(request.Method, request.ID, request.Params); reply != nil {
				if _, err := out.Write(append(reply, '\n')); err != nil {
					return err
				}
			}
		}

		return ctx.Err()
	}
}

func reply(id json.RawMessage, result string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

const hello = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}`

const oneTool = `{"tools":[{"name":"act","inputSchema":{"type":"object"}},{"name":"look","inputSchema":{"type":"object"},` +
	`"annotations":{"readOnlyHint":true}}]}`

// polite returns a fake that answers as it should, but for what change says; nil of
// change leaves a method to it, and silence leaves it unanswered.
func polite(change func(method string, id, params json.RawMessage) []byte) program {
	return fake(func(method string, id, params json.RawMessage) []byte {
		if changed := change(method, id, params); changed != nil {
			if string(changed) == string(silence) {
				return nil
			}

			return changed
		}

		switch method {
		case "initialize":
			return reply(id, hello)
		case "tools/list":
			return reply(id, oneTool)
		case "tools/call":
			return reply(id, `{"content":[{"type":"text","text":"fine"}]}`)
		case "ping":
			return reply(id, `{}`)
		case "server/discover":
			return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
		}

		return nil
	})
}

var silence = []byte("\x00silence")

// env is a manager with its surroundings.
type env struct {
	t        *testing.T
	manager  *Manager
	store    *fakeStore
	launcher *launcher
	log      *lockedBuffer
}

func newEnv(t *testing.T, change ...func(*Config)) *env {
	t.Helper()
	w := &env{
		t: t, store: &fakeStore{states: map[string]toolserver.Connection{}}, launcher: &launcher{programs: map[string]program{}},
		log: &lockedBuffer{},
	}
	checks, err := netguard.New(nil, nil)
	require.NoError(t, err)

	c := Config{
		Store: w.store, Launcher: w.launcher, Roots: w.store, HTTP: NewGuard(checks), Version: "test",
		Logger: slog.New(slog.NewTextHandler(w.log, nil)), ConnectTime: soon,
	}
	for _, f := range change {
		f(&c)
	}

	w.manager = NewManager(c)

	t.Cleanup(func() {
		w.manager.Close()
		_, alive := w.launcher.running()
		require.Zero(t, alive, "processes outlive the manager")
	})

	return w
}

// stdio configures a server that is a program.
func (w *env) stdio(name string, p program, change ...func(*toolserver.Record)) {
	w.launcher.mu.Lock()
	w.launcher.programs[name] = p
	w.launcher.mu.Unlock()
	w.add(domain.MCPServer{Name: name, Transport: toolserver.Stdio, Command: name}, change...)
}

func (w *env) add(server domain.MCPServer, change ...func(*toolserver.Record)) {
	server.Enabled = true

	record := toolserver.Record{
		MCPServer:  server,
		ID:         "id-" + server.Name,
		Scope:      toolserver.OfSession,
		OwnerID:    "ann",
		TrustHints: true,
	}
	for _, f := range change {
		f(&record)
	}

	w.store.mu.Lock()
	w.store.servers = append(w.store.servers, record)
	w.store.mu.Unlock()
}

var session = domain.Session{ID: "s-1", OwnerID: "ann", SandboxUID: 100001}

// offered gives the tools of the session by name.
func (w *env) offered() map[string]tools.Tool {
	out := map[string]tools.Tool{}
	for _, tool := range w.manager.Tools(context.Background(), tools.Scope{Session: session, Mode: domain.ModeExecuting}) {
		require.NotContains(w.t, out, tool.Name)
		out[tool.Name] = tool
	}

	return out
}

// atFirst gives the tools of the first use, which waits for servers with the
// manager's patience. It may end before a slow machine has connected.
func (w *env) atFirst(n int) map[string]tools.Tool {
	w.t.Helper()

	began := time.Now()

	offered := w.offered()
	if len(offered) != n && time.Since(began) >= patience {
		require.Eventually(w.t, func() bool { offered = w.offered(); return len(offered) == n }, soon, tick)
	}

	require.Len(w.t, offered, n)

	return offered
}

// tool waits for a tool.
func (w *env) tool(name string) tools.Tool {
	w.t.Helper()

	var found tools.Tool

	require.Eventually(w.t, func() bool {
		var ok bool

		found, ok = w.offered()[name]

		return ok
	}, soon, tick, "tool %s; the state is %+v", name, w.store.states)

	return found
}

var calls struct {
	sync.Mutex
	n int
}

func newCall(arguments string) *tools.Call {
	calls.Lock()
	defer calls.Unlock()

	calls.n++

	return &tools.Call{ID: fmt.Sprintf("call-%d", calls.n), Arguments: json.RawMessage(arguments)}
}

// call runs a tool by its name.
func (w *env) call(ctx context.Context, name, arguments string) (tools.Result, error) {
	w.t.Helper()
	return w.tool(name).Run(ctx, newCall(arguments))
}

// lockedBuffer takes the log.
type lockedBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.b = append(l.b, p...)

	return len(p), nil
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return string(l.b)
}
