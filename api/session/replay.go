package session

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/domain/replay"
)

// Replays play recorded sessions again (docs/replay.md). The caller may
// read the source, or owns the replay session that is changed.
type Replays interface {
	Preview(ctx context.Context, session domain.Session) (replay.Preview, error)
	Start(ctx context.Context, caller domain.User, session domain.Session, speed int) (sessionID domain.SessionID, err error)
	Change(ctx context.Context, owner domain.User, session domain.Session, change replay.Change) error
}

// replayTime bounds making a replay, and handing one over with its files.
const replayTime = 10 * time.Minute

type replayStateBody struct {
	ReplayState *domain.ReplayState `json:"replay_state" doc:"The state of the replay; null: the session is not a replay."`
}

// ReplayAPI replays sessions.
type ReplayAPI struct {
	access.Sessions
	Replays Replays
}

// Register adds the operations of the area to the interface.
func (a *ReplayAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "start-replay", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/replay", Tag: "Replay",
		Summary: "Create a session that replays the recorded events of this one",
		Description: "Anyone who may read the session may replay it. No tool runs and no model is called. The new session keeps the " +
			"recorded delays, divided by speed and capped.",
		Scope: auth.SessionsWrite, Stream: true,
		Errors:  httpx.Codes{409: "replay_unsupported session_busy"},
		Example: `{"speed": 5}`,
	}, a.startReplay)
	httpx.Register(r, httpx.Operation{
		ID: "preview-replay", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/replay/preview", Tag: "Replay",
		Summary:     "Check whether a session can be replayed",
		Description: "reason holds why a session cannot be replayed.",
		Scope:       auth.SessionsRead,
	}, func(ctx context.Context, in *access.SessionRef) (*httpx.Body[replay.Preview], error) {
		session, _, err := a.Readable(ctx, in.SessionID)
		if err != nil {
			return nil, err
		}

		return httpx.Answer(a.Replays.Preview(ctx, session))
	})
	httpx.Register(r, httpx.Operation{
		ID: "change-replay", Method: fiber.MethodPatch, Path: "/api/sessions/{session_id}/replay", Tag: "Replay",
		Summary:     "Change the speed of a replay, hand it over or resume it",
		Description: "The status autonomous passes the session to the caller; null resumes the replay.",
		Scope:       auth.SessionsWrite, Stream: true,
		Errors:  httpx.Codes{404: "replay_not_found", 409: "replay_over session_busy", 422: "replay_damaged"},
		Example: `{"speed": 2}`,
	}, a.changeReplay)
}

func (a *ReplayAPI) startReplay(ctx context.Context, in *struct {
	access.SessionRef
	Body struct {
		Speed int `json:"speed" enum:"1,2,5" doc:"How many times as fast as it was."`
	}
},
) (*httpx.Body[sessionCreated], error) {
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()

	session, _, err := a.Readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	made, err := a.Replays.Start(ctx, httpx.CallerOf(ctx).User, session, in.Body.Speed)

	return httpx.Answer(sessionCreated{made}, err)
}

func (a *ReplayAPI) changeReplay(ctx context.Context, in *struct {
	access.SessionRef
	Body struct {
		Speed  *int                   `json:"speed,omitempty" nullable:"true" enum:"1,2,5" doc:"Factor of the recorded speed."`
		Status httpx.Nullable[string] `json:"status,omitempty" enum:"autonomous" nullable:"true" doc:"autonomous gives the session to the caller where it is; null plays on."`
	}
},
) (*httpx.Body[replayStateBody], error) {
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()

	user := httpx.CallerOf(ctx).User

	session, err := a.Store.OwnSession(ctx, user, in.SessionID)
	if err != nil {
		return nil, err
	}

	status := in.Body.Status

	change := replay.Change{Speed: in.Body.Speed, HandOver: status.Value != nil, Resume: status.Present && status.Value == nil}
	if err := a.Replays.Change(ctx, user, session, change); err != nil {
		return nil, err
	}

	session, err = a.Store.OwnSession(ctx, user, in.SessionID)

	return httpx.Answer(replayStateBody{session.Replay}, err)
}
