package domain

import "time"

// Bounds of reports of usage.
const (
	MaxUsageRange = 366 // days of a report
	MaxUsagePage  = 1000
)

// UsageSums is the total usage of model calls. The tokens of calls of models without a price
// are counted in the totals and also separately.
type UsageSums struct {
	Calls            int64         `json:"calls" db:"calls" doc:"Model calls." example:"12"`
	InputTokens      int64         `json:"input_tokens" db:"input_tokens" doc:"Input tokens, those of the cache included." example:"21310"`
	OutputTokens     int64         `json:"output_tokens" db:"output_tokens" doc:"Output tokens." example:"1200"`
	CacheReadTokens  int64         `json:"cache_read_tokens" db:"cache_read_tokens" doc:"Input tokens that were read from the cache." example:"18000"`
	CacheWriteTokens int64         `json:"cache_write_tokens" db:"cache_write_tokens" doc:"Input tokens that were written to the cache." example:"0"`
	Cost             Cost          `json:"cost_usd" db:"cost_nano" doc:"Cost by the prices of the models at the time of the calls." example:"0.0421"`
	Uncosted         UncostedUsage `json:"uncosted" db:"-" doc:"Tokens of models without a price."`
}

// UncostedUsage are tokens that have no price.
type UncostedUsage struct {
	InputTokens      int64 `json:"input_tokens" doc:"Input tokens." example:"0"`
	OutputTokens     int64 `json:"output_tokens" doc:"Output tokens." example:"0"`
	CacheReadTokens  int64 `json:"cache_read_tokens" doc:"Input tokens that were read from the cache." example:"0"`
	CacheWriteTokens int64 `json:"cache_write_tokens" doc:"Input tokens that were written to the cache." example:"0"`
}

// UsageGroup is the grouping of a usage report.
type UsageGroup string

// The groups of a report. Users are for administrators.
const (
	UsageByDay      UsageGroup = "day"
	UsageByModel    UsageGroup = "model"
	UsageBySolution UsageGroup = "solution"
	UsageByUser     UsageGroup = "user"
)

// UsageQuery selects a report. Days are in UTC; From is inclusive and To exclusive.
type UsageQuery struct {
	UserID        string // empty: all users
	From, To      time.Time
	Groups        []UsageGroup
	Offset, Limit int
}

// UsageItem is one line of a report. It has the fields that the report is grouped by.
type UsageItem struct {
	Day        *string `json:"day,omitempty" doc:"The day in UTC." example:"2026-11-22"`
	Model      *string `json:"model,omitempty" doc:"The model." example:"m-1"`
	SolutionID *string `json:"solution_id,omitempty" doc:"The solution of the sessions; empty: sessions without one." example:"web-shop"`
	UserID     *string `json:"user_id,omitempty" doc:"The user." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
	Username   *string `json:"username,omitempty" doc:"The name of the user." example:"eve"`
	UsageSums
}

// UsageReport is the usage of model calls within a range of days.
type UsageReport struct {
	From  string      `json:"from" doc:"The first day." example:"2026-11-01"`
	To    string      `json:"to" doc:"The day after the last." example:"2026-12-01"`
	Total UsageSums   `json:"total" doc:"All together."`
	Items []UsageItem `json:"items" nullable:"false" doc:"The entries of this page: by day, then by the highest cost and number of tokens."`
	More  bool        `json:"more" doc:"Whether further entries follow."`
}

// SessionUsage is the usage of a session's model calls.
type SessionUsage struct {
	SessionID SessionID `json:"session_id" doc:"The session." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	UsageSums
	ByModel []UsageItem `json:"by_model" nullable:"false" doc:"The same by model; at most 1,000."`
	FirstAt *time.Time  `json:"first_at" nullable:"true" doc:"Time of the first model call; null: there was none."`
	LastAt  *time.Time  `json:"last_at" nullable:"true" doc:"Time of the last model call; null: there was none."`
}
