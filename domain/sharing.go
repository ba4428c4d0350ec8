package domain

import (
	"encoding/json"
	"time"
)

// ShareLink is a public, read-only link to a session. The token is shown once, at creation.
type ShareLink struct {
	ID        string
	SessionID SessionID
	Redact    ShareRedaction
	Views     int64
	CreatedAt time.Time
	ExpiresAt time.Time
}

// ShareRedaction selects what a shared view omits. Environment values are always omitted.
type ShareRedaction struct {
	ToolResults bool `json:"tool_results" doc:"Whether tool results are left out."`
	Thinking    bool `json:"thinking" doc:"Whether thinking is left out."`
	Env         bool `json:"env" doc:"Whether environment values are left out; always true."`
}

// SharedSession is the session that a share link opens.
type SharedSession struct {
	ShareLink
	OwnerID string
	Env     SessionEnv // of the session: values to mask
}

// MaxExtraInfo bounds the extra info of one session, in bytes of JSON.
const MaxExtraInfo = 1 << 20

// ExtraInfo is client data stored with a session; nil fields are not set.
type ExtraInfo struct {
	SessionID *SessionID      `json:"session_id"`
	Extra     json.RawMessage `json:"extra"`
	CreatedAt *time.Time      `json:"created_at"`
	UpdatedAt *time.Time      `json:"updated_at"`
}
