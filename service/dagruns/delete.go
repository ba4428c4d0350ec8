package dagruns

import (
	"context"

	"everloop/domain"
	"everloop/domain/dagrun"
)

// deletePasses is how often DeleteSolution looks for runs that began meanwhile, and for
// nodes of one run that are to be stopped. No run
// begins any more once it has looked for the first time, but for requests that are served
// at that moment.
const deletePasses = 10

// DeleteSolution deletes a production solution. First its runs are cancelled, and what their
// nodes do is stopped: cut off before the end, the solution is still there, the repair ends
// the runs, and the request can be repeated. So it is while Temporal is away, which is 503.
func (s *Service) DeleteSolution(ctx context.Context, caller domain.User, id string) error {
	for range deletePasses {
		open, err := s.cfg.Store.CancelDAGRunsOf(ctx, caller, id)
		if err != nil {
			return err
		}

		for _, run := range open {
			if err := s.end(ctx, run); err != nil {
				return err
			}
		}

		if deleted, err := s.cfg.Store.DeleteProdSolution(ctx, caller, id); deleted || err != nil {
			return err
		}
	}

	return domain.Newf(domain.Conflict, "prod_solution_running", "runs of production solution %s have not ended yet: try again", id)
}

// end takes a cancelled run to its end, and has its workflow see it. The workflow is signalled
// first, too: while that fails the run stays open, and the repair signals it; of a run that
// is over and deleted the workflow would wait without end.
func (s *Service) end(ctx context.Context, run dagrun.Ref) error {
	if err := s.signal(ctx, run.SolutionID, run.RunID); err != nil {
		return err
	}

	for range deletePasses {
		step, err := s.Advance(ctx, run.RunID, false)
		if err != nil {
			return err
		}

		for _, node := range step.Stop {
			if _, err := s.StopUnit(ctx, node.ID); err != nil {
				return err
			}
		}

		if len(step.Stop) == 0 {
			return s.signal(ctx, run.SolutionID, run.RunID)
		}
	}

	return nil // a later look finds it open
}

// signal has the workflow of a run look at its nodes, or fails.
func (s *Service) signal(ctx context.Context, solutionID, runID string) error {
	if err := s.cfg.Runs.ResumeDAGRun(ctx, solutionID, runID); err != nil {
		return domain.Unavailablef("Temporal", err)
	}

	return nil
}
