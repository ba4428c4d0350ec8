package board

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"everloop/domain"
	"everloop/domain/board"
)

const (
	// repairPage is how many rows a repair reads at once.
	repairPage = 200
	// maxRepairs bounds the concurrent repairs of one process.
	maxRepairs = 16
)

// Ask posts the questions that runs wait for as comments, and takes comments as answers that a
// crash or an outage left.
func (s *Service) Ask(ctx context.Context) error {
	list := func(ctx context.Context, after string, limit int) ([]board.AskedInRun, error) {
		return s.AskedInRuns(ctx, "", after, limit)
	}

	return each(ctx, list, func(q board.AskedInRun) string { return q.QuestionID }, func(question board.AskedInRun) error {
		if question.Posted && (question.Permission || question.CommentID == "") {
			return nil
		}

		if _, due := s.answers.Try(question.QuestionID + question.CommentID); !due {
			return nil
		}

		return s.Settle(ctx, question)
	})
}

// Repair starts queued runs whose agent has a free slot, and repeats stops.
func (s *Service) Repair(ctx context.Context) error {
	dispatched := each(ctx, s.WaitingAgents, func(id string) string { return id }, func(agentID string) error {
		return s.Dispatch(ctx, agentID)
	})

	cancelled, err := s.CancelledIssueRuns(ctx)
	stopped := all(cancelled, func(run domain.RunChat) error { return s.Stop(ctx, run) })

	return errors.Join(dispatched, err, stopped)
}

// each calls do for every row of a list that is paged by key, some of them concurrently. It
// continues after a row that fails and returns the first error of each page.
func each[T any](
	ctx context.Context, list func(ctx context.Context, after string, limit int) ([]T, error), key func(T) string, do func(T) error,
) (failed error) {
	for after := ""; ; {
		page, err := list(ctx, after, repairPage)
		failed = errors.Join(failed, err, all(page, do))

		if err != nil || len(page) < repairPage || ctx.Err() != nil {
			return failed
		}

		after = key(page[len(page)-1])
	}
}

// all calls do for every row, some of them concurrently, and returns the first error.
func all[T any](rows []T, do func(T) error) error {
	var group errgroup.Group
	group.SetLimit(maxRepairs)

	for _, row := range rows {
		group.Go(func() error { return do(row) })
	}

	return group.Wait()
}
