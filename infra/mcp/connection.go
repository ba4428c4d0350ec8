package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

const (
	// connectTime is the timeout for connecting, including the list of tools.
	connectTime = 30 * time.Second
	// newestVersion starts with the request server/discover. The SDK sends initialize to
	// servers that refuse it.
	newestVersion = "2026-07-28"
	// legacyVersion starts with initialize. Servers that support only older versions respond with
	// theirs.
	legacyVersion = "2025-11-25"
	// probeTime is the timeout of server/discover: servers with older versions may not respond.
	probeTime = time.Second
)

// connection is an open connection to a server.
type connection struct {
	session *sdk.ClientSession
	cut     io.Closer    // closes it immediately
	why     func() error // cause of an unexpected end
	process Process      // nil: HTTP
	since   time.Time
	tools   taskTools // tools that the server runs only as tasks

	mu    sync.Mutex
	sinks map[string]*sink // of calls with progress
}

// dial connects to a server with the newest protocol version that both support. It stores
// in legacy whether the server did not answer server/discover. changed is called when the
// server's list of tools has changed.
func (m *Manager) dial(ctx context.Context, t target, changed func(), legacy *atomic.Bool) (*connection, error) {
	var (
		c   *connection
		err error
	)

	if !legacy.Load() {
		var discovery error

		c, discovery, err = m.open(ctx, t, changed, newestVersion, probeTime)
		legacy.Store(discovery != nil && !answered(discovery))

		if err == nil || !legacy.Load() {
			return c, err
		}
	}

	if !unsupported(err) { // the request may have ended the connection
		c, _, err = m.open(ctx, t, changed, legacyVersion, probeTime)
	}

	if unsupported(err) { // a slow server with the newest version
		legacy.Store(false)

		c, _, err = m.open(ctx, t, changed, newestVersion, connectTime)
	}

	return c, err
}

// answered reports whether the server, or a proxy, has refused a request.
func answered(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}

// unsupported reports whether the server has refused initialize because of its version.
func unsupported(err error) bool {
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && (refused.Code == sdk.CodeUnsupportedProtocolVersion || refused.Code == jsonrpc.CodeMethodNotFound)
}

// open connects to a server with a protocol version. discovery is the error of
// server/discover, which the SDK sends for the newest version and probe bounds.
func (m *Manager) open(
	ctx context.Context, t target, changed func(), version string, probe time.Duration,
) (conn *connection, discovery, err error) {
	c := &connection{since: time.Now(), sinks: map[string]*sink{}}

	transport, err := m.transport(ctx, t, c)
	if err != nil {
		return nil, nil, err
	}

	client := sdk.NewClient(&sdk.Implementation{Name: "everloop", Version: m.Version}, &sdk.ClientOptions{
		Logger:                      slog.New(slog.DiscardHandler), // its messages contain text of servers
		Capabilities:                &sdk.ClientCapabilities{},
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { changed() },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { c.progress(r.Params) },
	})

	type opened struct {
		session        *sdk.ClientSession
		discovery, err error
	}

	result := make(chan opened, 1)

	go func() {
		var o opened

		client.AddSendingMiddleware(discover(probe, &o.discovery))

		o.session, o.err = client.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
		result <- o
	}()

	select {
	case o := <-result:
		if o.err != nil {
			err := c.explain(o.err)
			c.drop()

			return nil, o.discovery, err
		}

		c.session = o.session

		return c, o.discovery, nil
	case <-ctx.Done(): // the SDK may block where it ignores its context
		c.drop()
		return nil, nil, ctx.Err()
	}
}

// discover sets the timeout of server/discover and stores its error.
func discover(limit time.Duration, failed *error) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method != "server/discover" {
				return next(ctx, method, r)
			}

			timed, cancel := context.WithTimeout(ctx, limit)
			defer cancel()

			result, err := next(timed, method, r)
			*failed = err

			return result, err
		}
	}
}

