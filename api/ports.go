package api

import (
	"context"

	"everloop/api/access"
	"everloop/api/account"
	"everloop/api/httpx"
	"everloop/api/session"
	"everloop/domain"
)

// Store is the database that the areas of this interface read and write.
// infra/postgres implements it.
type Store interface {
	access.SessionStore
	account.KeyStore
	account.UserStore
	session.TaskStore
	access.FileStore
	httpx.IdempotencyStore
}

// Models lists what the model gateway can serve.
type Models interface {
	Models(ctx context.Context) ([]domain.Model, error)
}

// Degraded is an error of a dependency that still serves, and soon may not.
type Degraded struct{ Err error }

// Error implements error.
func (d Degraded) Error() string { return d.Err.Error() }

// Readiness checks the dependencies: by name, nil or what is wrong; Degraded for what
// does not keep the process from serving.
type Readiness func(ctx context.Context) map[string]error
