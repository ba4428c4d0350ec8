package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	// runsOfUser is how many runs of DAGs that are not over one user may have.
	runsOfUser    = 100
	dormantSettle = 60 * time.Second
	dormantWatch  = 60 * time.Second
	// dormantGoal is the share of one core that the service may use, in percent.
	dormantGoal = 2
)

// measureDormant takes the CPU of a service with many schedules that are not due and many
// runs that wait for their time.
func measureDormant(ctx context.Context, b *bench) error {
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

	if err := wait(ctx, dormantSettle); err != nil {
		return err
	}

	pid := b.server.Cmd.Process.Pid
	meter := proc.StartMeter(pid)

	if err := wait(ctx, dormantWatch); err != nil {
		return err
	}

	used, held := meter.Read(), proc.TreeMemory(pid)
	b.value("CPU while all wait, of one core", "%", 100*used.Tree.Sum().Seconds()/used.Wall.Seconds(), result.AtMost(dormantGoal))
	b.value("  of which the service", "%", 100*used.Tree.Service.Seconds()/used.Wall.Seconds(), nil)
	b.value("  of which PostgreSQL", "%", 100*used.Tree.Records.Seconds()/used.Wall.Seconds(), nil)
	b.value("memory then, PSS of all processes", "MiB", result.Mebibytes(held.PSS), nil)

	return nil
}

// sleepers makes scheduled tasks for a far day, and begins runs of a DAG that wait a month.
func (b *bench) sleepers(ctx context.Context, users []*target.Client, cron string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requestsAtOnce)

	for i, user := range users {
		count := min(runsOfUser, b.dormant-i*runsOfUser)

		group.Go(func() error {
			solution, err := user.PublishDAG(ctx, obj{
				"nodes": []obj{
					{"id": "start", "type": "start"},
					{"id": "end", "type": "end"},
					{"id": "wait", "type": "wait", "config": obj{"wait_s": 30 * 24 * 3600}},
				},
				"edges": []obj{{"id": "a", "source": "start", "target": "wait"}, {"id": "b", "source": "wait", "target": "end"}},
			})
			if err != nil {
				return err
			}

			for range count {
				if _, err := user.CreateTask(ctx, cron); err != nil {
					return err
				}

				if err := user.Call(ctx, http.MethodPost, "/api/prod_solution/dag/"+solution+"/runs", obj{}, nil); err != nil {
					return err
				}
			}

			return nil
		})
	}

	return group.Wait()
}
