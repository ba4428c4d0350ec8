package realtime

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"everloop/domain"
)

// maxFollows is how many sessions one connection may follow.
const maxFollows = 1000

type subscribed struct {
	OK bool `json:"ok"`
	Snapshot
}

func (p *Protocol) subscribe(c *client, payload json.RawMessage) (any, func(), error) {
	f := object("body", payload)
	sessionID, after := f.id("session_id"), f.count("after_seq", 64)
	if f.err != nil {
		return nil, nil, f.err
	}
	ctx, cancel := context.WithTimeout(c.conn.Context(), requestTimeout)
	defer cancel()
	if _, err := p.role(ctx, c, sessionID); err != nil {
		c.unfollow(sessionID)
		return nil, nil, err
	}
	c.unfollow(sessionID) // its last event is out before the new answer
	if c.follows() >= maxFollows {
		return nil, nil, domain.Newf(domain.RateLimited, "too_many_subscriptions",
			"one connection can follow %d sessions", maxFollows)
	}
	sub, err := p.cfg.Hub.Subscribe(ctx, sessionID, after)
	if err != nil {
		return nil, nil, err
	}
	return subscribed{true, sub.Snapshot()}, func() { c.follow(sub) }, nil
}

type unsubscribed struct {
	OK        bool   `json:"ok"`
	SessionID string `json:"session_id"`
}

func (p *Protocol) unsubscribe(c *client, payload json.RawMessage) (any, func(), error) {
	f := object("body", payload)
	sessionID := f.id("session_id")
	if f.err == nil && !c.unfollow(sessionID) {
		if _, err := uuid.Parse(sessionID); err != nil {
			f.fail("session_id", "is not an id")
		}
	}
	return unsubscribed{true, sessionID}, nil, f.err
}

type sent struct {
	OK bool `json:"ok"`
	domain.SendAck
}

type answered struct {
	OK bool `json:"ok"`
	domain.AnswerAck
}

func (p *Protocol) send(c *client, payload json.RawMessage) (any, func(), error) {
	body, err := ParseSend(payload)
	if err != nil {
		return nil, nil, err
	}
	if body.SessionID == "" {
		return nil, nil, domain.Invalidf("body.session_id", "is required")
	}
	ctx, cancel := request(c)
	defer cancel()
	if err := p.owner(ctx, c, body.SessionID); err != nil {
		return nil, nil, err
	}
	if body.Answer != nil {
		ack, err := p.cfg.Desk.Answer(ctx, c.caller, body.SessionID, *body.Answer)
		return answered{true, ack}, nil, err
	}
	ack, err := p.cfg.Desk.Send(ctx, c.caller, body.Send)
	return sent{true, ack}, nil, err
}

type stopped struct {
	OK      bool `json:"ok"`
	Stopped bool `json:"stopped"`
}

func (p *Protocol) stop(c *client, payload json.RawMessage) (any, func(), error) {
	const chat, chatAndQueue = "chat", "chat_and_queue"
	f := object("body", payload)
	sessionID, scope := f.id("session_id"), f.oneOf("scope", chat, chat, chatAndQueue)
	if f.err != nil {
		return nil, nil, f.err
	}
	ctx, cancel := request(c)
	defer cancel()
	if err := p.owner(ctx, c, sessionID); err != nil {
		return nil, nil, err
	}
	done, err := p.cfg.Desk.Stop(ctx, c.caller, sessionID, scope == chatAndQueue)
	return stopped{true, done}, nil, err
}

type compacting struct {
	OK           bool   `json:"ok"`
	CompactionID string `json:"compaction_id"`
}

func (p *Protocol) compact(c *client, payload json.RawMessage) (any, func(), error) {
	f := object("body", payload)
	sessionID := f.id("session_id")
	if f.err != nil {
		return nil, nil, f.err
	}
	ctx, cancel := request(c)
	defer cancel()
	if err := p.owner(ctx, c, sessionID); err != nil {
		return nil, nil, err
	}
	id, err := p.cfg.Desk.Compact(ctx, c.caller, sessionID)
	return compacting{true, id}, nil, err
}

// role is what the caller is to a session. What cannot be an id names no session.
func (p *Protocol) role(ctx context.Context, c *client, sessionID string) (domain.ViewerRole, error) {
	if !isID(sessionID) {
		return "", domain.Newf(domain.NotFound, domain.CodeSessionNotFound, "the session does not exist")
	}
	return p.cfg.Sessions.Role(ctx, c.caller, sessionID)
}

// owner refuses everybody but the session's owner.
func (p *Protocol) owner(ctx context.Context, c *client, sessionID string) error {
	role, err := p.role(ctx, c, sessionID)
	if err != nil {
		return err
	}
	if role != domain.ViewerOwner {
		return domain.Newf(domain.Forbidden, "forbidden", "only the session's owner can do this")
	}
	return nil
}
