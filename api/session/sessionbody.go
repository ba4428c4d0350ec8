package session

import (
	"time"

	"everloop/api/sessiondetail"
	"everloop/domain"
)

// sessionSummary is one session in the list (docs/rest.md).
type sessionSummary struct {
	ID            domain.SessionID     `json:"id" doc:"Its id." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Intent        string               `json:"intent" doc:"The purpose of the session." example:"Write the release notes of June"`
	Status        domain.SessionStatus `json:"status" enum:"created,running,completed,failed,interrupted,waiting_for_input" doc:"Its status."`
	WaitingReason domain.WaitingReason `json:"waiting_reason" enum:"none,model,model_unavailable,tool,question,permission,rate_limit,child,slot,queued,worker_missing,budget" doc:"Why the session is not moving."`
	QueueLength   int                  `json:"queue_length" doc:"Messages that wait for their chat." example:"0"`
	CreatedAt     time.Time            `json:"created_at" doc:"Creation time."`
	UpdatedAt     time.Time            `json:"updated_at" doc:"Time of the last change."`
	UserID        string               `json:"user_id" doc:"The user." example:"01a1ff63-2da3-7551-9a1e-abad628e9c3d"`
	SolutionID    *string              `json:"solution_id" doc:"The solution."`
	BizRoleID     *string              `json:"biz_role_id" doc:"The role of the solution."`
	Model         *string              `json:"model" doc:"The model."`
	Shared        bool                 `json:"shared" doc:"Whether all signed-in users may read it."`
	Pinned        bool                 `json:"is_pinned" doc:"Whether it is pinned to the top of lists."`
	MemoryEnabled bool                 `json:"memory_enabled" doc:"Whether the session uses memories."`
	Persistent    bool                 `json:"is_persistent" doc:"Whether front ends persist the session."`
	ReplayState   *domain.ReplayState  `json:"replay_state" doc:"The state of the replay; null: the session is not a replay."`
}

// sessionWithEnv is the answer to a change of the environment, the only one
// that shows it.
type sessionWithEnv struct {
	sessiondetail.SessionDetail
	Env map[string]string `json:"env" doc:"Variables of the environment." example:"{\"GREETING\": \"hi\"}"`
}

func summaryOf(s domain.Session) sessionSummary {
	return sessionSummary{
		ID: s.ID, Intent: s.Intent, Status: s.Status, WaitingReason: s.WaitingReason, QueueLength: s.QueueLength,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, UserID: s.OwnerID, SolutionID: s.SolutionID, BizRoleID: s.BizRoleID,
		Model: s.Model, Shared: s.Shared, Pinned: s.Pinned, MemoryEnabled: s.MemoryEnabled, Persistent: s.Persistent,
		ReplayState: s.Replay,
	}
}
