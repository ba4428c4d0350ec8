package api

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// Replays play recorded sessions again (decisions.md section 5). The caller may
// read the source, or owns the replay session that is changed.
type Replays interface {
	Preview(ctx context.Context, session domain.Session) (domain.ReplayPreview, error)
	Start(ctx context.Context, caller domain.User, session domain.Session, speed int) (sessionID string, err error)
	Change(ctx context.Context, owner domain.User, session domain.Session, change domain.ReplayChange) error
}

// replayTime bounds making a replay, and handing one over with its files.
const replayTime = 10 * time.Minute

type replayStateBody struct {
	ReplayState *domain.ReplayState `json:"replay_state"`
}

func (s *server) replayRoutes() {
	const path, tag = "/api/sessions/{session_id}/replay", "Replay"
	add(s, operation{
		id: "start-replay", method: fiber.MethodPost, path: path, tag: tag, stream: true,
		summary: "Make a session that plays the recorded events of this one; no tool runs and no model is called", scope: auth.SessionsWrite,
	}, s.startReplay)
	add(s, operation{
		id: "preview-replay", method: fiber.MethodGet, path: path + "/preview", tag: tag,
		summary: "Whether a session can be replayed, and why not", scope: auth.SessionsRead,
	}, func(ctx context.Context, in *SessionRef) (*body[domain.ReplayPreview], error) {
		session, _, err := s.readable(ctx, in.SessionID)
		if err != nil {
			return nil, err
		}
		return answer(s.Replays.Preview(ctx, session))
	})
	add(s, operation{
		id: "change-replay", method: fiber.MethodPatch, path: path, tag: tag, stream: true,
		summary: "Change the speed of a replay session, hand it over (autonomous) or play on (null)", scope: auth.SessionsWrite,
	}, s.changeReplay)
}

func (s *server) startReplay(ctx context.Context, in *struct {
	SessionRef
	Body struct {
		Speed int `json:"speed" enum:"1,2,5" doc:"How many times as fast as it was."`
	}
},
) (*body[sessionCreated], error) {
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	session, _, err := s.readable(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	made, err := s.Replays.Start(ctx, callerOf(ctx).User, session, in.Body.Speed)
	return answer(sessionCreated{made}, err)
}

func (s *server) changeReplay(ctx context.Context, in *struct {
	SessionRef
	Body struct {
		Speed  *int             `json:"speed,omitempty" nullable:"true" enum:"1,2,5"`
		Status nullable[string] `json:"status,omitempty" enum:"autonomous" nullable:"true" doc:"autonomous hands the session over where it is; null plays on."`
	}
},
) (*body[replayStateBody], error) {
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	user := callerOf(ctx).User
	session, err := s.Store.OwnSession(ctx, user, in.SessionID)
	if err != nil {
		return nil, err
	}
	status := in.Body.Status
	change := domain.ReplayChange{Speed: in.Body.Speed, HandOver: status.value != nil, Resume: status.present && status.value == nil}
	if err := s.Replays.Change(ctx, user, session, change); err != nil {
		return nil, err
	}
	session, err = s.Store.OwnSession(ctx, user, in.SessionID)
	return answer(replayStateBody{session.Replay}, err)
}
