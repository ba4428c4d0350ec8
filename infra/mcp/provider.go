package mcp

import (
	"context"
	"errors"
	"time"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/toolserver"
)

// Tools implements tools.Provider: the tools of all servers of the session. It waits once,
// briefly, for a server that is connecting.
func (m *Manager) Tools(ctx context.Context, s tools.Scope) []tools.Tool {
	links := m.connect(ctx, s.Session, s.Profile.MCPServers, func(l *link) time.Time {
		l.mu.Lock()
		defer l.mu.Unlock()

		if l.listed {
			return time.Time{} // its tools were listed earlier
		}

		return l.began.Add(patience)
	})

	var all []tools.Tool
	for _, l := range links {
		all = append(all, l.tools()...)
	}

	return all
}

// Look connects a session with its servers and waits a moment, so that the
// stored states are current.
func (m *Manager) Look(ctx context.Context, sessionID domain.SessionID) error {
	session, err := m.Store.MCPSession(ctx, sessionID)
	if err != nil {
		return err
	}

	deadline := time.Now().Add(patience)

	m.connect(ctx, session, m.Profile(session).MCPServers, func(*link) time.Time { return deadline })

	return nil
}

// connect starts missing connections and waits for each link until its deadline.
func (m *Manager) connect(ctx context.Context, session domain.Session, configured []domain.MCPServer, until func(*link) time.Time) []*link {
	links, fresh, err := m.linksOf(ctx, session, configured)
	if err != nil {
		m.Logger.Warn("failed to read the tool servers of a session", "session_id", session.ID, "error", err)
		return nil
	}

	if len(fresh) > 0 {
		m.remember(ctx, session.ID, fresh)
	}

	if err := m.admit(ctx, session.ID, links); err != nil {
		m.Logger.Warn("failed to read the network policy of a session", "session_id", session.ID, "error", err)
		return nil
	}

	for _, l := range links {
		l.mu.Lock()
		l.start()
		l.mu.Unlock()
	}

	for _, l := range links {
		l.wait(ctx, until(l))
	}

	return links
}

var errChanging = errors.New("tool servers change faster than they are read")

// linksOf returns a session's links to its current servers.
func (m *Manager) linksOf(
	ctx context.Context, session domain.Session, configured []domain.MCPServer,
) (links, fresh []*link, err error) {
	for range maxReads {
		servers, k, err := m.servers(ctx, session.ID)
		if err != nil {
			return nil, nil, err
		}

		used, _ := toolserver.Used(toolserver.WithConfigured(servers, configured))

		links, fresh, current := m.linkAll(session, used, k)
		if current {
			return links, fresh, nil
		}
		// Check the session itself: it may be deleted, while the servers of its profile still
		// exist.
		if _, err := m.Store.MCPSession(ctx, session.ID); err != nil {
			return nil, nil, err
		}
	}

	return nil, nil, errChanging
}

// remember initialises new links with the tools that another connection, possibly of another
// process, stored earlier.
func (m *Manager) remember(ctx context.Context, sessionID domain.SessionID, fresh []*link) {
	states, err := m.Store.MCPConnections(ctx, sessionID)
	if err != nil {
		m.Logger.Warn("failed to read the states of tool servers", "session_id", sessionID, "error", err)
		return
	}

	for _, l := range fresh {
		l.mu.Lock()
		for _, s := range states {
			if s.Name == l.target.server.Name && s.Fingerprint == configHash(l.target.server) && len(s.Tools) > 0 && !l.listed {
				l.catalog, l.listed = s.Tools, true
			}
		}
		l.mu.Unlock()
	}
}
