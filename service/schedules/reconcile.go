package schedules

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"everloop/domain"
	"everloop/domain/cron"
	"everloop/domain/schedule"
)

const (
	// writeTimeout bounds how long a request waits until the Schedule has its change; the
	// repair writes what is left.
	writeTimeout = 2 * time.Second
	// lookTimeout bounds how long a request waits for what Temporal says of a Schedule.
	lookTimeout = time.Second
	// renewEarly is how long before the known clock changes end a Schedule gets the next ones.
	renewEarly = 30 * 24 * time.Hour
	// runNowPatience bounds how long a request waits for what became of the run that it asks for.
	runNowPatience, runNowLook = 5 * time.Second, 50 * time.Millisecond

	reconcilePage = 200
	maxConcurrent = 8
)

// write writes the change of a task to its Schedule. What fails is repaired; where many write, as
// while Temporal hangs, the repair does it.
func (s *Service) write(ctx context.Context, taskID string) {
	select {
	case s.pushes <- struct{}{}:
		defer func() { <-s.pushes }()
	default:
		return
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()

	if err := s.Push(ctx, taskID); err != nil {
		s.cfg.Logger.Warn("failed to write the schedule of a task, retrying", "task_id", taskID, "error", err)
	}
}

// Push writes the change of a task to its Schedule, if there is one.
func (s *Service) Push(ctx context.Context, taskID string) error {
	push, found, err := s.cfg.Store.ClaimPush(ctx, taskID)
	if err != nil || !found {
		return err
	}

	due, renewAt, err := s.push(ctx, push)
	if err != nil {
		return errors.Join(err, s.cfg.Store.ReleasePush(context.WithoutCancel(ctx), push))
	}

	return s.cfg.Store.Pushed(ctx, push, due, renewAt)
}

func (s *Service) push(ctx context.Context, push schedule.Push) (due string, renewAt *time.Time, err error) {
	if push.Deleted {
		return "", nil, s.cfg.Engine.DeleteSchedule(ctx, push.Task.ID)
	}

	var (
		wanted *cron.Plan
		note   string
	)

	if push.Task.PausedReason != nil {
		note = *push.Task.PausedReason
	} else if !push.Task.Enabled {
		note = "stopped by its owner"
	}

	if !push.Custom {
		plan, err := planOf(push.Task)
		if err != nil {
			return "", nil, err
		}

		if wanted = &plan; !plan.Until.IsZero() {
			at := plan.Until.Add(-renewEarly)
			renewAt = &at
		}
	}

	seen, err := s.cfg.Engine.PushSchedule(ctx, push.Task, wanted, note)

	return seen.Due, renewAt, err
}

func planOf(task schedule.Task) (cron.Plan, error) {
	parsed, err := cron.Parse(task.Cron)
	if err != nil {
		return cron.Plan{}, err
	}

	zone, err := time.LoadLocation(task.Timezone)
	if err != nil {
		return cron.Plan{}, err
	}

	return parsed.Plan(time.Now(), zone), nil
}

// look is Observe for a request, which is answered by the row when Temporal does not.
func (s *Service) look(ctx context.Context, taskID string) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()

	if _, err := s.Observe(ctx, taskID); err != nil {
		s.cfg.Logger.Debug("failed to read the schedule of a task", "task_id", taskID, "error", err)
	}
}

// Observe takes over what Temporal says of the Schedule of a task: what became of its ticks, and
// changes that were made there.
func (s *Service) Observe(ctx context.Context, taskID string) (schedule.Observed, error) {
	task, until, custom, err := s.cfg.Store.RecordedUntil(ctx, taskID)
	if domain.HasCode(err, "scheduled_task_not_found") {
		return schedule.Observed{}, nil
	}

	if err != nil {
		return schedule.Observed{}, err
	}

	at := time.Now()

	seen, found, err := s.cfg.Engine.DescribeSchedule(ctx, taskID)
	if err != nil {
		return seen, err
	}

	if !found {
		return seen, s.missing(ctx, taskID)
	}

	var ticks []time.Time
	if custom && task.JitterS > 0 {
		ticks = nil // Temporal gives them with their jitter: only their runs know the planned time
	} else if custom {
		ticks, err = s.cfg.Engine.MatchingTimes(ctx, taskID, until, at)
	} else {
		ticks, err = ticksOf(task, until, at)
	}

	if err != nil {
		return seen, err
	}

	plan, err := s.cfg.Store.Observe(ctx, taskID, seen, at, ticks)
	if err == nil {
		s.follow(ctx, plan)
	}

	return seen, err
}

// missing decides about a task whose Schedule Temporal does not have. One that an operator has deleted is
// deleted here; one that Temporal has lost, with its data, is made again.
func (s *Service) missing(ctx context.Context, taskID string) error {
	why, err := s.cfg.Engine.MissingSchedule(ctx, taskID)
	if err != nil {
		return err
	}

	switch why {
	case schedule.MissingDeleted:
		if err := s.cfg.Store.DeletedInTemporal(ctx, taskID); err != nil {
			return err
		}

		return s.Push(ctx, taskID)
	case schedule.MissingLost:
		return s.cfg.Store.ForgetSchedule(ctx, taskID)
	default:
		return nil
	}
}

