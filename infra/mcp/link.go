package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

const (
	// patience is how long a chat waits for the first connection to a server; after that its
	// tools are available from a later model call.
	patience = 2 * time.Second
	// steady is the minimum duration of a connection that resets the count of consecutive
	// failures.
	steady = 30 * time.Second
	// backoffMost is the maximum delay between connection attempts.
	backoffMost = time.Minute
	// hopeless is the number of consecutive failures after which a server's tools are no longer
	// offered.
	hopeless = 3
	// relistPause debounces notices of a changed list, which arrive in bursts.
	relistPause = 300 * time.Millisecond
)

// target is a server in the configuration of one session.
type target struct {
	session     domain.Session
	server      toolserver.Record
	fingerprint string
}

type linkState int

const (
	linkIdle       linkState = iota // not connected; connects on use
	linkConnecting                  //
	linkUp                          //
	linkDown                        // failed; retried after retryAt
	linkClosed                      // removed
)

// link maintains the connection of one session to one server while it is used.
type link struct {
	manager *Manager

	mu       sync.Mutex
	target   target
	state    linkState
	conn     *connection   // of linkUp
	settled  chan struct{} // of linkConnecting: closed at the end of the attempt
	abort    func()        // of linkConnecting: cancels the attempt
	began    time.Time     // time of the first attempt
	refused  string        // reason of a refusal by the network policy; empty: allowed
	err      string        // of linkDown, or the problem of the list of tools
	failures int           // consecutive
	retryAt  time.Time
	catalog  []toolserver.Tool
	listed   bool         // catalog was listed by the server, now or earlier
	withheld string       // names of tools that wait for acceptance
	offer    []tools.Tool // derived from catalog; nil: not yet
	used     time.Time
	calls    int
	stale    bool        // the list has changed since it was last requested
	relist   *time.Timer // timer of the next listing
	listing  bool        // a listing is in progress: only one runs, so that an older answer cannot overwrite a newer one

	saving sync.Mutex

	legacy atomic.Bool // the server does not respond to server/discover
}

// start starts an attempt unless the link is connected, connecting or backing off; l.mu must be
// held.
func (l *link) start() {
	if l.refused != "" || l.state != linkIdle && (l.state != linkDown || time.Now().Before(l.retryAt)) {
		return
	}

	l.state = linkConnecting
	l.settled = make(chan struct{})
	ctx, cancel := context.WithTimeout(l.manager.life, l.manager.connectTime())

	l.abort = cancel
	if l.began.IsZero() {
		l.began = time.Now()
	}

	t, settled := l.target, l.settled

	connect := func() {
		defer close(settled)
		defer cancel()

		l.connect(ctx, t, settled)
	}
	if !l.manager.spawn(connect) {
		cancel()

		l.state = linkClosed
	}
}

// connect runs one attempt, and closes settled at its end.
func (l *link) connect(ctx context.Context, t target, settled chan struct{}) {
	l.save(ctx)

	conn, list, err := l.open(ctx, t)
	l.mu.Lock()
	switch {
	case l.state != linkConnecting || l.settled != settled: // closed, or replaced by another attempt
		l.mu.Unlock()

		if conn != nil {
			conn.close()
		}

		return
	case err != nil:
		l.failed(errorText(err, t.server.MCPServer))
	default:
		l.state, l.conn = linkUp, conn
		l.take(list)

		if l.stale {
			l.listAgain()
		}
	}
	l.mu.Unlock()

	if conn != nil && !l.manager.spawn(func() { l.watch(conn) }) {
		conn.close()
	}

	l.save(l.manager.life)

	if err != nil {
		l.manager.Logger.Info(
			"failed to connect to a tool server",
			"session_id",
			t.session.ID,
			"server",
			t.server.Name,
			"error",
			errorText(err, t.server.MCPServer),
		)
	}
}

func (l *link) open(ctx context.Context, t target) (*connection, listing, error) {
	if t.server.Transport == toolserver.Stdio {
		if err := l.manager.makeRoom(l); err != nil {
			return nil, listing{}, err
		}
	}

	var conn *connection

	conn, err := l.manager.dial(ctx, t, func() { l.changed() }, &l.legacy)
	if err != nil {
		return nil, listing{}, err
	}

	l.mu.Lock()
	l.stale = false // later notices require another listing
	l.mu.Unlock()

	list, err := l.list(ctx, conn, t.server)
	if err != nil {
		conn.close()
		return nil, listing{}, fmt.Errorf("its tools cannot be listed: %w", err)
	}

	return conn, list, nil
}

// listing is the accepted part of a server's list of tools.
type listing struct {
	tools    []toolserver.Tool
	withheld string // names of tools that wait for acceptance
	note     string // omitted tools with reasons
}

func (l *link) list(ctx context.Context, conn *connection, server toolserver.Record) (listing, error) {
	all, note, err := conn.list(ctx)
	if err != nil {
		return listing{}, err
	}

	accepted, withheld, err := l.manager.pinned(ctx, server, all)
	if err != nil {
		return listing{}, err
	}

	if withheld != "" {
		note = strings.TrimPrefix(note+"; "+withheldNote(withheld), "; ")
	}

	return listing{accepted, withheld, note}, nil
}

