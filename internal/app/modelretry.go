package app

import (
	"errors"
	"time"

	"everloop/domain/modelretry"
)

// retrySettings say for how long a model call that keeps failing is retried.
type retrySettings struct {
	ModelRetryFor time.Duration `default:"10m" env:"MODEL_RETRY_FOR" help:"How long a model call that keeps failing is retried, but 24h in chats that a schedule, a DAG or an issue started."`
}

func (s retrySettings) check() error {
	if s.ModelRetryFor < 0 {
		return errors.New("MODEL_RETRY_FOR must not be negative")
	}

	return nil
}

func (s retrySettings) modelRetry() modelretry.Policy {
	return modelretry.Policy{For: s.ModelRetryFor, Unattended: modelretry.Default.Unattended}
}
