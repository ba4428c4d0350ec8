package work

import (
	"context"
	"errors"
	"time"

	"everloop/domain"
	"everloop/domain/board"
	"everloop/internal/retry"
)

// IssueRunStore keeps issue runs and their questions.
type IssueRunStore interface {
	CancelledIssueRuns(ctx context.Context) ([]domain.RunChat, error)
	WaitingAgents(ctx context.Context, after string, limit int) ([]string, error)
	AskedInRuns(ctx context.Context, runID, after string, limit int) ([]board.AskedInRun, error)
}

// IssueBoard does what was not done in its time.
type IssueBoard interface {
	Dispatch(ctx context.Context, agentID string) error
	Stop(ctx context.Context, run domain.RunChat) error
	Settle(ctx context.Context, question board.AskedInRun) error
}

// IssueRuns puts the questions of issue runs as comments, and repairs what a crash or an
// outage left of the runs.
type IssueRuns struct {
	store IssueRunStore
	board IssueBoard

	asked   walk[board.AskedInRun]
	agents  walk[string]
	answers *retry.Pauses // by question and comment
}

// NewIssueRuns checks that everything is there.
func NewIssueRuns(store IssueRunStore, runner IssueBoard) (*IssueRuns, error) {
	if store == nil || runner == nil {
		return nil, errors.New("work: issue runs need a store and a board")
	}

	return &IssueRuns{
		store: store, board: runner, answers: retry.NewPauses(time.Now),
		asked: walk[board.AskedInRun]{
			list: func(ctx context.Context, after string, limit int) ([]board.AskedInRun, error) {
				return store.AskedInRuns(ctx, "", after, limit)
			},
			key: func(q board.AskedInRun) string { return q.QuestionID },
		},
		agents: walk[string]{list: store.WaitingAgents, key: itself},
	}, nil
}

// Ask puts the questions that runs wait for as comments, and takes comments as answers
// that were not taken.
func (r *IssueRuns) Ask(ctx context.Context) error {
	return r.asked.each(ctx, maxConcurrent, func(ctx context.Context, question board.AskedInRun) error {
		if question.Posted && (question.Permission || question.CommentID == "") {
			return nil
		}

		if _, due := r.answers.Try(question.QuestionID + question.CommentID); !due {
			return nil
		}

		return r.board.Settle(ctx, question)
	})
}

// Repair gives queued runs their turn, and repeats stops.
func (r *IssueRuns) Repair(ctx context.Context) error {
	var faults faults
	faults.add(r.agents.each(ctx, maxConcurrent, r.board.Dispatch))

	cancelled, err := r.store.CancelledIssueRuns(ctx)
	faults.add(err)
	doAll(ctx, cancelled, maxConcurrent, func(run domain.RunChat) { faults.add(r.board.Stop(ctx, run)) })

	return faults.joined()
}
