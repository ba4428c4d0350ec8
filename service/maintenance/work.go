package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"everloop/domain"
	"everloop/domain/operator"
	"everloop/internal/retry"
)

// WorkStore keeps the work that workflows carry, chats aside.
type WorkStore interface {
	// Jobs reads work by kind and id; what is gone is missing.
	Jobs(ctx context.Context, ids map[string][]string) ([]operator.Job, error)
	// CountWorkRestart counts that a run of a workflow was lost, once for each run.
	CountWorkRestart(ctx context.Context, workflowID, runID string) (count int, counted bool, err error)
}

// WorkRuns reaches the workflows that carry work.
type WorkRuns interface {
	// LookAtWork describes the newest run of a workflow.
	LookAtWork(ctx context.Context, workflowID string) (domain.RunLook, error)
	Terminate(ctx context.Context, workflowID, runID, reason string) error
}

// WorkCheckerConfig is what NewWorkChecker needs; all but Now is required.
type WorkCheckerConfig struct {
	Store  WorkStore
	Runs   WorkRuns
	Found  func(kind string) // counts a finding
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// WorkChecker compares open work of the database with its workflows. Work whose
// workflow was never started, is closed or is stuck continues from the database in a new
// one, after doubling pauses; work whose workflow was lost too often fails with the reason.
type WorkChecker struct {
	cfg WorkCheckerConfig

	suspects *retry.Pauses // by run
	starts   *retry.Pauses // by workflow
	signals  *retry.Pauses // by workflow
	ends     *retry.Pauses // by workflow
}

// NewWorkChecker checks its configuration.
func NewWorkChecker(cfg WorkCheckerConfig) (*WorkChecker, error) {
	if cfg.Store == nil || cfg.Runs == nil || cfg.Found == nil || cfg.Logger == nil {
		return nil, errors.New("maintenance: the check of work needs a store, runs, found and a logger")
	}

	if cfg.Now == nil {
		cfg.Now = time.Now
	}

	return &WorkChecker{
		cfg: cfg, suspects: retry.NewPauses(cfg.Now), starts: retry.NewPauses(cfg.Now), signals: retry.NewPauses(cfg.Now),
		ends: retry.NewPauses(cfg.Now),
	}, nil
}

const (
	// maxLooks bounds the workflows that one run of a check looks at. The next one
	// continues behind them.
	maxLooks = 500
	// maxIdleLooks is the same for work that nothing suggests is stalled.
	maxIdleLooks = 100
	// failTimeout bounds one try to end work: files may have to be brought back.
	failTimeout = 5 * time.Minute
)

// work is how open work of one kind is found, restarted and ended.
type work[T any] struct {
	kind       string
	list       func(ctx context.Context, after string, limit int) ([]T, error)
	id         func(item T) string
	workflowID func(item T) string
	// start starts the workflow unless it is open. With signalled it also has an open one
	// look at its work, which the list says should have moved.
	start     func(ctx context.Context, item T) error
	signalled bool
	// fail ends the work as failed; nil: it is never given up.
	fail func(ctx context.Context, item T, reason string) error
	most int // looks in one run of the check; 0: maxLooks
}

// checkWork returns the function of the job that checks one kind of work. One goroutine
// calls it.
func checkWork[T any](c *WorkChecker, w work[T]) func(ctx context.Context) error {
	if w.most == 0 {
		w.most = maxLooks
	}

	open := walk[T]{list: w.list, key: w.id, most: w.most}

	return func(ctx context.Context) error {
		return open.each(ctx, maxConcurrent, func(ctx context.Context, item T) error {
			return c.check(ctx, found{
				kind: w.kind, id: w.id(item), workflowID: w.workflowID(item), signalled: w.signalled,
				start: func(ctx context.Context) error { return w.start(ctx, item) },
				fail:  failing(w.fail, item),
			})
		})
	}
}

func failing[T any](fail func(ctx context.Context, item T, reason string) error, item T) func(ctx context.Context, reason string) error {
	if fail == nil {
		return nil
	}

	return func(ctx context.Context, reason string) error { return fail(ctx, item, reason) }
}

// found is one piece of open work.
type found struct {
	kind, id, workflowID string
	signalled            bool
	start                func(ctx context.Context) error
	fail                 func(ctx context.Context, reason string) error
}

func (c *WorkChecker) check(ctx context.Context, f found) error {
	look, err := c.cfg.Runs.LookAtWork(ctx, f.workflowID)

	switch {
	case err != nil:
		return err
	case look.State == domain.RunOpen:
		return c.signal(ctx, f)
	case look.State == domain.RunStuck && !confirmed(c.suspects, look):
		return nil
	}

	// Its workflow closes after it, so that it is open now only if that was lost.
	open, err := c.open(ctx, f)
	if err != nil {
		return err
	}

	if look.State == domain.RunStuck {
		c.cfg.Logger.Warn("terminating a stuck run", "workflow_id", f.workflowID, "run_id", look.RunID, "cause", look.Cause)
		c.cfg.Found("stuck_" + f.kind)

		if err := c.cfg.Runs.Terminate(ctx, f.workflowID, look.RunID, "everloop: "+look.Cause); err != nil {
			return err
		}
	}

	if !open {
		return c.signal(ctx, f)
	}

	return c.restart(ctx, f, look)
}

// signal has the workflow of work that is to move look at it, after a doubling pause.
func (c *WorkChecker) signal(ctx context.Context, f found) error {
	if !f.signalled {
		return nil
	}

	if _, due := c.signals.Try(f.workflowID); !due {
		return nil
	}

	return f.start(ctx)
}

// open reads again whether work is open.
func (c *WorkChecker) open(ctx context.Context, f found) (bool, error) {
	jobs, err := c.cfg.Store.Jobs(ctx, map[string][]string{f.kind: {f.id}})
	return len(jobs) == 1 && jobs[0].Open, err
}

// restart starts a new workflow for open work that has none, or ends the work when its
// workflows were lost too often.
func (c *WorkChecker) restart(ctx context.Context, f found, look domain.RunLook) error {
	var count int

	if look.State != domain.RunUnknown { // one that was never started is no failure of the work
		lost, counted, err := c.cfg.Store.CountWorkRestart(ctx, f.workflowID, look.RunID)
		if err != nil {
			return err
		}

		if counted && look.State == domain.RunClosed {
			c.report(f, look)
		}

		count = lost
	}

	if count > maxRestarts && f.fail != nil {
		return c.fail(ctx, f, count, look)
	}

	if _, due := c.starts.Try(f.workflowID); !due {
		return nil
	}

	if look.State == domain.RunUnknown {
		c.report(f, look)
	}

	return f.start(ctx)
}

func (c *WorkChecker) report(f found, look domain.RunLook) {
	c.cfg.Logger.Warn("work has no live workflow run", "workflow_id", f.workflowID, "run_id", look.RunID, "cause", look.Cause)
	c.cfg.Found("lost_" + f.kind)
}

// fail ends work. It is tried again after a doubling pause when that fails.
func (c *WorkChecker) fail(ctx context.Context, f found, count int, look domain.RunLook) error {
	if _, due := c.ends.Try(f.workflowID); !due {
		return nil
	}

	c.cfg.Logger.Error("failing work whose workflow was lost repeatedly",
		"workflow_id", f.workflowID, "run_id", look.RunID, "lost", count, "cause", look.Cause)

	ctx, cancel := context.WithTimeout(ctx, failTimeout)
	defer cancel()

	err := f.fail(ctx, fmt.Sprintf("its run was lost %d times: %s", count, look.Cause))
	if err == nil {
		c.cfg.Found("failed_" + f.kind)
	}

	return err
}
