// Package maintenance repairs what crashes leave behind and keeps what grows within
// its bounds: the reconciler wakes sessions and restarts lost runs, periodic jobs
// publish, archive and prune, and the session deleter removes deleted sessions. In a
// healthy service the reconciler finds nothing: each finding is counted. It reaches
// PostgreSQL and Temporal through its own ports and knows no transport.
package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Job is one piece of work that is repeated for as long as the service runs. It
// finds its work in the database and may be interrupted at any point.
type Job struct {
	Name  string
	Every time.Duration
	Run   func(ctx context.Context) error
	// Local says that every process runs the job, for what is on its own disk or in
	// its memory. Any other job is run by one process at a time.
	Local bool
	// Limit bounds one run; 0: ten minutes.
	Limit time.Duration
}

const defaultLimit = 10 * time.Minute

// Leader elects the one process that runs the jobs which are not local.
type Leader interface {
	// Lead calls work if no other process leads, and reports whether it did. The
	// context of work ends when this process may not lead any longer; Lead returns
	// when work does.
	Lead(ctx context.Context, name string, work func(ctx context.Context)) (led bool, err error)
}

// Runner runs jobs, each in a goroutine of its own, so that one that fails or hangs
// holds up no other.
type Runner struct {
	name   string
	jobs   []Job
	leader Leader
	failed func(job string)
	logger *slog.Logger
}

// NewRunner checks the jobs. Of the processes that share a database and have a runner
// of this name, one leads. Failed counts a run that returned an error, by job.
func NewRunner(leader Leader, name string, jobs []Job, failed func(job string), logger *slog.Logger) (*Runner, error) {
	if name == "" || leader == nil || failed == nil || logger == nil {
		return nil, errors.New("maintenance: leader, name, failed and logger are required")
	}

	seen := map[string]bool{}
	for i, job := range jobs {
		if job.Name == "" || job.Run == nil || job.Every <= 0 || seen[job.Name] {
			return nil, fmt.Errorf("maintenance: job %d (%q) needs a name of its own, an interval and a function", i, job.Name)
		}

		seen[job.Name] = true
	}

	return &Runner{name: name, jobs: jobs, leader: leader, failed: failed, logger: logger}, nil
}

// electEvery is how often a process that does not lead tries to.
const electEvery = 2 * time.Second

// Run works until ctx ends, and returns when every job has.
func (r *Runner) Run(ctx context.Context) {
	var local sync.WaitGroup

	local.Go(func() { r.runAll(ctx, true) })
	defer local.Wait()

	for {
		led, err := r.leader.Lead(ctx, r.name, func(ctx context.Context) { r.runAll(ctx, false) })
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.logger.Warn("failed to run maintenance jobs as the leader, retrying", "error", err)
		case led:
			r.logger.Warn("lost the lead of the maintenance jobs, retrying")
		}

		if !sleep(ctx, electEvery) {
			return
		}
	}
}

// runAll runs the jobs of one kind until ctx ends.
func (r *Runner) runAll(ctx context.Context, local bool) {
	var running sync.WaitGroup

	for _, job := range r.jobs {
		if job.Local == local {
			running.Go(func() { r.repeat(ctx, job) })
		}
	}

	running.Wait()
}

func (r *Runner) repeat(ctx context.Context, job Job) {
	for sleep(ctx, job.Every) {
		if err := runOnce(ctx, job); err != nil && ctx.Err() == nil {
			r.failed(job.Name)
			r.logger.Warn("failed to finish a maintenance job, retrying", "job", job.Name, "error", err)
		}
	}
}

func runOnce(ctx context.Context, job Job) error {
	limit := job.Limit
	if limit == 0 {
		limit = defaultLimit
	}

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	return job.Run(ctx)
}

// sleep reports whether the pause has passed before ctx ended.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
