package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
	"everloop/realtime"
)

type eventsInput struct {
	SessionRef
	// -1 stands for "only what happens from now on".
	AfterSeq    int64  `query:"after_seq" default:"-1" minimum:"-1" doc:"First the kept events after this one; 0: all that is kept."`
	LastEventID string `header:"Last-Event-ID" doc:"What a reconnecting EventSource sends; it counts before after_seq."`
}

func (s *server) eventRoutes() {
	add(s, operation{
		id: "stream-events", method: fiber.MethodGet, path: "/api/sessions/{session_id}/events", tag: "Chat",
		summary: "The session's events as server-sent events: id is the seq, event the name", scope: auth.SessionsRead,
		stream: true, changes: describeAs(http.StatusOK, "text/event-stream"),
	}, s.events)
}

func (s *server) events(ctx context.Context, in *eventsInput) (*streamed, error) {
	_, role, err := s.readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	subscription, err := s.Streams(ctx, in.SessionID, after)
	if err != nil {
		return nil, err
	}
	return &streamed{func(ctx huma.Context) {
		stay := s.mayStay(callerOf(ctx.Context()), in.SessionID, role)
		s.openStream(ctx, func(ctx context.Context, out *eventStream) error {
			defer subscription.Close()
			return s.follow(ctx, out, in.SessionID, subscription, stay, func(domain.LoggedEvent) (send, last bool) { return true, false })
		})
	}}, nil
}

func (in *eventsInput) after() (*uint64, error) {
	if in.LastEventID != "" {
		seq, err := strconv.ParseUint(in.LastEventID, 10, 64)
		if err != nil {
			return nil, domain.Invalidf("header.Last-Event-ID", "is not the id of an event")
		}
		return &seq, nil
	}
	if in.AfterSeq < 0 {
		return nil, nil
	}
	seq := uint64(in.AfterSeq)
	return &seq, nil
}

// mayStay gives the question that a stream asks at every pulse: whether the
// credentials still hold, and the session may still be seen. What the records
// cannot answer now does not end a stream.
func (s *server) mayStay(caller domain.Caller, sessionID string, role domain.ViewerRole) func(context.Context) error {
	return func(ctx context.Context) error {
		if !s.Auth.Alive(ctx, caller) {
			return domain.Newf(domain.Unauthenticated, domain.CodeUnauthorized, "the credential is not valid any more")
		}
		_, now, err := s.Store.ReadSession(ctx, caller.User, sessionID)
		switch {
		case domain.HasCode(err, domain.CodeSessionNotFound):
			return err
		case err == nil && now != role:
			return domain.Newf(domain.Forbidden, "access_lost", "the right to follow this session has ended")
		}
		return nil
	}
}

// endStream tells the client why the stream ends, in the form of decisions.md
// section 3: it has lost the right to it, or was too slow and goes on by coming
// again with the position named.
func endStream(out *eventStream, sessionID string, position uint64, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	name, data := realtime.SessionResync, map[string]any{
		"session_id": sessionID, "seq": position, "ts": time.Now().UTC().Format(time.RFC3339Nano),
	}
	if _, ok := errors.AsType[*domain.Error](err); ok {
		name, data = realtime.SessionError, map[string]any{
			"session_id": sessionID, "event": realtime.SessionSubscribe, "error": realtime.NewFailure(err),
		}
	}
	payload, _ := json.Marshal(data)
	out.named(name, payload)
	_ = out.flush()
	return err
}
