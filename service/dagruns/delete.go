package dagruns

import (
	"context"
	"time"

	"everloop/domain"
)

// deleteTimeout bounds the wait for the end of the runs of a production solution.
const deleteTimeout = 20 * time.Second

// DeleteSolution deletes a production solution. First its runs are cancelled, with the
// subflows in them, and the work of their nodes is stopped. Interrupted before the end, the
// solution still exists, Check cancels its runs, and the request can be repeated. While
// Temporal is unavailable the answer is 503.
func (s *Service) DeleteSolution(ctx context.Context, caller domain.User, id string) error {
	open, err := s.CancelDAGRunsOf(ctx, caller, id)
	if err != nil {
		return err
	}

	waiting, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()

	for _, run := range open {
		if err := s.cancelWorkflow(waiting, run.SolutionID, run.RunID); err != nil {
			return domain.Unavailablef("Temporal", err)
		}
	}

	for _, run := range open {
		if err := s.cfg.Runs.AwaitDAGRun(waiting, run.SolutionID, run.RunID); err != nil {
			s.cfg.Logger.Warn("a run of a production solution that is deleted has not ended", "run_id", run.RunID, "error", err)
		}
	}

	if deleted, err := s.cfg.Production.DeleteProdSolution(ctx, caller, id); deleted || err != nil {
		return err
	}

	return domain.Newf(domain.Conflict, "prod_solution_running", "runs of production solution %s have not ended yet: try again", id)
}
