package app

import (
	"errors"
	"time"

	"everloop/domain/modelretry"
)

// retrySettings say for how long a model call that keeps failing is retried.
type retrySettings struct {
	ModelRetryFor        time.Duration `default:"10m" env:"MODEL_RETRY_FOR" help:"How long a model call that keeps failing is retried."`
	ModelRetryUnattended time.Duration `default:"24h" env:"MODEL_RETRY_UNATTENDED" help:"The same for chats that a schedule, a DAG or an issue started."`
}

func (s retrySettings) check() error {
	var faults []error
	if s.ModelRetryFor < 0 {
		faults = append(faults, errors.New("MODEL_RETRY_FOR must not be negative"))
	}

	if s.ModelRetryUnattended < 0 {
		faults = append(faults, errors.New("MODEL_RETRY_UNATTENDED must not be negative"))
	}

	return errors.Join(faults...)
}

func (s retrySettings) modelRetry() modelretry.Policy {
	return modelretry.Policy{For: s.ModelRetryFor, Unattended: s.ModelRetryUnattended}
}
