package work

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"everloop/domain"
	"everloop/infra/temporal"
	"everloop/internal/retry"
)

const (
	// maxLooks bounds the workflows of one kind that one check looks at. The next check
	// continues after them.
	maxLooks = 500
	// maxIdleLooks is maxLooks for work that nothing suggests is stalled, of the kinds
	// that list their stalled work: about 100 in half a minute.
	maxIdleLooks = 34
	// failTimeout bounds one try to end work: files may have to be restored.
	failTimeout = 5 * time.Minute
)

// CheckerConfig is what NewChecker needs; all but Now is required.
type CheckerConfig struct {
	Store  *Store
	Runs   temporal.Runs
	Kinds  []Kind
	Found  func(kind string) // counts a finding
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Checker compares open work of the database with its workflows. Work whose workflow was
// never started, is closed or is stuck continues from the database in a new one, after
// doubling pauses; work whose workflow was lost too often fails with the reason. Chats and
// sub-agents are checked by the Reconciler, which knows their progress.
type Checker struct {
	cfg   CheckerConfig
	walks []kindWalk

	suspects *retry.Pauses // by run
	starts   *retry.Pauses // by workflow
	signals  *retry.Pauses // by workflow
	ends     *retry.Pauses // by workflow
}

// kindWalk goes through work of one kind.
type kindWalk struct {
	kind    Kind
	stalled bool
	walk    *walk[Item]
}

// NewChecker returns a checker of all kinds that are Checked.
func NewChecker(cfg CheckerConfig) *Checker {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}

	c := &Checker{
		cfg: cfg, suspects: retry.NewPauses(cfg.Now), starts: retry.NewPauses(cfg.Now), signals: retry.NewPauses(cfg.Now),
		ends: retry.NewPauses(cfg.Now),
	}

	for _, kind := range cfg.Kinds {
		if !kind.Checked {
			continue
		}

		open := func(ctx context.Context, after string, limit int) ([]string, error) {
			return cfg.Store.OpenIDs(ctx, kind.Name, after, limit)
		}
		if kind.Stalled == nil {
			c.add(kind, false, maxLooks, open)
			continue
		}

		c.add(kind, true, maxLooks, kind.Stalled)
		c.add(kind, false, maxIdleLooks, open)
	}

	return c
}

func (c *Checker) add(kind Kind, stalled bool, most int, ids func(ctx context.Context, after string, limit int) ([]string, error)) {
	c.walks = append(c.walks, kindWalk{kind, stalled, &walk[Item]{
		list: func(ctx context.Context, after string, limit int) ([]Item, error) {
			page, err := ids(ctx, after, limit)
			if err != nil || len(page) == 0 {
				return nil, err
			}

			return c.cfg.Store.items(ctx, kind.Name, page)
		},
		key: func(item Item) string { return item.ID }, most: most,
	}})
}

// Check looks at the open work of all kinds concurrently.
func (c *Checker) Check(ctx context.Context) error {
	var faults faults

	doAll(ctx, c.walks, len(c.walks), func(of kindWalk) {
		faults.add(of.walk.each(ctx, maxConcurrent, func(ctx context.Context, item Item) error {
			return c.check(ctx, of, item)
		}))
	})

	return faults.joined()
}

func (c *Checker) check(ctx context.Context, of kindWalk, item Item) error {
	look, err := c.cfg.Runs.LookAtWork(ctx, item.WorkflowID)

	switch {
	case err != nil:
		return err
	case look.State == domain.RunOpen:
		return c.signal(ctx, of, item)
	case (look.State == domain.RunStuck || of.kind.Terminable && look.Terminated) && !confirmed(c.suspects, look):
		return nil
	}

	// The workflow closes after its work, so that the work is open now only if the workflow was lost.
	now, err := c.cfg.Store.items(ctx, of.kind.Name, []string{item.ID})
	if err != nil {
		return err
	}

	if look.State == domain.RunStuck {
		c.cfg.Logger.Warn("terminating a stuck run", "workflow_id", item.WorkflowID, "run_id", look.RunID, "cause", look.Cause)
		c.cfg.Found("stuck_" + of.kind.Name)

		if err := c.cfg.Runs.Terminate(ctx, item.WorkflowID, look.RunID, "everloop: "+look.Cause); err != nil {
			return err
		}
	}

	if len(now) == 0 || !now[0].Open {
		return c.signal(ctx, of, item)
	}

	return c.restart(ctx, of.kind, item, look)
}

// signal has the workflow of stalled work look at it, after a doubling pause.
func (c *Checker) signal(ctx context.Context, of kindWalk, item Item) error {
	if !of.stalled {
		return nil
	}

	if _, due := c.signals.Try(item.WorkflowID); !due {
		return nil
	}

	return of.kind.Start(ctx, item)
}

// restart starts a new workflow for open work that has none, or ends the work when its
// workflows were lost too often.
func (c *Checker) restart(ctx context.Context, kind Kind, item Item, look domain.RunLook) error {
	var lost int

	if look.State != domain.RunUnknown { // a workflow that was never started is not a failure of the work
		count, counted, err := c.cfg.Store.CountRestart(ctx, item.WorkflowID, look.RunID)
		if err != nil {
			return err
		}

		if counted && look.State == domain.RunClosed {
			c.report(kind, item, look)
		}

		lost = count
	}

	switch {
	case kind.Terminable && look.Terminated:
		return c.fail(ctx, kind, item, look, "an operator terminated its workflow")
	case lost > maxRestarts && kind.Fail != nil:
		return c.fail(ctx, kind, item, look, fmt.Sprintf("its run was lost %d times: %s", lost, look.Cause))
	}

	if _, due := c.starts.Try(item.WorkflowID); !due {
		return nil
	}

	if look.State == domain.RunUnknown {
		c.report(kind, item, look)
	}

	return kind.Start(ctx, item)
}

func (c *Checker) report(kind Kind, item Item, look domain.RunLook) {
	c.cfg.Logger.Warn("work has no live workflow run", "workflow_id", item.WorkflowID, "run_id", look.RunID, "cause", look.Cause)
	c.cfg.Found("lost_" + kind.Name)
}

// fail ends work. It is tried again after a doubling pause when that fails.
func (c *Checker) fail(ctx context.Context, kind Kind, item Item, look domain.RunLook, reason string) error {
	if _, due := c.ends.Try(item.WorkflowID); !due {
		return nil
	}

	c.cfg.Logger.Error("failing work whose workflow is closed",
		"workflow_id", item.WorkflowID, "run_id", look.RunID, "reason", reason, "cause", look.Cause)

	ctx, cancel := context.WithTimeout(ctx, failTimeout)
	defer cancel()

	err := kind.Fail(ctx, item, reason)
	if err == nil && kind.Cleans {
		err = kind.Start(ctx, item)
	}

	if err == nil {
		c.cfg.Found("failed_" + kind.Name)
	}

	return err
}
