package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"everloop/domain"
)

// Subjects of requests and notices of other processes to the workers.
const (
	lookSubject   = "mcp.look"   // one worker connects a session and replies
	forgetSubject = "mcp.forget" // all workers drop cache entries
	queueGroup    = "mcp"        // queue group
	lookTime      = patience + time.Second
	flushTime     = 2 * time.Second
)

// notice is the body of a message.
type notice struct {
	SessionID domain.SessionID `json:"session_id,omitempty"`
	ServerID  string           `json:"server_id,omitempty"`
	UserID    string           `json:"user_id,omitempty"`
}

// Remote sends requests and notices to the managers of all workers. A notice can be lost, for
// example when a connection breaks: a manager reads a session's servers again after seconds
// anyway.
type Remote struct{ Conn *nats.Conn }

// Look requests that a worker connect the session with its servers, and returns when their states
// are stored or after a moment.
func (r Remote) Look(ctx context.Context, sessionID domain.SessionID) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()

	body, err := json.Marshal(notice{SessionID: sessionID})
	if err != nil {
		return err
	}

	_, err = r.Conn.RequestWithContext(ctx, lookSubject, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return domain.Unavailablef("a worker", err)
	}

	return err
}

// ServerChanged announces that a server was created, changed or removed.
func (r Remote) ServerChanged(ctx context.Context, serverID string) error {
	return r.announce(ctx, notice{ServerID: serverID})
}

// SessionDeleted closes the connections of a session.
func (r Remote) SessionDeleted(ctx context.Context, sessionID domain.SessionID) error {
	return r.announce(ctx, notice{SessionID: sessionID})
}

// UserDeleted closes the connections of a user's sessions.
func (r Remote) UserDeleted(ctx context.Context, userID string) error {
	return r.announce(ctx, notice{UserID: userID})
}

func (r Remote) announce(ctx context.Context, n notice) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}

	if err := r.Conn.Publish(forgetSubject, body); err != nil {
		return domain.Unavailablef("signals", err)
	}

	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()

	if err := r.Conn.FlushWithContext(ctx); err != nil {
		return domain.Unavailablef("signals", err)
	}

	return nil
}

// Listen serves the requests and notices of Remote until the manager is closed.
func (m *Manager) Listen(ctx context.Context, conn *nats.Conn) error {
	look, err := conn.QueueSubscribe(lookSubject, queueGroup, func(msg *nats.Msg) {
		var n notice
		if json.Unmarshal(msg.Data, &n) != nil {
			return
		}

		m.spawn(func() {
			ctx, cancel := context.WithTimeout(m.life, lookTime)
			defer cancel()

			if err := m.Look(ctx, n.SessionID); err != nil {
				m.Logger.Info("failed to check the tool servers of a session", "session_id", n.SessionID, "error", err)
			}

			_ = msg.Respond(nil)
		})
	})
	if err != nil {
		return domain.Unavailablef("signals", err)
	}

	forget, err := conn.Subscribe(forgetSubject, func(msg *nats.Msg) {
		var n notice
		if json.Unmarshal(msg.Data, &n) == nil {
			m.forget(n)
		}
	})
	if err != nil {
		_ = look.Unsubscribe()
		return domain.Unavailablef("signals", err)
	}

	context.AfterFunc(m.life, func() {
		_ = look.Unsubscribe()
		_ = forget.Unsubscribe()
	})

	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()

	return conn.FlushWithContext(ctx)
}

// forget handles a notice immediately; it waits for closing connections outside the
// subscription's goroutine.
func (m *Manager) forget(n notice) {
	switch {
	case n.SessionID != "":
		m.spawn(func() { m.ForgetSession(n.SessionID) })
	case n.ServerID != "":
		m.mu.Lock()
		clear(m.known)
		m.mu.Unlock()
		m.spawn(func() { m.ForgetServer(n.ServerID) })
	case n.UserID != "":
		m.spawn(func() { m.ForgetUser(n.UserID) })
	}
}
