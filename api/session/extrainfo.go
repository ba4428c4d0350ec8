package session

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
)

// extraInfoBody is domain.ExtraInfo as the contract describes it.
type extraInfoBody struct {
	SessionID *domain.SessionID `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Extra     map[string]any    `json:"extra" doc:"The stored values." example:"{\"task_id\": \"ticket-4711\"}"`
	CreatedAt *time.Time        `json:"created_at" doc:"null where nothing was kept."`
	UpdatedAt *time.Time        `json:"updated_at" doc:"null where nothing was kept."`
}

// ExtraInfoAPI keeps what clients attach to sessions.
type ExtraInfoAPI struct {
	access.Sessions
}

// Register adds the operations of the area to the interface.
func (a *ExtraInfoAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "get-extra-info", Method: fiber.MethodGet, Path: "/api/sessions/{session_id}/extra_info", Tag: "Extra info",
		Summary: "Get the extra info that clients store with a session",
		Scope:   auth.SessionsRead,
		Replies: []httpx.Reply{httpx.JSONReply[extraInfoBody](http.StatusOK)},
	}, func(ctx context.Context, in *access.SessionRef) (*httpx.Body[domain.ExtraInfo], error) {
		if _, _, err := a.Readable(ctx, in.SessionID); err != nil {
			return nil, err
		}

		return httpx.Answer(a.Store.ExtraInfo(ctx, in.SessionID))
	})
	httpx.Register(r, httpx.Operation{
		ID: "upset-extra-info", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/upset_extra_info", Tag: "Extra info",
		Summary:     "Set top-level keys of a session's extra info",
		Description: "Keys that are not given keep their values; null removes a key. The total size is limited to 1 MB.",
		Scope:       auth.SessionsWrite,
		Errors:      httpx.Codes{413: "extra_info_too_large"},
		Replies:     []httpx.Reply{httpx.JSONReply[extraInfoBody](http.StatusOK)},
		Example:     `{"extra": {"task_id": "ticket-4711"}}`,
	}, a.upsetExtraInfo)
	httpx.Register(r, httpx.Operation{
		ID: "get-extra-info-by-task", Method: fiber.MethodGet, Path: "/api/sessions/extra_info/by_task/{task_id}", Tag: "Extra info",
		Summary:     "Find the caller's session by its extra.task_id",
		Description: "Returns the newest session if there are several.",
		Scope:       auth.SessionsRead,
		Errors:      httpx.Codes{404: "session_not_found"},
		Replies:     []httpx.Reply{httpx.JSONReply[extraInfoBody](http.StatusOK)},
	}, func(ctx context.Context, in *struct {
		TaskID string `path:"task_id" maxLength:"4096" doc:"The value of extra.task_id." example:"ticket-4711"`
	},
	) (*httpx.Body[domain.ExtraInfo], error) {
		return httpx.Answer(a.Store.ExtraInfoByTask(ctx, httpx.CallerOf(ctx).User.ID, in.TaskID))
	})
}

func (a *ExtraInfoAPI) upsetExtraInfo(ctx context.Context, in *struct {
	access.SessionRef
	Body struct {
		// Kept as they came: numbers stay what they were.
		Extra map[string]json.RawMessage `json:"extra" doc:"Keys to set; null removes one. Other keys stay." example:"{\"task_id\": \"ticket-4711\"}"`
	}
},
) (*httpx.Body[domain.ExtraInfo], error) {
	if _, err := a.Own(ctx, in.SessionID); err != nil {
		return nil, err
	}

	return httpx.Answer(a.Store.MergeExtraInfo(ctx, in.SessionID, in.Body.Extra))
}
