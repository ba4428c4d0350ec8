// Package work keeps open work going: the reconciler and the checker restart what lost its
// workflow and end it when that repeats, waiters of ended chats are signalled, periodic jobs
// publish, archive and prune, deleted sessions are removed, and administrators look at every
// kind of work and end it. In a healthy service the checks find nothing: each finding is
// counted. It depends on no transport.
package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"everloop/internal/retry"
)

// Job is one piece of work that is repeated for as long as the service runs. It
// finds its work in the database and may be interrupted at any point.
type Job struct {
	Name  string
	Every time.Duration
	Run   func(ctx context.Context) error
	// Local reports that every process runs the job, for what is on its own disk or in
	// its memory. Any other job is run by one process at a time.
	Local bool
	// Limit bounds one run; 0: ten minutes.
	Limit time.Duration
}

const defaultLimit = 10 * time.Minute

// Lead calls work if no other process leads, and reports whether it did. The context of
// work ends when this process must not lead any longer; Lead returns when work does.
type Lead func(ctx context.Context, name string, work func(ctx context.Context)) (led bool, err error)

// Runner runs jobs, each in its own goroutine, so that one that fails or hangs
// holds up no other.
type Runner struct {
	name   string
	jobs   []Job
	lead   Lead
	failed func(job string)
	logger *slog.Logger
}

// NewRunner checks the jobs. Of the processes that share a database and have a runner
// of this name, one leads. Failed counts a run that returned an error, by job.
func NewRunner(lead Lead, name string, jobs []Job, failed func(job string), logger *slog.Logger) (*Runner, error) {
	if name == "" || lead == nil || failed == nil || logger == nil {
		return nil, errors.New("work: lead, name, failed and logger are required")
	}

	seen := map[string]bool{}
	for i, job := range jobs {
		if job.Name == "" || job.Run == nil || job.Every <= 0 || seen[job.Name] {
			return nil, fmt.Errorf("work: job %d (%q) needs a name of its own, an interval and a function", i, job.Name)
		}

		seen[job.Name] = true
	}

	return &Runner{name: name, jobs: jobs, lead: lead, failed: failed, logger: logger}, nil
}

// electEvery is how often a process that does not lead tries to.
const electEvery = 2 * time.Second

// Run works until ctx ends, and returns when every job has.
func (r *Runner) Run(ctx context.Context) {
	var local sync.WaitGroup

	local.Go(func() { r.runAll(ctx, true) })
	defer local.Wait()

	for {
		led, err := r.lead(ctx, r.name, func(ctx context.Context) { r.runAll(ctx, false) })
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.logger.Warn("failed to run maintenance jobs as the leader, retrying", "error", err)
		case led:
			r.logger.Warn("lost the lead of the maintenance jobs, retrying")
		}

		if !retry.Wait(ctx, electEvery) {
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
	for retry.Wait(ctx, job.Every) {
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
