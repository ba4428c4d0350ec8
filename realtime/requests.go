package realtime

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"everloop/auth"
	"everloop/chatrequest"
	"everloop/domain"
)

// sessionNamed is the payload of a client event that names a session, and is embedded in
// others.
type sessionNamed struct {
	SessionID domain.SessionID `json:"session_id" required:"true" minLength:"1"`
}

// maxFollows bounds the sessions that one connection can follow.
const maxFollows = 1000

type subscribed struct {
	OK bool `json:"ok"`
	Snapshot
}

func (p *Protocol) subscribe(ctx context.Context, c *client, payload json.RawMessage) (any, func(), error) {
	var body struct {
		sessionNamed
		AfterSeq *uint64 `json:"after_seq"`
	}
	if err := chatrequest.Decode(payload, &body); err != nil {
		return nil, nil, err
	}

	sessionID, connected := body.SessionID, ctx

	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	if err := p.mayRead(ctx, c, sessionID); err != nil {
		c.unfollow(sessionID)
		return nil, nil, err
	}

	c.unfollow(sessionID) // waits until its last event is sent before the new answer

	if c.follows() >= maxFollows {
		return nil, nil, domain.Newf(domain.RateLimited, "too_many_subscriptions",
			"one connection can follow %d sessions", maxFollows)
	}

	sub, err := p.cfg.Hub.Subscribe(ctx, sessionID, body.AfterSeq)
	if err != nil {
		return nil, nil, err
	}

	return subscribed{true, sub.Snapshot()}, func() {
		c.follow(sub)
		// RightsChanged found no subscription while this one was created: one more read of the
		// role, in addition to the snapshot's reads, sees the change.
		p.recheckFollows(connected, []follow{{c, sessionID}})
	}, nil
}

type unsubscribed struct {
	OK        bool             `json:"ok"`
	SessionID domain.SessionID `json:"session_id"`
}

func (p *Protocol) unsubscribe(_ context.Context, c *client, payload json.RawMessage) (any, func(), error) {
	var body sessionNamed
	if err := chatrequest.Decode(payload, &body); err != nil {
		return nil, nil, err
	}

	if !c.unfollow(body.SessionID) {
		if _, err := uuid.Parse(string(body.SessionID)); err != nil {
			return nil, nil, domain.Invalidf("body.session_id", "is not an id")
		}
	}

	return unsubscribed{true, body.SessionID}, nil, nil
}

type sent struct {
	OK bool `json:"ok"`
	domain.SendAck
}

type answered struct {
	OK bool `json:"ok"`
	domain.AnswerAck
}

func (p *Protocol) send(ctx context.Context, c *client, payload json.RawMessage) (any, func(), error) {
	body, err := chatrequest.ParseChat(payload)
	if err != nil {
		return nil, nil, err
	}

	if body.SessionID == "" {
		return nil, nil, domain.Invalidf("body.session_id", "is required")
	}

	ctx, cancel := request(ctx)
	defer cancel()

	session, err := p.own(ctx, c, body.SessionID)
	if err != nil {
		return nil, nil, err
	}

	if body.Answer != nil {
		ack, err := p.cfg.Chats.AnswerIn(ctx, c.caller, session, *body.Answer)
		return answered{true, ack}, nil, err
	}

	ack, err := p.cfg.Chats.SendTo(ctx, c.caller, session, body.Send)

	return sent{true, ack}, nil, err
}

type stopped struct {
	OK      bool `json:"ok"`
	Stopped bool `json:"stopped"`
}

func (p *Protocol) stop(ctx context.Context, c *client, payload json.RawMessage) (any, func(), error) {
	var body struct {
		sessionNamed
		chatrequest.StopScope
	}
	if err := chatrequest.Decode(payload, &body); err != nil {
		return nil, nil, err
	}

	ctx, cancel := request(ctx)
	defer cancel()

	session, err := p.own(ctx, c, body.SessionID)
	if err != nil {
		return nil, nil, err
	}

	done, err := p.cfg.Chats.StopIn(ctx, c.caller, session, body.AndQueue())

	return stopped{true, done}, nil, err
}

type compacting struct {
	OK           bool   `json:"ok"`
	CompactionID string `json:"compaction_id"`
}

func (p *Protocol) compact(ctx context.Context, c *client, payload json.RawMessage) (any, func(), error) {
	var body sessionNamed
	if err := chatrequest.Decode(payload, &body); err != nil {
		return nil, nil, err
	}

	ctx, cancel := request(ctx)
	defer cancel()

	if _, err := p.own(ctx, c, body.SessionID); err != nil {
		return nil, nil, err
	}

	id, err := p.cfg.Chats.Compact(ctx, c.caller, body.SessionID)

	return compacting{true, id}, nil, err
}

// role returns the caller's role in a session.
func (p *Protocol) role(ctx context.Context, c *client, sessionID domain.SessionID) (domain.ViewerRole, error) {
	if err := checkID(sessionID); err != nil {
		return "", err
	}

	return p.cfg.Sessions.Role(ctx, c.caller, sessionID)
}

// mayRead rejects callers who cannot see the session. Access by an administrator's privilege is
// recorded before any data is sent.
func (p *Protocol) mayRead(ctx context.Context, c *client, sessionID domain.SessionID) error {
	role, err := p.role(ctx, c, sessionID)
	if err != nil || role != domain.ViewerAdmin {
		return err
	}

	details := map[string]string{"edge": string(auth.EdgeSocketIO), "event": SessionSubscribe}

	return p.cfg.Auditor.Write(ctx, c.caller.User.ID, auth.ActionSessionRead, string(sessionID), details)
}

// own returns a session of the caller's, and rejects all callers except its owner.
func (p *Protocol) own(ctx context.Context, c *client, sessionID domain.SessionID) (domain.SessionRun, error) {
	if err := checkID(sessionID); err != nil {
		return domain.SessionRun{}, err
	}

	return p.cfg.Sessions.Own(ctx, c.caller, sessionID)
}

// checkID rejects a text that cannot be an id.
func checkID(id domain.SessionID) error {
	if !isID(string(id)) {
		return domain.Newf(domain.NotFound, domain.CodeSessionNotFound, "the session does not exist")
	}

	return nil
}

// isID reports whether text can be an id: ids are opaque, short and plain.
func isID(text string) bool {
	if text == "" || len(text) > 128 {
		return false
	}

	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_':
		default:
			return false
		}
	}

	return true
}
