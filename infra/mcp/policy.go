package mcp

import (
	"context"
	"time"

	"everloop/domain"
	"everloop/domain/toolserver"
)

// Policies returns the network policy of a session. It applies to servers that are reached
// by HTTP and that users, or the database's solutions, configure.
type Policies interface {
	SessionPolicy(ctx context.Context, sessionID domain.SessionID) (domain.NetworkPolicy, error)
}

// policyEvery is the interval of reading the policies of open connections: a change takes effect
// within two seconds (docs/network.md#rules).
const policyEvery = time.Second

// policyFor returns the policy of a session when it applies to one of the servers. Without
// Policies no server is refused.
func policyFor(
	ctx context.Context, from Policies, sessionID domain.SessionID, servers []toolserver.Record,
) (refusal func(toolserver.Record) string, err error) {
	applies := false
	for _, s := range servers {
		applies = applies || s.UnderPolicy()
	}

	if from == nil || !applies {
		return func(toolserver.Record) string { return "" }, nil
	}

	policy, err := from.SessionPolicy(ctx, sessionID)

	return func(s toolserver.Record) string { return s.Refusal(policy) }, err
}

// admit applies the network policy of the session to its links. Refused links are closed, and
// their tools are withheld until the policy allows them again.
func (m *Manager) admit(ctx context.Context, sessionID domain.SessionID, links []*link) error {
	var servers []toolserver.Record
	for _, l := range links {
		servers = append(servers, l.server())
	}

	refusal, err := policyFor(ctx, m.Policies, sessionID, servers)
	if err != nil {
		return err
	}

	for i, l := range links {
		l.refuse(refusal(servers[i]))
	}

	return nil
}

// closeRefused periodically closes connections that the policies no longer allow. An unreadable
// policy closes none.
func (m *Manager) closeRefused() {
	ticker := time.NewTicker(policyEvery)
	defer ticker.Stop()

	for {
		select {
		case <-m.life.Done():
			return
		case <-ticker.C:
		}

		for sessionID, links := range m.connected() {
			if err := m.admit(m.life, sessionID, links); err != nil && m.life.Err() == nil {
				m.Logger.Warn("failed to read the network policy of a session", "session_id", sessionID, "error", err)
			}
		}
	}
}

// connected returns the links, by session, whose connections a policy applies to.
func (m *Manager) connected() map[domain.SessionID][]*link {
	m.mu.Lock()
	defer m.mu.Unlock()

	all := map[domain.SessionID][]*link{}

	for key, l := range m.links {
		l.mu.Lock()
		if l.target.server.UnderPolicy() && (l.state == linkUp || l.state == linkConnecting) {
			all[key.session] = append(all[key.session], l)
		}
		l.mu.Unlock()
	}

	return all
}

func (l *link) server() toolserver.Record {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.target.server
}

// refuse closes the link with the reason that the policy refuses its server, or lifts that
// when the reason is empty.
func (l *link) refuse(why string) {
	l.mu.Lock()

	if why == l.refused || l.state == linkClosed {
		l.mu.Unlock()
		return
	}

	l.refused = why
	if why == "" {
		l.mu.Unlock()
		return
	}

	if l.state == linkConnecting {
		l.abort()
	}

	conn := l.conn
	l.state, l.conn, l.err, l.failures, l.retryAt = linkDown, nil, why, 0, time.Time{}
	l.mu.Unlock()

	if conn != nil {
		conn.drop()
	}

	l.save(l.manager.life)
}

// admitted returns the reason why the policy currently refuses a call of the server; empty:
// allowed.
func (l *link) admitted(ctx context.Context) (why string, err error) {
	l.mu.Lock()
	sessionID := l.target.session.ID
	l.mu.Unlock()

	if err := l.manager.admit(ctx, sessionID, []*link{l}); err != nil {
		return "", err
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	return l.refused, nil
}
