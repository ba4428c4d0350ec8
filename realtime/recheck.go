package realtime

import (
	"context"
	"slices"
	"time"

	"everloop/domain"
)

// Run checks every Recheck whether credentials and permissions still hold,
// until ctx ends.
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

// RightsChanged checks at once the connections and subscriptions that a change of
// rights concerns.
func (p *Protocol) RightsChanged(ctx context.Context, change domain.RightsChange) {
	for _, c := range p.connected() {
		switch {
		case ctx.Err() != nil:
			return
		case change.SessionID != "":
			if slices.Contains(c.sessions(), change.SessionID) {
				p.recheckFollow(ctx, c, change.SessionID)
			}
		case change.KeyID != "" && change.KeyID != c.caller.KeyID, change.UserID != "" && change.UserID != c.caller.User.ID:
		default:
			p.recheckClient(ctx, c)
		}
	}
}

// recheck looks at everything.
func (p *Protocol) recheck(ctx context.Context) {
	for _, c := range p.connected() {
		if ctx.Err() != nil {
			return
		}

		p.recheckClient(ctx, c)
	}
}

func (p *Protocol) connected() []*client {
	p.mu.Lock()
	defer p.mu.Unlock()

	clients := make([]*client, 0, len(p.clients))
	for _, c := range p.clients {
		clients = append(clients, c)
	}

	return clients
}

// recheckClient closes a connection whose credential does not hold any more, and looks
// at the subscriptions of others.
func (p *Protocol) recheckClient(ctx context.Context, c *client) {
	if !p.alive(ctx, c) {
		c.conn.Close()
		return
	}

	for _, id := range c.sessions() {
		p.recheckFollow(ctx, c, id)
	}
}

// recheckFollow ends a subscription that its caller has no right to any more.
func (p *Protocol) recheckFollow(ctx context.Context, c *client, sessionID domain.SessionID) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	_, err := p.cfg.Sessions.Role(ctx, c.caller, sessionID)
	if err == nil {
		return
	}

	switch domain.AsError(err).Kind {
	case domain.NotFound, domain.Forbidden, domain.Unauthenticated, domain.Gone:
		if c.unfollow(sessionID) {
			c.emit(domain.EventSessionError, domain.SessionError{
				SessionID: sessionID, Event: SessionSubscribe, Error: domain.NewFailure(err),
			})
		}
	default: // no answer changes nothing
	}
}

// alive reports whether a connection's credential still holds.
func (p *Protocol) alive(ctx context.Context, c *client) bool {
	ctx, cancel := request(ctx)
	defer cancel()

	ok, err := p.cfg.Sessions.Alive(ctx, c.caller)
	if err != nil {
		p.cfg.Logger.Warn("failed to check a credential again", "user", c.caller.User.ID, "error", err)
		return true
	}

	return ok
}
