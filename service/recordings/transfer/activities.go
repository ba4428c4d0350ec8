package transfer

import (
	"context"

	"go.temporal.io/sdk/worker"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// Register binds the activities of imports to the service.
func (d *Service) Register(w worker.ActivityRegistry) {
	contract.LoadImport.Handle(w, func(ctx context.Context, in contract.ImportInput) (struct{}, error) {
		return attempt(ctx, func(ctx context.Context) error { return d.Load(ctx, in.SessionID) })
	})
	contract.AbortImport.Handle(w, func(ctx context.Context, in contract.AbortImportIn) (struct{}, error) {
		return attempt(ctx, func(ctx context.Context) error { return d.Abort(ctx, in.SessionID, in.Reason) })
	})
}

// attempt runs one attempt at an import. Temporal retries every error, except that of an
// import that was deleted.
func attempt(ctx context.Context, run func(context.Context) error) (struct{}, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	err := run(ctx)
	if domain.HasCode(err, contract.CodeImportGone) {
		err = durable.Final(contract.CodeImportGone, err.Error())
	}

	return struct{}{}, err
}
