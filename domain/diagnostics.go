package domain

import (
	"context"
	"time"
)

// CheckStatus is what a check of a dependency came to.
type CheckStatus string

// A skipped check is of something that is not configured.
const (
	CheckOK      CheckStatus = "ok"
	CheckWarn    CheckStatus = "warn"
	CheckFail    CheckStatus = "fail"
	CheckSkipped CheckStatus = "skipped"
)

// Check looks at one dependency of the running service.
type Check struct {
	ID    string
	Title string
	// Run looks, within the time of its context. It tells no secret.
	Run func(ctx context.Context) CheckResult
}

// CheckResult says how a dependency stands and, when it does not stand well,
// what to do about it (shapes.md section 8).
type CheckResult struct {
	ID         string      `json:"id"`
	Status     CheckStatus `json:"status" enum:"ok,warn,fail,skipped"`
	Message    string      `json:"message"`
	Hint       string      `json:"hint" doc:"What mends it; empty when nothing has to be."`
	DurationMS int64       `json:"duration_ms"`
}

// checkTimeout bounds one check.
const checkTimeout = 15 * time.Second

// Do runs the check within its time.
func (c Check) Do(ctx context.Context) CheckResult {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	began := time.Now()
	result := c.Run(ctx)
	result.ID, result.DurationMS = c.ID, time.Since(began).Milliseconds()
	return result
}

// ConfigGroup is a part of the service's configuration, for administrators.
type ConfigGroup struct {
	Group string       `json:"group"`
	Items []ConfigItem `json:"items" nullable:"false"`
}

// ConfigItem is one variable; the value of a secret is only told to be set.
type ConfigItem struct {
	EnvVar  string `json:"env_var"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Remark  string `json:"remark"`
}
