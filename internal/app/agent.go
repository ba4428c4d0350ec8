package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/mcp"
	"everloop/infra/postgres"
	"everloop/internal/app/flags"
	"everloop/internal/clients"
	"everloop/internal/lifecycle"
	"everloop/internal/release"
	"everloop/realtime"
	"everloop/realtime/sio"
)

// agent is the API server: REST and Socket.IO on one address.
type agent struct {
	app     *fiber.App
	sockets *sio.Server
	auth    *auth.Authenticator
	proxies flags.Proxies
	stop    context.CancelFunc // ends what requests have open
	beside  lifecycle.Layer    // runs next to the server
}

// newAgent builds the API server.
func newAgent(ctx context.Context, b *backend) (_ *agent, err error) {
	s := b.settings
	ctx, stop := context.WithCancel(ctx)

	defer func() {
		if err != nil {
			stop()
		}
	}()

	a := &agent{stop: stop, proxies: s.Proxies}
	toolServers := mcp.Remote{Conn: b.NATS}
	rights := auth.NewChanges(b.Signals.AnnounceRights, b.logger)
	signIn := b.newSignIn(func(ctx context.Context, userID string, open bool) {
		rights.Announce(ctx, domain.RightsChange{UserID: userID})

		if open {
			return
		}

		if err := toolServers.UserDeleted(ctx, userID); err != nil {
			b.logger.Warn("failed to notify workers of a closed account; unused tool servers end by themselves", "error", err)
		}
	})
	a.auth = auth.New(b.accounts, auth.Options{
		Logger: b.logger, GuessesPerMinute: flags.KeyGuesses, Verifiers: signIn.verifiers(), Known: signIn.known(),
	})
	hub := realtime.NewHub(realtime.HubConfig{Log: b.Log, State: b.DB, Logger: b.logger})

	shown, err := b.newShownTools()
	if err != nil {
		return nil, err
	}

	contexts := b.newContexts(shown)

	limiter := auth.NewLimiter(auth.RateLimit{PerMinute: s.RateLimit})
	auditor := auth.NewAuditor(b.accounts, b.logger, nil)
	access := access{db: b.DB, auth: a.auth, limiter: limiter, auditor: auditor, proxies: s.Trusted()}
	protocol := realtime.NewProtocol(
		realtime.ProtocolConfig{
			Hub:      hub,
			Sessions: access,
			Chats:    b.chats,
			Limiter:  limiter,
			Auditor:  auditor,
			Logger:   b.logger,
			Tracer:   b.tracing.Requests(),
		},
	)

	jobs, err := b.newEdgeJobs(signIn)
	if err != nil {
		return nil, err
	}

	areas, err := b.newAreas(ctx, edgeServices{
		auditor: auditor, contexts: contexts, hub: hub, shown: shown, signIn: signIn, toolServers: toolServers,
	})
	if err != nil {
		return nil, err
	}

	holder := s.holder()
	if err := b.accounts.AbandonIdempotent(ctx, holder); err != nil {
		return nil, err
	}

	a.app = api.New(api.Config{
		Context:     ctx,
		Version:     release.Version,
		Logger:      b.logger,
		Metrics:     b.metrics,
		Tracer:      b.tracing.Requests(),
		Auth:        a.auth,
		Auditor:     auditor,
		Limiter:     limiter,
		Rights:      rights,
		Idempotency: b.accounts,
		Holder:      holder,
		Hosts:       s.Allowed(),
		Origins:     s.AllowedOrigins,
		Proxies:     s.Trusted(),
		BodyBudget:  flags.BodyBudget,
		Room:        flags.CheckReserve(os.TempDir()),
	}, areas)
	rights.Watch(protocol.RightsChanged) // after the interface has made the authenticator forget

	unwatch, err := b.Signals.WatchRights(func(change domain.RightsChange) { rights.Receive(ctx, change) })
	if err != nil {
		return nil, err
	}

	context.AfterFunc(ctx, unwatch)

	a.sockets = sio.New(sio.Options{
		Authenticate: access.handshake, Handler: protocol.SocketHandler(), AllowedOrigins: s.AllowedOrigins, Log: b.logger,
	})
	a.sockets.Mount(a.app)
	a.beside = lifecycle.Layer{
		lifecycle.Func("event hub", hub.Run), lifecycle.Func("recheck of connections", protocol.Run), lifecycle.Loop("edge jobs", jobs.Run),
		b.companionVersions(),
	}

	return a, nil
}

