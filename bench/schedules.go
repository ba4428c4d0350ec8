package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	// tasksOfUser is how many scheduled tasks one user may have.
	tasksOfUser = 200
	// scheduleGoal is the delay within which 99 of 100 runs start, in milliseconds.
	scheduleGoal = 2000
	// schedulePatience is how long the runs of one tick may take.
	schedulePatience = 10 * time.Minute
	// requestsAtOnce is how many requests prepare a measurement at a time.
	requestsAtOnce = 8
)

// measureSchedules takes how long after its time a run starts when many tasks are due at
// the same second.
func measureSchedules(ctx context.Context, b *bench) error {
	users, err := b.users(ctx, (b.tasks+tasksOfUser-1)/tasksOfUser)
	if err != nil {
		return err
	}
	// Creating the tasks must be over well before they are due.
	lead := 90*time.Second + time.Duration(b.tasks)*50*time.Millisecond
	due := time.Now().UTC().Add(lead).Truncate(time.Minute).Add(time.Minute)
	began := time.Now()

	tasks, err := b.createTasks(ctx, users, due)
	if err != nil {
		return err
	}

	b.value(
		fmt.Sprintf("creation of %d scheduled tasks", len(tasks)),
		"ms",
		result.Milliseconds(time.Since(began))/float64(len(tasks)),
		nil,
	)

	if err := wait(ctx, time.Until(due.Add(-time.Second))); err != nil {
		return err
	}

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)

	var delays result.Sample

	for _, task := range tasks {
		drift, err := task.ended(ctx, due)
		if err != nil {
			return err
		}

		delays = append(delays, drift)
	}

	b.samples(fmt.Sprintf("start of %d runs after their common time", len(tasks)), "ms", delays, nil, nil)
	b.value("  99th percentile", "ms", delays.Quantile(0.99), result.AtMost(scheduleGoal))
	b.value("  all completed after", "s", time.Since(due).Seconds(), nil)
	b.cost("scheduled run", meter.Read(), len(tasks))

	return nil
}

// scheduledTask is a task with the client of its owner.
type scheduledTask struct {
	id    string
	owner *target.Client
}

// createTasks makes tasks that are all due at the same minute of the day.
func (b *bench) createTasks(ctx context.Context, users []*target.Client, due time.Time) ([]scheduledTask, error) {
	tasks := make([]scheduledTask, b.tasks)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requestsAtOnce)

	for i := range tasks {
		owner := users[i/tasksOfUser]

		group.Go(func() (err error) {
			tasks[i].owner = owner
			tasks[i].id, err = owner.CreateTask(ctx, fmt.Sprintf("%d %d %d %d *", due.Minute(), due.Hour(), due.Day(), due.Month()))

			return err
		})
	}

	return tasks, group.Wait()
}

// ended waits until the run of a tick is over, and gives its delay in milliseconds.
func (t scheduledTask) ended(ctx context.Context, due time.Time) (float64, error) {
	for {
		var runs []struct {
			Status  string    `json:"status"`
			Outcome string    `json:"outcome"`
			For     time.Time `json:"scheduled_for"`
			DriftMS float64   `json:"drift_ms"`
		}

		if err := t.owner.Call(ctx, http.MethodGet, "/api/scheduled-tasks/"+t.id+"/runs", nil, &runs); err != nil {
			return 0, err
		}

		if len(runs) > 0 && runs[0].Status != "running" {
			if run := runs[0]; run.Status != "completed" || !run.For.Equal(due) {
				return 0, fmt.Errorf("the run of task %s for %s is %s (%s)", t.id, run.For, run.Status, run.Outcome)
			}

			return runs[0].DriftMS, nil
		}

		if time.Since(due) > schedulePatience {
			return 0, errors.New("a scheduled run did not end")
		}

		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// users makes users, and gives the client of each.
func (b *bench) users(ctx context.Context, count int) ([]*target.Client, error) {
	clients := make([]*target.Client, count)

	for i := range clients {
		var made struct {
			Key struct {
				Plaintext string `json:"plaintext"`
			} `json:"api_key"`
		}

		err := b.client.Call(ctx, http.MethodPost, "/api/admin/users", map[string]any{"username": fmt.Sprintf("bench-%d", i)}, &made)
		if err != nil {
			return nil, err
		}

		clients[i] = target.NewClient(b.server.URL(), made.Key.Plaintext)
	}

	return clients, nil
}
