package history

import (
	"context"

	"go.temporal.io/sdk/worker"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/history"
	"everloop/internal/durable"
)

// Register binds the activities of moves to the service.
func (d *Service) Register(w worker.ActivityRegistry) {
	contract.MoveHistory.Handle(w, func(ctx context.Context, in contract.MoveHistoryIn) (contract.MoveHistoryOut, error) {
		return attempt(ctx, func(ctx context.Context) (history.State, error) { return d.Move(ctx, in.OperationID) })
	})
	contract.AbortHistory.Handle(w, func(ctx context.Context, in contract.AbortHistoryIn) (contract.MoveHistoryOut, error) {
		return attempt(ctx, func(ctx context.Context) (history.State, error) { return d.Abort(ctx, in.OperationID, in.Reason) })
	})
}

// attempt runs one attempt at an operation. Temporal retries every error, except that of
// an operation that was deleted with its session.
func attempt(ctx context.Context, run func(context.Context) (history.State, error)) (contract.MoveHistoryOut, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	state, err := run(ctx)
	if domain.HasCode(err, contract.CodeOperationGone) || domain.HasCode(err, domain.CodeSessionNotFound) {
		err = durable.Final(contract.CodeOperationGone, err.Error())
	}

	return contract.MoveHistoryOut{State: state}, err
}
