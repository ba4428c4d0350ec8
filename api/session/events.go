package session

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

type eventsInput struct {
	access.SessionRef
	// -1 stands for "only what happens from now on".
	AfterSeq    int64  `query:"after_seq" default:"-1" minimum:"-1" doc:"First the kept events after this one; 0: all that is kept." example:"118"`
	LastEventID string `header:"Last-Event-ID" doc:"What a reconnecting EventSource sends; it counts before after_seq." example:"118"`
}

// EventsAPI streams the events of sessions.
type EventsAPI struct {
	access.Sessions
	Follower
}

// Register adds the operations of the area to the interface.
func (a *EventsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "stream-events", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/events", Tag: "Chat",
		Summary: "Stream the session's events as server-sent events",
		Description: "The id of each event is its sequence number, its name the event's; a client that reconnects with Last-Event-ID " +
			"misses nothing. The stream does not end by itself; if the service ends it, it sends session:error or " +
			"session:resync with the reason.",
		Scope: auth.SessionsRead, Stream: true,
		Replies: []httpx.Reply{{
			Status: http.StatusOK, Types: []string{"text/event-stream"},
			Example: "id: 118\nevent: session:updated\ndata: {\"seq\":118,\"prev_seq\":0,\"status\":\"created\"}\n\n",
		}},
	}, a.events)
}

func (a *EventsAPI) events(ctx context.Context, in *eventsInput) (*httpx.Streamed, error) {
	_, role, err := a.Readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	after, err := in.after()
	if err != nil {
		return nil, err
	}

	subscription, err := a.Subscribe(ctx, in.SessionID, after)
	if err != nil {
		return nil, err
	}

	return &httpx.Streamed{Body: func(ctx huma.Context) {
		stay := a.mayStay(httpx.CallerOf(ctx.Context()), in.SessionID, role)
		a.Streams.Open(ctx, func(ctx context.Context, out *httpx.EventStream) error {
			defer subscription.Close()
			return a.follow(ctx, out, in.SessionID, subscription, stay, func(domain.LoggedEvent) (send, last bool) { return true, false })
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
