package dagruns

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/infra/postgres/pg"
)

// storeRun implements contract.StoreDAGRun. The workflow that waits for the end of the run is
// signalled after the commit. A signal that is lost is repeated by the repair of the waiter.
func (s *Service) storeRun(ctx context.Context, in contract.StoreDAGRunIn) (out struct{}, err error) {
	if out, err = s.StoreRun(ctx, in); err != nil || !in.Status.Over() {
		return out, err
	}

	waiter, err := s.waiterOf(ctx, in.RunID)
	if err == nil && waiter != "" {
		_, err = s.cfg.Runs.NotifyWaiter(ctx, domain.ChatWaiter{WorkflowID: waiter})
	}

	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "failed to report the end of a DAG run, retrying", "run_id", in.RunID, "error", err)
	}

	return out, nil
}

func (s *Store) waiterOf(ctx context.Context, runID string) (waiter string, err error) {
	err = s.db.Pool.QueryRow(ctx, `SELECT coalesce(waiter, '') FROM dag_runs WHERE id = $1`, runID).Scan(&waiter)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}

	return waiter, pg.Fault("read the waiter of a DAG run", err)
}

// EndOf returns how a run ended, and what it has used; false: it has not ended. A run that was
// deleted has failed.
func (s *Store) EndOf(ctx context.Context, runID string) (end domain.RunEnd, used domain.Usage, ended bool, err error) {
	var (
		status        dagrun.Status
		code, message string
	)

	err = s.db.Pool.QueryRow(ctx, `
		SELECT status, coalesce(error_code, ''), coalesce(error_message, ''), `+usedByRun()+` FROM dag_runs r WHERE id = $1`, runID).
		Scan(append([]any{&status, &code, &message}, usedFields(&used)...)...)

	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return domain.RunEnd{Status: domain.RunFailed, Reason: dagrun.CodeRunNotFound, Error: "the DAG run was deleted"}, used, true, nil
	case err != nil || !status.Over():
		return end, used, false, pg.Fault("read the end of a DAG run", err)
	case status == dagrun.Completed:
		end = domain.RunEnd{Status: domain.RunCompleted}
	case status == dagrun.Cancelled:
		end = domain.RunEnd{Status: domain.RunFailed, Reason: string(domain.FinishInterrupted), Error: "the DAG run was cancelled"}
	default:
		end = domain.RunEnd{Status: domain.RunFailed, Reason: code, Error: message, Counts: true}
	}

	return end, used, true, nil
}
