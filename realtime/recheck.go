package realtime

import (
	"context"
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
			p.recheck(ctx, "")
		}
	}
}

// SessionChanged checks at once who may still follow a session: for when it was
// deleted or is no longer shared. A session that is followed here and by
// others elsewhere is checked there within Recheck.
func (p *Protocol) SessionChanged(ctx context.Context, sessionID string) { p.recheck(ctx, sessionID) }

// recheck looks at one session's followers, or at everything for "".
func (p *Protocol) recheck(ctx context.Context, only string) {
	p.mu.Lock()
	clients := make([]*client, 0, len(p.clients))
	for _, c := range p.clients {
		clients = append(clients, c)
	}
	p.mu.Unlock()
	for _, c := range clients {
		if ctx.Err() != nil {
			return
		}
		if only == "" && !p.alive(c) {
			c.conn.Close()
			continue
		}
		for _, id := range c.sessions() {
			if only == "" || only == id {
				p.recheckFollow(ctx, c, id)
			}
		}
	}
}

// recheckFollow ends a subscription that its caller has no right to any more.
func (p *Protocol) recheckFollow(ctx context.Context, c *client, sessionID string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := p.cfg.Sessions.Role(ctx, c.caller, sessionID)
	if err == nil {
		return
	}
	switch domain.AsError(err).Kind {
	case domain.NotFound, domain.Forbidden, domain.Unauthenticated, domain.Gone:
		if c.unfollow(sessionID) {
			c.emit(SessionError, sessionError{SessionID: sessionID, Event: SessionSubscribe, Error: NewFailure(err)})
		}
	default: // no answer changes nothing
	}
}

// alive reports whether a connection's credential still holds.
func (p *Protocol) alive(c *client) bool {
	ctx, cancel := request(c)
	defer cancel()
	ok, err := p.cfg.Sessions.Alive(ctx, c.caller)
	if err != nil {
		p.cfg.Logger.Warn("a credential could not be checked again", "user", c.caller.User.ID, "error", err)
		return true
	}
	return ok
}