// holder names this API server by host and address: what has the name in the database is
// this server's, or was that of a dead one which it replaces.
func (s settings) holder() string {
	host, err := os.Hostname()
	if _, port, split := net.SplitHostPort(s.AgentAddr); err != nil || split != nil || port == "0" {
		return domain.NewID() // no other server has it
	}

	return host + " " + s.AgentAddr
}

// services returns the server on a listener and what runs next to it.
func (a *agent) services(listener net.Listener) lifecycle.Layer {
	server := lifecycle.Func("API server", func(ctx context.Context) error { return a.serve(ctx, listener) })
	return append(lifecycle.Layer{server}, a.beside...)
}

// serve answers on the listener until ctx ends, then closes all client connections.
func (a *agent) serve(ctx context.Context, listener net.Listener) error {
	failed := make(chan error, 1)

	bound := clients.NewConnections(flags.MaxConnections, a.proxies.Trusted())
	go func() { failed <- a.app.Listener(bound.Listen(listener, httpx.RefuseConnection)) }()

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}

	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()

	a.stop()
	closing := a.sockets.Close(leave)
	shutdown := a.app.ShutdownWithContext(leave)
	a.auth.Close()

	if errors.Is(shutdown, context.DeadlineExceeded) {
		shutdown = nil // lingering connections close on exit
	}

	return errors.Join(err, closing, shutdown)
}

// access authenticates and authorises clients of Socket.IO.
type access struct {
	db      *postgres.DB
	auth    *auth.Authenticator
	limiter *auth.Limiter
	auditor *auth.Auditor
	proxies clients.Proxies
}

// handshake authenticates a connection by its token, or by its cookie, and
// refuses one whose key has no scope for any event.
func (a access) handshake(ctx context.Context, token string, r *http.Request) (any, error) {
	credentials := auth.Credentials{Bearer: token}
	if token == "" {
		credentials.Cookie = clients.ReadCookie(httpx.SessionCookie, a.proxies.HTTPS(r), func(name string) string {
			if cookie, err := r.Cookie(name); err == nil {
				return cookie.Value
			}

			return ""
		})
	}

	from := a.client(r)

	caller, err := a.auth.AuthenticateFrom(ctx, auth.From{Network: clients.Network(from).String(), IP: clients.IP(from)}, credentials)
	if err == nil {
		_, err = a.limiter.Take(caller)
	}

	if err == nil {
		err = realtime.Admits(caller)
	}

	if err != nil {
		a.auditor.Refused(ctx, caller, auth.EdgeSocketIO, from.String(), "connect", err)

		if e := domain.AsError(err); e.Kind != domain.Unauthenticated {
			return nil, &sio.Refusal{Code: e.Code, Retryable: e.Retryable()}
		}

		return nil, err
	}

	a.auditor.SignedIn(ctx, caller, auth.EdgeSocketIO, from.String())

	return caller, nil
}

// client returns the address of the client that opened a connection.
func (a access) client(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero address is a client too
	return a.proxies.Client(peer.Addr(), r.Header.Values("X-Forwarded-For")...)
}

// Role implements realtime.Sessions.
func (a access) Role(ctx context.Context, caller domain.Caller, sessionID domain.SessionID) (domain.ViewerRole, error) {
	_, role, err := a.db.ReadSession(ctx, caller.User, sessionID)
	return role, err
}

// Own implements realtime.Sessions.
func (a access) Own(ctx context.Context, caller domain.Caller, sessionID domain.SessionID) (domain.SessionRun, error) {
	return a.db.OwnSessionRun(ctx, caller.User, sessionID)
}

// Alive implements realtime.Sessions.
func (a access) Alive(ctx context.Context, callers []domain.Caller) []bool {
	return a.auth.AllAlive(ctx, callers)
}

// Visible implements realtime.Sessions.
func (a access) Visible(ctx context.Context, viewers []domain.SessionViewer) ([]bool, error) {
	return a.db.Visible(ctx, viewers)
}