// take replaces the tools of the link; l.mu must be held.
func (l *link) take(list listing) {
	l.catalog, l.listed, l.offer = list.tools, true, nil
	l.withheld, l.err = list.withheld, list.note
}

// failed records a failed attempt or connection and sets the next retry; l.mu must be held.
func (l *link) failed(why string) {
	l.state, l.conn, l.err = linkDown, nil, why
	l.failures++

	l.retryAt = time.Now()
	if l.failures > 1 { // the first retry is immediate
		l.retryAt = l.retryAt.Add(min(time.Second<<min(l.failures-2, 10), backoffMost))
	}
}

// watch waits for the end of a connection.
func (l *link) watch(conn *connection) {
	err := conn.session.Wait()

	why := conn.why()
	if why == nil {
		why = err
	}

	if why == nil {
		why = errors.New("it closed the connection")
	}

	l.lost(conn, why)
}

// lost removes a connection that ended or was dropped from the link.
func (l *link) lost(conn *connection, why error) {
	l.mu.Lock()
	if l.conn != conn {
		l.mu.Unlock()
		return
	}

	if time.Since(conn.since) > steady {
		l.failures = 0
	}

	l.failed(errorText(why, l.target.server.MCPServer))
	name, session, text := l.target.server.Name, l.target.session.ID, l.err
	l.mu.Unlock()
	conn.close()
	l.manager.Logger.Info("lost the connection to a tool server", "session_id", session, "server", name, "error", text)
	l.save(l.manager.life)
}

// rest closes the connection of an unused or removed link.
func (l *link) rest(state linkState) {
	l.mu.Lock()
	if state == linkIdle && (l.state != linkUp || l.calls > 0) {
		l.mu.Unlock()
		return // used again in the meantime
	}

	conn := l.conn
	if l.state == linkConnecting {
		l.abort()
	}

	l.state, l.conn = state, nil
	if l.relist != nil {
		l.relist.Stop()
		l.relist = nil
	}
	l.mu.Unlock()

	if conn != nil {
		conn.close()
	}
}

// changed handles a notice of a changed list of tools. While the link connects, it is only
// recorded.
func (l *link) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.stale = true
	l.listAgain()
}

// listAgain schedules a listing, unless one is scheduled or in progress: refresh schedules the
// next one at its end. l.mu must be held.
func (l *link) listAgain() {
	if l.state == linkUp && l.relist == nil && !l.listing {
		l.relist = time.AfterFunc(relistPause, func() { l.manager.spawn(l.refresh) })
	}
}

// refresh lists the server's tools again after a notice, replaces the link's tools and saves the
// state.
func (l *link) refresh() {
	ctx, cancel := context.WithTimeout(l.manager.life, l.manager.connectTime())
	defer cancel()

	l.mu.Lock()
	l.relist = nil

	conn, server := l.conn, l.target.server
	if conn == nil || l.listing { // the next connection lists them, or the listing in progress is repeated
		l.mu.Unlock()
		return
	}

	l.stale, l.listing = false, true // a later notice requires another listing
	l.mu.Unlock()

	list, err := l.list(ctx, conn, server)

	l.mu.Lock()

	l.listing = false
	if l.stale {
		l.listAgain()
	}

	if l.conn != conn {
		l.mu.Unlock()
		return
	}

	if err != nil {
		l.err = "its changed tools cannot be listed: " + errorText(err, l.target.server.MCPServer)
	} else {
		l.take(list)
	}
	l.mu.Unlock()
	l.save(ctx)
}

// save stores the state in the database. Concurrent calls are serialised, so the last one stores
// the newest state.
func (l *link) save(ctx context.Context) {
	l.saving.Lock()
	defer l.saving.Unlock()

	l.mu.Lock()

	state := toolserver.Connection{
		SessionID: l.target.session.ID, Name: l.target.server.Name, Fingerprint: configHash(l.target.server),
		Error: l.err, Tools: l.catalog,
	}
	switch l.state {
	case linkConnecting:
		state.Status, state.Error = toolserver.Connecting, ""
	case linkUp:
		state.Status = toolserver.Connected
	case linkDown:
		state.Status = toolserver.Failed
	default:
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()

	if err := l.manager.Store.SaveMCPConnection(ctx, state); err != nil {
		l.manager.Logger.Warn("failed to store the state of a tool server",
			"session_id", state.SessionID, "server", state.Name, "error", err)
	}
}

// wait waits until a connecting link has settled, or until the deadline.
func (l *link) wait(ctx context.Context, deadline time.Time) {
	l.mu.Lock()
	settled, connecting := l.settled, l.state == linkConnecting
	l.mu.Unlock()

	left := time.Until(deadline)
	if !connecting || left <= 0 {
		return
	}

	late := time.NewTimer(left)
	defer late.Stop()

	select {
	case <-settled:
	case <-late.C:
	case <-ctx.Done():
	}
}

// tools returns the tools that the link offers now.
func (l *link) tools() []tools.Tool {
	l.mu.Lock()
	defer l.mu.Unlock()

	if !l.listed || l.refused != "" || l.state == linkClosed || l.state == linkDown && l.failures >= hopeless {
		return nil
	}

	if l.offer == nil {
		l.offer = l.makeOffer()
	}

	return l.offer
}