// transport returns the SDK's transport to a server. A process lives until the connection is cut,
// regardless of ctx.
func (m *Manager) transport(ctx context.Context, t target, c *connection) (sdk.Transport, error) {
	if t.server.Transport == toolserver.HTTP {
		transport, channel, err := openHTTP(m.HTTP.Transport(t.server.Trusted), t.server.MCPServer, &c.tools)
		if err != nil {
			return nil, err
		}

		c.cut, c.why = channel, channel.why

		return transport, nil
	}

	program, err := m.program(ctx, t)
	if err != nil {
		return nil, err
	}

	process, err := startStdio(m.life, m.Launcher, program, &c.tools)
	if err != nil {
		return nil, fmt.Errorf("the sandbox could not start it: %w", err)
	}

	c.cut, c.why, c.process = process, process.why, process.process

	return process, nil
}

// program returns the program of a stdio server. A session's own server runs in its workspace,
// with the server's variables over the session's variables. Any other server contains secrets
// that do not belong to the session's owner: no file and no variable of a user may reach its
// process, because an interpreter could load code from them.
func (m *Manager) program(ctx context.Context, t target) (Program, error) {
	if t.server.OfPreset() {
		return m.presetProgram(ctx, t)
	}

	p := Program{SessionID: t.session.ID, Argv: append([]string{t.server.Command}, t.server.Args...)}
	if !t.server.OfSession() {
		p.Env = tools.Environment(t.server.Env)
		return p, nil
	}

	view, err := m.workspace(ctx, t.session)
	if err != nil {
		return p, err
	}

	env := maps.Clone(t.session.Env)
	if m.Environment != nil {
		if env, err = m.Environment.ToolEnv(ctx, t.session); err != nil {
			return p, fmt.Errorf("the environment of its session cannot be read: %w", err)
		}
	}

	if env == nil {
		env = map[string]string{}
	}

	maps.Copy(env, t.server.Env)
	p.Session, p.Env = view, tools.Environment(env)

	return p, nil
}

// workspace returns the view that a program needs to run in a session's workspace.
func (m *Manager) workspace(ctx context.Context, s domain.Session) (*tools.SessionView, error) {
	root, err := m.Roots.Root(ctx, s.ID, s.SandboxUID)
	if err != nil {
		return nil, fmt.Errorf("the session's workspace cannot be opened: %w", err)
	}

	return &tools.SessionView{ID: s.ID, OwnerID: s.OwnerID, SandboxUID: s.SandboxUID, Root: root}, nil
}

// explain returns the cause of an SDK error, without the server's address, which can contain a
// secret.
func (c *connection) explain(err error) error {
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code != codeRejected && !c.signedOut() {
		return err // the server's own reason takes precedence over the end of its process
	}

	if why := c.why(); why != nil {
		return why
	}

	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}

	return err
}

// signedOut reports whether the server refuses requests without a sign-in.
func (c *connection) signedOut() bool { return errors.Is(c.why(), errSignIn) }

// list reads the server's tools.
func (c *connection) list(ctx context.Context) (list []toolserver.Tool, note string, err error) {
	type listed struct {
		list []toolserver.Tool
		note string
		err  error
	}

	result := make(chan listed, 1)

	go func() {
		list, note, err := listTools(ctx, c)
		result <- listed{list, note, err}
	}()

	select {
	case l := <-result:
		if l.err != nil {
			return nil, "", c.explain(l.err)
		}

		return l.list, l.note, nil
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
}

// close closes the connection, gracefully if that is fast.
func (c *connection) close() {
	if c.process == nil && c.why() == nil {
		over := make(chan struct{})
		go func() {
			defer close(over)

			_ = c.session.Close() // sends the end of the session
		}()

		select {
		case <-over:
		case <-time.After(time.Second):
		}
	}

	c.drop()
}

// drop closes the connection immediately and waits for the process. It also closes the SDK's
// session, which does not notice the end of a channel without an open stream.
func (c *connection) drop() {
	_ = c.cut.Close()
	if c.session != nil && c.process == nil {
		_ = c.session.Close()
	}

	if c.process != nil {
		<-c.process.Done()
	}
}
