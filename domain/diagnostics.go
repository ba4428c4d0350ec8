package domain

import (
	"context"
	"time"
)

// CheckStatus is the outcome of a check of a dependency.
type CheckStatus string

// A skipped check concerns a dependency that is not configured.
const (
	CheckOK      CheckStatus = "ok"
	CheckWarn    CheckStatus = "warn"
	CheckFail    CheckStatus = "fail"
	CheckSkipped CheckStatus = "skipped"
)

// Check checks one dependency of the running service.
type Check struct {
	ID    string
	Title string
	// Run checks within the deadline of its context. The result contains no secrets.
	Run func(ctx context.Context) CheckResult
}

// CheckResult is the state of a dependency and, when it is not healthy, the remedy.
type CheckResult struct {
	ID         string      `json:"id" doc:"Its id." example:"postgres"`
	Status     CheckStatus `json:"status" enum:"ok,warn,fail,skipped" doc:"Its status."`
	Message    string      `json:"message" doc:"The message in plain text." example:"answers in 0 ms"`
	Hint       string      `json:"hint" doc:"What fixes it; empty when nothing has to be."`
	DurationMS int64       `json:"duration_ms" doc:"Duration in milliseconds." example:"0"`
}

// checkTimeout bounds one check.
const checkTimeout = 15 * time.Second

// Do runs the check within its timeout.
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
	Group string       `json:"group" doc:"The group of settings." example:"Service"`
	Items []ConfigItem `json:"items" nullable:"false" doc:"The entries of this page."`
}

// ConfigItem is one variable; of a secret only whether it is set is shown.
type ConfigItem struct {
	EnvVar  string `json:"env_var" doc:"The variable." example:"DATA_DIR"`
	Value   string `json:"value" doc:"The value." example:"./data"`
	Default string `json:"default" doc:"The default value." example:"./data"`
	Remark  string `json:"remark" doc:"The description of the setting." example:"Directory of everything that is kept."`
}
