package realtime

import (
	"context"
	"slices"
	"time"

	"everloop/domain"
)

// Run checks every Recheck whether credentials and permissions are still valid, until ctx ends.
func (p *Protocol) Run(ctx context.Context) error {
	ticker := time.NewTicker(p.cfg.Recheck)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			p.recheck(ctx)
		}
	}
}

// RightsChanged immediately checks the connections and subscriptions that a change of rights
// affects.
func (p *Protocol) RightsChanged(ctx context.Context, change domain.RightsChange) {
	var (
		clients []*client
		follows []follow
	)

	for _, c := range p.connected() {
		switch {
		case change.SessionID != "":
			if slices.Contains(c.sessions(), change.SessionID) {
				follows = append(follows, follow{c, change.SessionID})
			}
		case change.KeyID != "" && change.KeyID != c.caller.KeyID, change.UserID != "" && change.UserID != c.caller.User.ID:
		default:
			clients = append(clients, c)
		}
	}

	p.recheckClients(ctx, clients)
	p.recheckFollows(ctx, follows)
}

// recheck checks all connections.
func (p *Protocol) recheck(ctx context.Context) { p.recheckClients(ctx, p.connected()) }

func (p *Protocol) connected() []*client {
	p.mu.Lock()
	defer p.mu.Unlock()

	clients := make([]*client, 0, len(p.clients))
	for _, c := range p.clients {
		clients = append(clients, c)
	}

	return clients
}

// recheckBatch bounds the credentials, or subscriptions, of one query.
const recheckBatch = 1000

// follow is a subscription of a connection.
type follow struct {
	client  *client
	session domain.SessionID
}

// recheckClients closes the connections whose credential is no longer valid, and checks the
// subscriptions of the others.
func (p *Protocol) recheckClients(ctx context.Context, clients []*client) {
	var follows []follow

	for part := range slices.Chunk(clients, recheckBatch) {
		if ctx.Err() != nil {
			return
		}

		for i, alive := range p.alive(ctx, part...) {
			if !alive {
				part[i].conn.Close()
				continue
			}

			for _, id := range part[i].sessions() {
				follows = append(follows, follow{part[i], id})
			}
		}
	}

	p.recheckFollows(ctx, follows)
}

// recheckFollows ends the subscriptions whose callers can no longer see the session.
func (p *Protocol) recheckFollows(ctx context.Context, follows []follow) {
	for part := range slices.Chunk(follows, recheckBatch) {
		if ctx.Err() != nil {
			return
		}

		for i, visible := range p.visible(ctx, part) {
			if !visible {
				part[i].end()
			}
		}
	}
}

// end ends a subscription whose caller cannot see the session.
func (f follow) end() {
	if f.client.unfollow(f.session) {
		f.client.emit(domain.EventSessionError, domain.SessionError{
			SessionID: f.session, Event: SessionSubscribe, Error: domain.NewFailure(domain.SessionNotFound(f.session)),
		})
	}
}

// visible reports for each subscription whether its caller can see the session; nil when that
// is unknown.
func (p *Protocol) visible(ctx context.Context, follows []follow) []bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	viewers := make([]domain.SessionViewer, len(follows))
	for i, f := range follows {
		viewers[i] = domain.SessionViewer{User: f.client.caller.User, SessionID: f.session}
	}

	visible, err := p.cfg.Sessions.Visible(ctx, viewers)
	if err != nil {
		p.cfg.Logger.Warn("failed to check subscriptions again", "subscriptions", len(follows), "error", err)
		return nil
	}

	return visible
}

// alive reports for each connection whether its credential is still valid.
func (p *Protocol) alive(ctx context.Context, clients ...*client) []bool {
	ctx, cancel := request(ctx)
	defer cancel()

	callers := make([]domain.Caller, len(clients))
	for i, c := range clients {
		callers[i] = c.caller
	}

	return p.cfg.Sessions.Alive(ctx, callers)
}
