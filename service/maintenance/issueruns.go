package maintenance

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
	StalledIssueRuns(ctx context.Context, after string, limit int) ([]string, error)
	CancelledIssueRuns(ctx context.Context) ([]domain.RunSession, error)
	WaitingAgents(ctx context.Context, after string, limit int) ([]string, error)
	AskedInRuns(ctx context.Context, runID, after string, limit int) ([]board.AskedInRun, error)
}

// IssueBoard does what was not done in its time.
type IssueBoard interface {
	Dispatch(ctx context.Context, agentID string) error
	Stop(ctx context.Context, run domain.RunSession) error
	Settle(ctx context.Context, question board.AskedInRun) error
}

// IssueWorkflows reaches the workflows of issue runs.
type IssueWorkflows interface {
	ResumeIssueRun(ctx context.Context, runID string) error
}

// IssueRuns puts the questions of issue runs as comments, and repairs what a crash or an
// outage left of the runs.
type IssueRuns struct {
	store IssueRunStore
	board IssueBoard
	runs  IssueWorkflows

	asked   walk[board.AskedInRun]
	stalled walk[string]
	agents  walk[string]
	signals *retry.Pauses // by run
	answers *retry.Pauses // by question and comment
}

// NewIssueRuns checks that everything is there.
func NewIssueRuns(store IssueRunStore, runner IssueBoard, runs IssueWorkflows) (*IssueRuns, error) {
	if store == nil || runner == nil || runs == nil {
		return nil, errors.New("maintenance: issue runs need a store, a board and runs")
	}

	itself := func(id string) string { return id }

	return &IssueRuns{
		store: store, board: runner, runs: runs, signals: retry.NewPauses(time.Now), answers: retry.NewPauses(time.Now),
		asked: walk[board.AskedInRun]{
			list: func(ctx context.Context, after string, limit int) ([]board.AskedInRun, error) {
				return store.AskedInRuns(ctx, "", after, limit)
			},
			key: func(q board.AskedInRun) string { return q.QuestionID },
		},
		stalled: walk[string]{list: store.StalledIssueRuns, key: itself},
		agents:  walk[string]{list: store.WaitingAgents, key: itself},
	}, nil
}

// Ask puts the questions that runs wait for as comments, and takes comments as answers
// that were not taken.
func (r *IssueRuns) Ask(ctx context.Context) error {
	return r.asked.each(ctx, atOnce, func(ctx context.Context, question board.AskedInRun) error {
		if question.Posted && (question.Permission || question.CommentID == "") {
			return nil
		}

		if _, due := r.answers.Try(question.QuestionID + question.CommentID); !due {
			return nil
		}

		return r.board.Settle(ctx, question)
	})
}

// Repair moves runs that stand, gives queued ones their turn, and repeats stops.
func (r *IssueRuns) Repair(ctx context.Context) error {
	var faults faults
	faults.add(r.agents.each(ctx, atOnce, r.board.Dispatch))
	faults.add(r.stalled.each(ctx, atOnce, func(ctx context.Context, runID string) error {
		if _, due := r.signals.Try(runID); !due {
			return nil
		}

		return r.runs.ResumeIssueRun(ctx, runID)
	}))

	cancelled, err := r.store.CancelledIssueRuns(ctx)
	faults.add(err)
	doAll(ctx, cancelled, atOnce, func(run domain.RunSession) { faults.add(r.board.Stop(ctx, run)) })

	return faults.joined()
}
