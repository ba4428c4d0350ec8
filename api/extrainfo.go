package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// ExtraInfos keep what clients attach to sessions. The caller was let in.
type ExtraInfos interface {
	ExtraInfo(ctx context.Context, sessionID string) (domain.ExtraInfo, error)
	// MergeExtraInfo sets top-level keys; null removes one. Extra info larger than
	// domain.MaxExtraInfo is extra_info_too_large.
	MergeExtraInfo(ctx context.Context, sessionID string, change map[string]json.RawMessage) (domain.ExtraInfo, error)
	// ExtraInfoByTask looks among the owner's sessions; nothing found is no error.
	ExtraInfoByTask(ctx context.Context, ownerID, taskID string) (domain.ExtraInfo, error)
}

// extraInfoBody is domain.ExtraInfo as the contract describes it.
type extraInfoBody struct {
	SessionID *string        `json:"session_id"`
	Extra     map[string]any `json:"extra"`
	CreatedAt *time.Time     `json:"created_at" doc:"null where nothing was kept."`
	UpdatedAt *time.Time     `json:"updated_at" doc:"null where nothing was kept."`
}

func (s *server) extraInfoRoutes() {
	const tag = "Extra info"
	add(s, operation{
		id: "get-extra-info", method: fiber.MethodGet, path: "/api/sessions/{session_id}/extra_info", tag: tag,
		summary: "What clients keep with a session", scope: auth.SessionsRead, changes: describeJSON[extraInfoBody](s),
	}, func(ctx context.Context, in *SessionRef) (*body[domain.ExtraInfo], error) {
		if _, _, err := s.readable(ctx, in.SessionID); err != nil {
			return nil, err
		}
		return answer(s.ExtraInfos.ExtraInfo(ctx, in.SessionID))
	})
	add(s, operation{
		id: "upset-extra-info", method: fiber.MethodPost, path: "/api/sessions/{session_id}/upset_extra_info", tag: tag,
		summary: "Set top-level keys of a session's extra info; null removes one", scope: auth.SessionsWrite,
		changes: describeJSON[extraInfoBody](s),
	}, s.upsetExtraInfo)
	add(s, operation{
		id: "get-extra-info-by-task", method: fiber.MethodGet, path: "/api/sessions/extra_info/by_task/{task_id}", tag: tag,
		summary: "The caller's session whose extra.task_id is the given one", scope: auth.SessionsRead,
		changes: describeJSON[extraInfoBody](s),
	}, func(ctx context.Context, in *struct {
		TaskID string `path:"task_id" maxLength:"4096"`
	},
	) (*body[domain.ExtraInfo], error) {
		return answer(s.ExtraInfos.ExtraInfoByTask(ctx, callerOf(ctx).User.ID, in.TaskID))
	})
}

func (s *server) upsetExtraInfo(ctx context.Context, in *struct {
	SessionRef
	Body struct {
		// Kept as they came: numbers stay what they were.
		Extra map[string]json.RawMessage `json:"extra" doc:"Keys to set; null removes one. Other keys stay."`
	}
},
) (*body[domain.ExtraInfo], error) {
	if _, err := s.Store.OwnSession(ctx, callerOf(ctx).User, in.SessionID); err != nil {
		return nil, err
	}
	return answer(s.ExtraInfos.MergeExtraInfo(ctx, in.SessionID, in.Body.Extra))
}
