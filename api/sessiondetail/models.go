package sessiondetail

import (
	"context"

	"everloop/domain"
)

// Models are the models that the model gateway serves.
type Models interface {
	Models(ctx context.Context) ([]domain.Model, error)
	// Resolve returns the model of a requested name; "": the one of sessions that name none.
	Resolve(ctx context.Context, requested string) (domain.Model, error)
}
