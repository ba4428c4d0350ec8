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
	// schedulePatience is how long the runs of one minute may take.
	schedulePatience = 10 * time.Minute
	// maxConcurrentRequests is how many requests prepare a measurement at a time.
	maxConcurrentRequests = 8
	// spreadS is over how many seconds of their minute the tasks are spread.
	spreadS = 59
)

// unsynced is the metric of schedules that Temporal does not have yet as they are to be.
const unsynced = `everloop_schedule_drift{kind="unsynced"}`

// measureSchedules takes how long after its time a run starts when many tasks are due in
// one minute: at one second, and spread over the minute by their jitter.
func measureSchedules(ctx context.Context, b *bench) error {
	users, err := b.users(ctx, (b.tasks+tasksOfUser-1)/tasksOfUser)
	if err != nil {
		return err
	}

	tasks := make([]scheduledTask, b.tasks)
	for i := range tasks {
		tasks[i].owner = users[i/tasksOfUser]
	}

	began := time.Now()

	due, err := b.plan(ctx, tasks, func(ctx context.Context, task *scheduledTask, cron string) (err error) {
		task.id, err = task.owner.CreateTask(ctx, cron)
		return err
	})
	if err != nil {
		return err
	}

	b.value(
		fmt.Sprintf("creation of %d scheduled tasks", len(tasks)),
		"ms",
		result.Milliseconds(time.Since(began))/float64(len(tasks)),
		nil,
	)

	if err := b.runTasks(ctx, tasks, due, "at one second", 0); err != nil {
		return err
	}

	due, err = b.plan(ctx, tasks, func(ctx context.Context, task *scheduledTask, cron string) error {
		return task.owner.MoveTask(ctx, task.id, cron, spreadS)
	})
	if err != nil {
		return err
	}

	return b.runTasks(ctx, tasks, due, fmt.Sprintf("spread over %d s", spreadS), spreadS*time.Second)
}

// scheduledTask is a task with the client of its owner.
type scheduledTask struct {
	id    string
	owner *target.Client
}

// plan gives every task the same minute, which is far enough away to do so.
func (b *bench) plan(
	ctx context.Context, tasks []scheduledTask, set func(ctx context.Context, task *scheduledTask, cron string) error,
) (due time.Time, err error) {
	lead := 30*time.Second + time.Duration(len(tasks))*50*time.Millisecond
	due = time.Now().UTC().Add(lead).Truncate(time.Minute).Add(time.Minute)
	cron := fmt.Sprintf("%d %d %d %d *", due.Minute(), due.Hour(), due.Day(), due.Month())

	group, requests := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentRequests)

	for i := range tasks {
		group.Go(func() error { return set(requests, &tasks[i], cron) })
	}

	return due, group.Wait()
}

// runTasks measures the runs of tasks that are due, in turns with a baseline that has as
// much to do at these times.
func (b *bench) runTasks(ctx context.Context, tasks []scheduledTask, due time.Time, how string, over time.Duration) error {
	if err := wait(ctx, time.Until(due.Add(-time.Second))); err != nil {
		return err
	}

	missing, err := b.client.Metric(ctx, unsynced)
	if err != nil {
		return err
	}

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)

	var drifts, began result.Sample

	sessions := make([]string, len(tasks))

	for i, task := range tasks {
		run, err := task.owner.Ended(ctx, task.id, due, schedulePatience)
		if err != nil {
			return err
		}

		sessions[i] = run.Session
		drifts = append(drifts, run.DriftMS)
	}

	all, used := time.Since(due), meter.Read()

	if over == 0 { // with a jitter the time of each is not known here
		for i, task := range tasks {
			at, err := task.owner.ChatBegan(ctx, sessions[i])
			if err != nil {
				return err
			}

			began.Add(at.Sub(due))
		}
	}

	bare, ended, err := b.bareRuns(ctx, len(tasks), over)
	if err != nil {
		return fmt.Errorf("the baseline: %w", err)
	}

	b.samples(fmt.Sprintf("start of %d runs after their times, %s", len(tasks), how), "ms", drifts, bare, nil)
	b.value("  99th percentile", "ms", drifts.Quantile(0.99), result.AtMost(scheduleGoal))

	if over == 0 {
		b.value("  99th percentile, until the chat began", "ms", began.Quantile(0.99), result.AtMost(scheduleGoal))
	}

	b.compare("  all completed after", "s", all.Seconds(), ended.Seconds(), nil)
	b.value("  schedules that Temporal did not have in time", "", missing, nil)
	b.cost("scheduled run", used, len(tasks))

	return nil
}

// bareRuns is the baseline: as many conversations of a process that only waits for their
// times. It gives how long after its time the message of each was durable, and when all
// had ended.
func (b *bench) bareRuns(ctx context.Context, n int, over time.Duration) (starts result.Sample, ended time.Duration, err error) {
	began, kept := time.Now(), make([]time.Duration, n)

	many := maxConcurrent(n, func(i int) (*target.Chat, error) {
		due := began.Add(over * time.Duration(i) / time.Duration(n))
		if err := wait(ctx, time.Until(due)); err != nil {
			return nil, err
		}

		seen, err := b.bare.conversation().chat(ctx, target.HelloScript, nil)
		if err == nil {
			kept[i] = seen.Kept.Sub(due)
		}

		return seen, err
	})

	for _, delay := range kept {
		starts.Add(delay)
	}

	return starts, many.wall, errors.Join(many.failures...)
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

		err := b.client.Call(ctx, http.MethodPost, "/api/admin/users", target.Object{"username": fmt.Sprintf("bench-%d", i)}, &made)
		if err != nil {
			return nil, err
		}

		clients[i] = target.NewClient(b.server.URL(), made.Key.Plaintext)
	}

	return clients, nil
}
