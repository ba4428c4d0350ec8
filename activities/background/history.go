package background

import (
	"context"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/history"
	"everloop/internal/durable"
)

// Histories carry out rewinds, changes of branch and what-ifs.
type Histories struct {
	Moves HistoryMoves
}

// HistoryMoves are the operations on histories. Each call is one attempt.
type HistoryMoves interface {
	Move(ctx context.Context, operationID string) (history.State, error)
	Abort(ctx context.Context, operationID, reason string) (history.State, error)
}

// MoveHistory carries out an operation.
func (h *Histories) MoveHistory(ctx context.Context, in contract.MoveHistoryIn) (contract.MoveHistoryOut, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	state, err := h.Moves.Move(ctx, in.OperationID)

	return contract.MoveHistoryOut{State: state}, historyFault(err)
}

// AbortHistory ends an operation that is not to be carried out.
func (h *Histories) AbortHistory(ctx context.Context, in contract.AbortHistoryIn) (contract.MoveHistoryOut, error) {
	ctx, stop := durable.Heartbeat(ctx)
	defer stop()

	state, err := h.Moves.Abort(ctx, in.OperationID, in.Reason)

	return contract.MoveHistoryOut{State: state}, historyFault(err)
}

// historyFault ends the run of an operation that is gone with its session. Every
// other error is retried.
func historyFault(err error) error {
	if domain.HasCode(err, contract.CodeOperationGone) || domain.HasCode(err, domain.CodeSessionNotFound) {
		return durable.Final(contract.CodeOperationGone, err.Error())
	}

	return err
}