// RunNow runs a task now, by its overlap policy, and returns what became of that.
func (s *Service) RunNow(ctx context.Context, ownerID, id string) (schedule.Run, error) {
	run, err := s.cfg.Store.AskRun(ctx, ownerID, id)
	if err != nil {
		return run, err
	}

	waiting, cancel := context.WithTimeout(ctx, runNowPatience)
	defer cancel()

	if err := s.Trigger(waiting, run.ID); err != nil {
		s.cfg.Logger.Warn("failed to trigger a scheduled task, retrying", "task_id", id, "error", err)
		return run, nil
	}

	look := time.NewTicker(runNowLook)
	defer look.Stop()

	for {
		seen, err := s.Observe(waiting, id)
		if err != nil {
			break
		}

		waits, err := s.cfg.Store.WaitsForStart(waiting, run.ID)
		if err != nil || !waits || seen.Buffered > 0 {
			break
		}

		select {
		case <-waiting.Done():
		case <-look.C:
			continue
		}

		break
	}

	return s.cfg.Store.ScheduledRun(ctx, run.ID)
}

// Trigger has the Schedule of a task start a run that was asked for.
func (s *Service) Trigger(ctx context.Context, runID string) error {
	taskID, nominal, _ := schedule.SplitRunID(runID)
	if err := s.Push(ctx, taskID); err != nil {
		return err
	}

	if err := s.cfg.Engine.TriggerSchedule(ctx, taskID, nominal); err != nil {
		return err
	}

	return s.cfg.Store.RunTriggered(ctx, runID)
}

// reconciled is what the job that follows Schedules has seen.
type reconciled struct {
	mu     sync.Mutex
	states map[string]string // of the list, by task
	token  []byte            // of the next page
	listed map[string]bool   // in this pass
}

// Reconcile writes pending changes to their Schedules, triggers runs that were asked for, and follows what
// is changed in Temporal: a page of the list of Schedules each time. A Schedule is read when its entry has
// changed.
func (s *Service) Reconcile(ctx context.Context) error {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()

	var faults []error

	faults = append(faults, s.cfg.Store.RenewSchedules(ctx))

	pending, err := s.cfg.Store.PendingSchedules(ctx, "", reconcilePage)
	faults = append(faults, err, each(ctx, pending, s.Push))

	asked, err := s.cfg.Store.AskedRuns(ctx, "", reconcilePage)
	faults = append(faults, err, each(ctx, asked, s.Trigger))

	return errors.Join(append(faults, s.followList(ctx), s.repeatStops(ctx))...)
}

func (s *Service) followList(ctx context.Context) error {
	if s.seen.token == nil {
		s.seen.listed = map[string]bool{}
		if s.seen.states == nil {
			s.seen.states = map[string]string{}
		}
	}

	page, next, err := s.cfg.Engine.ListSchedules(ctx, s.seen.token, reconcilePage)
	if err != nil {
		s.seen.token = nil
		return err
	}

	var changed []string

	for _, entry := range page {
		if s.seen.listed[entry.TaskID] = true; s.seen.states[entry.TaskID] != entry.State {
			changed, s.seen.states[entry.TaskID] = append(changed, entry.TaskID), entry.State
		}
	}

	observe := func(ctx context.Context, id string) error {
		_, err := s.Observe(ctx, id)
		return err
	}

	err = each(ctx, changed, observe)
	if err != nil {
		for _, id := range changed { // again the next time
			delete(s.seen.states, id)
		}
	}

	if s.seen.token = next; len(next) > 0 {
		return err
	}

	s.seen.token = nil
	maps.DeleteFunc(s.seen.states, func(id, _ string) bool { return !s.seen.listed[id] })

	return errors.Join(err, s.lookForMissing(ctx, observe))
}

// lookForMissing reads the Schedules that a pass over the list has not seen.
func (s *Service) lookForMissing(ctx context.Context, observe func(ctx context.Context, id string) error) error {
	for after := ""; ; {
		ids, err := s.cfg.Store.SyncedSchedules(ctx, after, reconcilePage)
		if err != nil || len(ids) == 0 {
			return err
		}

		after = ids[len(ids)-1]

		var missing []string

		for _, id := range ids {
			if !s.seen.listed[id] {
				missing = append(missing, id)
			}
		}

		if err := each(ctx, missing, observe); err != nil {
			return err
		}
	}
}

// repeatStops stops what cancelled runs have started and what continues.
func (s *Service) repeatStops(ctx context.Context) error {
	runs, err := s.cfg.Store.CancelledRuns(ctx)
	for _, run := range runs {
		err = errors.Join(err, s.Stop(ctx, run))
	}

	started, listed := s.cfg.Store.CancelledTargets(ctx)
	for _, of := range started {
		err = errors.Join(err, s.cfg.Targets.Stop(ctx, of))
	}

	err = errors.Join(err, listed)

	return err
}

// each calls do for all ids, some concurrently.
func each(ctx context.Context, ids []string, do func(ctx context.Context, id string) error) error {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		faults []error
	)

	slots := make(chan struct{}, maxConcurrent)
	for _, id := range ids {
		slots <- struct{}{}

		group.Go(func() {
			defer func() { <-slots }()

			if err := do(ctx, id); err != nil {
				mu.Lock()
				defer mu.Unlock()

				faults = append(faults, err)
			}
		})
	}

	group.Wait()

	return errors.Join(faults...)
}

// maxTicks is how many ticks one look records.
const maxTicks = 500

// ticksOf returns the ticks of a task after one time and until another, the first of them.
func ticksOf(task schedule.Task, after, until time.Time) (ticks []time.Time, err error) {
	parsed, err := cron.Parse(task.Cron)
	if err != nil {
		return nil, err
	}

	zone, err := time.LoadLocation(task.Timezone)
	if err != nil {
		return nil, err
	}

	for len(ticks) < maxTicks {
		tick, due := parsed.Next(after, zone)
		if !due || tick.After(until) || task.ExpiresAt != nil && !tick.Before(*task.ExpiresAt) {
			break
		}

		after, ticks = tick, append(ticks, tick.UTC())
	}

	return ticks, nil
}
