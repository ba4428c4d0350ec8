package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	// runsOfUser is how many runs of DAGs that are not over one user may have.
	runsOfUser = 100
	// dormantSettle is how long the service rests before its CPU is taken for dormantWatch:
	// until then timers of Temporal run out that limited the steps of what was begun.
	dormantSettle = 8 * time.Minute
	dormantWatch  = 60 * time.Second
	// dormantPatience is how long Temporal may take for all schedules.
	dormantPatience = 10 * time.Minute
	// dormantGoal is the share of one core that the service may use, in percent.
	dormantGoal = 2
)

// measureDormant takes the CPU of a service with many schedules that are not due and many
// runs that wait for their time, beside that of the same service before.
func measureDormant(ctx context.Context, b *bench) error {
	idle, err := b.rest(ctx, idleSettle)
	if err != nil {
		return err
	}

	users, err := b.users(ctx, (b.dormant+runsOfUser-1)/runsOfUser)
	if err != nil {
		return err
	}

	began := time.Now()
	due := began.UTC().AddDate(0, 6, 0)

	if err := b.sleepers(ctx, users, fmt.Sprintf("0 0 %d %d *", min(due.Day(), 28), due.Month())); err != nil {
		return err
	}

	b.value(fmt.Sprintf("creation of %d schedules and as many runs", b.dormant), "s", time.Since(began).Seconds(), nil)

	if err := b.synced(ctx); err != nil {
		return err
	}

	b.value("  until Temporal has all schedules", "s", time.Since(began).Seconds(), nil)

	used, err := b.rest(ctx, dormantSettle)
	if err != nil {
		return err
	}

	share := func(of time.Duration, u proc.Usage) float64 { return 100 * of.Seconds() / u.Wall.Seconds() }
	b.compare("CPU while all wait, of one core; bare: before", "%", share(used.Tree.Sum(), used), share(idle.Tree.Sum(), idle),
		result.AtMost(dormantGoal))
	b.compare("  of which the service", "%", share(used.Tree.Service, used), share(idle.Tree.Service, idle), nil)
	b.compare("  of which PostgreSQL", "%", share(used.Tree.Records, used), share(idle.Tree.Records, idle), nil)
	b.value("other programs' share of the machine", "", used.Foreign, nil)
	b.value("memory then, PSS of all processes", "MiB", result.Mebibytes(proc.TreeMemory(b.server.Cmd.Process.Pid).PSS), nil)

	return nil
}

// rest lets the service settle, and takes its CPU then.
func (b *bench) rest(ctx context.Context, settle time.Duration) (used proc.Usage, err error) {
	if err := wait(ctx, settle); err != nil {
		return used, err
	}

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)
	err = wait(ctx, dormantWatch)

	return meter.Read(), err
}

// synced waits until Temporal has all schedules.
func (b *bench) synced(ctx context.Context) error {
	for began := time.Now(); ; {
		missing, err := b.client.Metric(ctx, unsynced)
		if err != nil || missing == 0 {
			return err
		}

		if time.Since(began) > dormantPatience {
			return errors.New("Temporal did not get all schedules")
		}

		if err := wait(ctx, time.Second); err != nil {
			return err
		}
	}
}

// sleepers makes scheduled tasks for a far day, and begins runs of a DAG that wait a month.
func (b *bench) sleepers(ctx context.Context, users []*target.Client, cron string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentRequests)

	month := target.Object{"type": "wait", "config": target.Object{"wait_s": 30 * 24 * 3600}}

	for i, user := range users {
		count := min(runsOfUser, b.dormant-i*runsOfUser)

		group.Go(func() error {
			solution, err := user.PublishDAG(ctx, target.Row([]target.Object{maps.Clone(month)}))
			if err != nil {
				return err
			}

			for range count {
				if _, err := user.CreateTask(ctx, cron); err != nil {
					return err
				}

				if _, err := user.StartDAG(ctx, solution); err != nil {
					return err
				}
			}

			return nil
		})
	}

	return group.Wait()
}
